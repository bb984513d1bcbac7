"""A broker has a token before it connects to others, and another one before that ends."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkalite.broker.token_login import TokenLogin
from kafkalite.common.authentication import SaslError
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import deferred
from kafkalite.common.token_endpoint import ClientCredentials, RefusedTokenError
from kafkalite.security.oauth_login import RefreshSettings
from kafkalite.testing.clock import ManualClock
from tests.network.fakes import ManualExecutor
from tests.security.test_oauth_login import jwt

CREDENTIALS = ClientCredentials("https://user:planted@idp/token?key=planted", "broker", "planted")


class LoginFixture:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.executor = ManualExecutor()
        self.answers: list[str | Exception] = []
        self.login = TokenLogin(
            CREDENTIALS, RefreshSettings(window_jitter=0), self.executor, self.clock, random.Random(1), self.fetch
        )
        self.started: Any = deferred(self.login.start())
        self.started.addErrback(lambda failure: failure.value)

    def fetch(self, credentials: ClientCredentials) -> str:
        assert credentials is CREDENTIALS
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def work(self, answer: str | Exception) -> None:
        self.answers.append(answer)
        self.executor.do_one()

    def token(self, life: float, name: str = "broker") -> str:
        return jwt({"sub": name, "exp": self.clock.time_ms() / 1000 + life})

    @property
    def shown(self) -> bytes:
        return self.login.client().evaluate(None) or b""


def test_the_start_waits_for_the_first_token() -> None:
    fixture = LoginFixture()
    with pytest.raises(SaslError, match="token endpoint at idp has given no token yet"):
        assert fixture.shown
    fixture.work(OSError("refused"))
    assert not fixture.started.called
    fixture.clock.advance(0.1)
    token = fixture.token(100)
    fixture.work(token)
    assert fixture.started.called
    assert fixture.shown == f"n,,\x01auth=Bearer {token}\x01\x01".encode()


@pytest.mark.parametrize("error", [OSError("refused"), ValueError("no JSON")])
def test_without_a_token_the_start_fails_after_the_time_for_it(error: Exception) -> None:
    fixture = LoginFixture()
    attempts = 0
    while not fixture.started.called:
        fixture.work(error)
        attempts += 1
        fixture.clock.advance(0.1 * 2 ** (attempts - 1))
    assert attempts == 8
    assert isinstance(fixture.started.result, StartupError)
    assert "the token endpoint at idp gives no token" in str(fixture.started.result)
    assert "planted" not in str(fixture.started.result)


def test_a_refusal_ends_the_start_at_once() -> None:
    fixture = LoginFixture()
    fixture.work(RefusedTokenError("the token endpoint answers 401 Unauthorized"))
    assert str(fixture.started.result).endswith(": the token endpoint answers 401 Unauthorized")


def test_a_token_is_replaced_before_it_ends_and_kept_while_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    fixture = LoginFixture()
    first = fixture.token(100)
    fixture.work(first)
    fixture.clock.advance(79)
    assert not fixture.executor.work
    fixture.clock.advance(1.1)
    fixture.work(RefusedTokenError("the token endpoint answers 403 Forbidden"))
    assert "the old one is used until it ends" in caplog.text
    assert "planted" not in caplog.text
    assert first.encode() in fixture.shown
    fixture.clock.advance(10)
    second = fixture.token(100, "again")
    fixture.work(second)
    assert second.encode() in fixture.shown
    fixture.login.close()
    fixture.clock.advance(1000)
    assert not fixture.executor.work
