"""Tokens by which brokers log in to one another: their making, their times, and what is sent."""

from __future__ import annotations

import base64
import json

import pytest

from kafkalite.common.authentication import SaslError
from kafkalite.security.oauth_bearer import OAuthBearerSaslServer, TokenError, UnsecuredTokens
from kafkalite.security.oauth_login import LoginToken, OAuthBearerSaslClient, RefreshSettings, UnsecuredLogin

NOW_MS = 1_700_000_000_000


def jwt(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


def client(token: LoginToken, **extensions: str) -> OAuthBearerSaslClient:
    return OAuthBearerSaslClient(lambda: token, extensions)


def test_the_server_takes_what_the_client_sends() -> None:
    token = UnsecuredLogin.parse(
        {"unsecuredLoginStringClaim_sub": "broker", "unsecuredLoginListClaim_scope": "|a|b", "other": "x"}
    ).token(NOW_MS)
    server = OAuthBearerSaslServer(UnsecuredTokens(required_scope=frozenset({"a"})).validate)
    made = client(token, traceId="7")
    first = made.evaluate(None)
    assert first is not None
    assert first.endswith(b"\x01traceId=7\x01\x01")
    assert made.evaluate(server.evaluate(first, NOW_MS)) is None
    assert (server.authorization_id, server.expires_at_ms) == ("broker", NOW_MS + 3_600_000)


def test_a_refused_token_is_answered_as_the_protocol_wants() -> None:
    token = UnsecuredLogin({"sub": "broker"}, lifetime_seconds=1).token(NOW_MS)
    server = OAuthBearerSaslServer(UnsecuredTokens().validate)
    made = client(token)
    answer = made.evaluate(server.evaluate(made.evaluate(None) or b"", NOW_MS + 2000))
    assert answer == b"\x01"
    with pytest.raises(SaslError, match="invalid_token"):
        server.evaluate(answer, NOW_MS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unsecuredLoginStringClaim_sub": " "},
        {"unsecuredLoginNumberClaim_sub": "1"},
        {"unsecuredLoginStringClaim_sub": "b", "unsecuredLoginStringClaim_iat": "1"},
        {"unsecuredLoginStringClaim_sub": "b", "unsecuredLoginLifetimeSeconds": "long"},
        {"unsecuredLoginStringClaim_sub": "b", "unsecuredLoginPrincipalClaimName": "user"},
        {"unsecuredLoginStringClaim_sub": "b", "unsecuredLoginExtension_auth": "x"},
        {"unsecuredLoginStringClaim_sub": "b", "unsecuredLoginExtension_a1": "x"},
    ],
)
def test_wrong_options_of_unsecured_logins_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        UnsecuredLogin.parse(options)


def test_a_signed_token_tells_its_times_without_its_key() -> None:
    token = LoginToken.parse(f" {jwt({'sub': 'b', 'exp': 200, 'iat': 100})}\n", "sub", NOW_MS)
    assert token[1:] == (100_000, 200_000)
    assert not token.text.endswith("\n")
    assert LoginToken.parse(jwt({"user": "b", "exp": 200}), "user", NOW_MS).begins_at_ms == NOW_MS


@pytest.mark.parametrize(
    "text",
    ["", "a.b", "a.b.c", "a\x01b.c.d", jwt([]), jwt({"sub": "b"}), jwt({"exp": 1}), jwt({"sub": 1, "exp": 1})],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(TokenError) as caught:
        LoginToken.parse(text, "sub", NOW_MS)
    assert len(text) < 4 or text not in str(caught.value)


@pytest.mark.parametrize(
    ("life", "settings", "chance", "delay"),
    [
        (3600, RefreshSettings(), 0.0, 2880),
        (3600, RefreshSettings(), 1.0, 3060),
        (3600, RefreshSettings(window_factor=1.0), 0.0, 3300),
        (400, RefreshSettings(buffer_seconds=0, min_period_seconds=390), 0.0, 390),
        (60, RefreshSettings(), 0.0, 48),
        (60, RefreshSettings(), 1.0, 51),
        (-5, RefreshSettings(), 0.0, -4),
    ],
)
def test_a_token_is_replaced_when_kafka_replaces_it(
    life: int, settings: RefreshSettings, chance: float, delay: int
) -> None:
    token = LoginToken("", NOW_MS, NOW_MS + life * 1000)
    assert settings.refresh_at_ms(token, NOW_MS, chance) == NOW_MS + delay * 1000
