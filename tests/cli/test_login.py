"""Java's login module in a file of client properties becomes user and password for the Python clients."""

from __future__ import annotations

import pytest

from kafkalite.cli.clients import with_login
from kafkalite.cli.main import UsageError
from kafkalite.cli.token_provider import TokenProvider
from kafkalite.common.token_endpoint import ClientCredentials
from tests.security.test_oauth_login import jwt

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def test_user_and_password_of_the_login_module_are_taken_over() -> None:
    given = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{MODULE} username="a\\"b" password="p;q";'}
    assert with_login(given) == {"sasl.mechanism": "PLAIN", "sasl.username": 'a"b', "sasl.password": "p;q"}
    assert with_login({"sasl.username": "x"}) == {"sasl.username": "x"}


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URL = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://idp/token"}


def test_the_login_module_of_oauthbearer_becomes_librdkafkas_settings() -> None:
    jaas = f'{OAUTH} clientId="a" clientSecret="planted" scope="s";'
    handler = {"sasl.login.callback.handler.class": "org.apache.kafka.X"}
    assert with_login({**URL, **handler, "sasl.jaas.config": jaas}) == {
        **URL,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "a",
        "sasl.oauthbearer.client.secret": "planted",
        "sasl.oauthbearer.scope": "s",
    }
    for url, module in ((URL, f'{OAUTH} clientId="a";'), ({}, jaas)):
        with pytest.raises(UsageError, match="needs clientId and clientSecret, beside") as caught:
            with_login({**url, "sasl.jaas.config": module})
        assert "planted" not in str(caught.value)


def test_a_token_is_fetched_again_when_most_of_its_life_is_over() -> None:
    now, answers = [1000.0], [jwt({"sub": "a", "exp": 1100}), jwt({"sub": "a", "exp": 1200}), "no token"]
    provider = TokenProvider(ClientCredentials("https://idp"), lambda _: answers.pop(0), lambda: now[0])
    first = provider.token()
    now[0] = 1079
    assert provider.token() == first
    now[0] = 1080
    assert provider.token() != first
    now[0] = 1200
    with pytest.raises(UsageError, match="no token for OAUTHBEARER: the token is no signed JWT"):
        provider.token()


@pytest.mark.parametrize(
    "text",
    [
        "planted",
        f'{MODULE} username="a";',
        f'{MODULE} username="a" password="planted" tokenauth="true";',
    ],
)
def test_other_login_modules_are_refused_without_showing_a_password(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_login({"sasl.jaas.config": text})
    assert "planted" not in str(caught.value)
