"""A JWKS is fetched off the reactor, from time to time, and after a failure sooner."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest

from kafkalite.broker.jwks import JwksRefresher, fetch_jwks, jwks_validator
from kafkalite.security.oauth_bearer import JwksSettings, TokenError
from kafkalite.testing.clock import ManualClock
from tests.network.fakes import ManualExecutor


class RefresherFixture:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.executor = ManualExecutor()
        self.loaded: list[bytes] = []
        self.answers: list[bytes | Exception] = []
        self.refresher = JwksRefresher(
            "https://user:planted@idp/jwks?key=planted",
            self.loaded.append,
            self.executor,
            self.clock,
            60_000,
            1000,
            10_000,
            self.fetch,
        )
        self.refresher.start()

    def fetch(self, _: str) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def work(self, *answers: bytes | Exception) -> None:
        self.answers += answers
        for _ in answers:
            self.executor.do_one()


def test_keys_are_fetched_from_time_to_time() -> None:
    fixture = RefresherFixture()
    fixture.work(b"one")
    fixture.clock.advance(59)
    assert not fixture.executor.work
    fixture.clock.advance(1)
    fixture.work(b"two")
    assert fixture.loaded == [b"one", b"two"]


def test_after_a_failure_the_fetch_is_repeated_ever_later(caplog: pytest.LogCaptureFixture) -> None:
    fixture = RefresherFixture()
    for pause in (1, 2, 4, 8, 10, 10):
        fixture.work(OSError("refused"))
        fixture.clock.advance(pause - 0.5)
        assert not fixture.executor.work
        fixture.clock.advance(0.5)
    fixture.work(b"one")
    assert fixture.loaded == [b"one"]
    assert "the JWKS of idp could not be read" in caplog.text
    assert "planted" not in caplog.text


def test_unknown_keys_cause_a_fetch_every_ten_seconds_at_most() -> None:
    fixture = RefresherFixture()
    fixture.refresher.expedite()
    fixture.work(b"one")
    fixture.clock.advance(9.9)
    fixture.refresher.expedite()
    assert not fixture.executor.work
    fixture.clock.advance(0.1)
    fixture.refresher.expedite()
    fixture.refresher.expedite()
    fixture.work(b"two")
    assert not fixture.executor.work
    assert fixture.loaded == [b"one", b"two"]


def test_a_file_is_read_and_other_schemes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(b"{}")
    assert fetch_jwks(file.as_uri()) == b"{}"
    with pytest.raises(ValueError, match="https, http, file"):
        fetch_jwks("ftp://idp/jwks")
    file.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ValueError, match="larger"):
        fetch_jwks(file.as_uri())


def test_a_token_with_an_unknown_key_causes_a_fetch(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(b"{}")
    settings = JwksSettings(file.as_uri(), retry_ms=60_000, max_retry_ms=60_000)
    executor, clock = ManualExecutor(), ManualClock()
    validate = jwks_validator(settings, executor, clock)
    executor.do_one()
    clock.advance(10)
    assert not executor.work
    token = jwt.encode({}, "s" * 32, algorithm="HS256", headers={"kid": "new"})
    with pytest.raises(TokenError, match="not in the JWKS"):
        validate(token, 0)
    assert len(executor.work) == 1
