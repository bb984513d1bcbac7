"""OAUTHBEARER: the exchange, tokens without a signature, and tokens that a key of a JWKS has signed."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from kafkalite.common.authentication import SaslError
from kafkalite.security.oauth_bearer import (
    LONGEST_TOKEN,
    BearerToken,
    JwksSettings,
    OAuthBearerSaslServer,
    TokenError,
    UnsecuredTokens,
)
from kafkalite.security.sasl_mechanism import SaslAuthenticationError
from kafkalite.security.signed_tokens import SignedTokens, UnknownKeyError

NOW = 1_700_000_000_000
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
OTHER = rsa.generate_private_key(65537, 2048)
JWKS = json.dumps(
    {
        "keys": [
            {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "rsa", "alg": "RS256", "use": "sig"},
            {**ECAlgorithm.to_jwk(EC.public_key(), as_dict=True), "kid": "ec", "alg": "ES256"},
            {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "enc", "alg": "RS256", "use": "enc"},
        ]
    }
).encode()


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsecured(alg: str = "none", signature: str = "", **claims: object) -> str:
    return f"{part({'alg': alg})}.{part({'sub': 'alice', 'exp': NOW // 1000 + 60, **claims})}.{signature}"


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **claims: object) -> str:
    body = {"sub": "alice", "iss": "idp", "aud": "kafka", "iat": NOW // 1000, "exp": NOW // 1000 + 60, **claims}
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode({name: value for name, value in body.items() if value is not None}, key, algorithm, headers)


def validator(audiences: tuple[str, ...] = ("kafka",), issuer: str = "idp") -> SignedTokens:
    tokens = SignedTokens(JwksSettings("https://idp/jwks", audiences, issuer))
    tokens.load(JWKS)
    return tokens


def first_message(token: str) -> bytes:
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


def test_a_good_token_logs_in_until_it_ends() -> None:
    server = OAuthBearerSaslServer(UnsecuredTokens().validate)
    assert server.evaluate(first_message(unsecured()), NOW) == b""
    assert (server.authorization_id, server.expires_at_ms) == ("alice", NOW + 60_000)


def test_a_bad_token_is_answered_and_then_refused() -> None:
    server = OAuthBearerSaslServer(UnsecuredTokens().validate)
    token = unsecured(exp=1)
    assert server.evaluate(first_message(token), NOW) == b'{"status":"invalid_token"}'
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        server.evaluate(b"\x01", NOW)
    assert not server.is_complete


@pytest.mark.parametrize(("authzid", "is_right"), [("alice", True), ("bob", False), ("al=2Cice", False)])
def test_an_authorization_id_must_be_the_tokens(authzid: str, is_right: bool) -> None:
    server = OAuthBearerSaslServer(UnsecuredTokens().validate)
    response = f"n,a={authzid},\x01auth=Bearer {unsecured()}\x01traceId=1\x01\x01".encode()
    if is_right:
        assert server.evaluate(response, NOW) == b""
    else:
        with pytest.raises(SaslAuthenticationError):
            server.evaluate(response, NOW)


def test_a_token_of_absurd_length_is_refused_unread() -> None:
    server = OAuthBearerSaslServer(lambda _token, _now: pytest.fail("the token is read"))
    assert server.evaluate(first_message("a" * (LONGEST_TOKEN + 1)), NOW) == b'{"status":"invalid_token"}'
    with pytest.raises(SaslError, match="65537 bytes"):
        server.evaluate(b"x", NOW)


def test_no_bytes_raise_anything_else_or_log_in() -> None:
    rng = random.Random(7)
    good = first_message(unsecured(exp=1))
    for _ in range(5000):
        data = bytearray(good[: rng.randrange(len(good) + 1)])
        for _ in range(rng.randrange(4)):
            data.insert(rng.randrange(len(data) + 1), rng.choice(b"\x00\x01,=n.eyA\xff"))
        server = OAuthBearerSaslServer(UnsecuredTokens().validate)
        try:
            server.evaluate(bytes(data), NOW)
        except SaslError as error:
            assert "eyJ" not in str(error)
        assert not server.is_complete


@pytest.mark.parametrize(
    "token",
    [
        "a.b",
        "a.b.",
        unsecured("HS256"),
        unsecured(signature="AAAA"),
        unsecured(exp=None),
        unsecured(exp="soon"),
        unsecured(exp=True),
        unsecured(exp=NOW // 1000),
        unsecured(iat=NOW // 1000 + 2),
        unsecured(sub=None),
        unsecured(sub=7),
        f"{part([])}.{part({})}.",
    ],
)
def test_unsecured_tokens_that_are_refused(token: str) -> None:
    with pytest.raises(TokenError):
        UnsecuredTokens().validate(token, NOW)


def test_options_of_the_login_module() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": "user",
        "unsecuredValidatorRequiredScope": "read write",
        "unsecuredValidatorAllowableClockSkewMs": "5000",
    }
    tokens = UnsecuredTokens.parse(options)
    good = unsecured(user="bob", scope=["write", "read"], exp=NOW // 1000 - 4)
    assert tokens.validate(good, NOW) == BearerToken("bob", NOW - 4000)
    with pytest.raises(TokenError, match="scope"):
        tokens.validate(unsecured(user="bob", scope="read"), NOW)


@pytest.mark.parametrize(("key", "algorithm", "kid"), [(RSA, "RS256", "rsa"), (EC, "ES256", "ec")])
def test_a_token_that_a_key_of_the_jwks_has_signed_is_good(key: Any, algorithm: str, kid: str) -> None:
    assert validator().validate(signed(key, algorithm, kid), NOW) == BearerToken("alice", NOW + 60_000)


@pytest.mark.parametrize(
    "token",
    [
        signed(OTHER),
        signed(kid="enc"),
        signed(kid=None),
        signed(b"x" * 32, "HS256"),
        signed(RSA, "RS512"),
        signed(None, "none"),
        signed(aud="other"),
        signed(aud=None),
        signed(iss="other"),
        signed(iss=None),
        signed(sub=None),
        signed(sub=" "),
        signed(exp=None),
        signed(exp=NOW // 1000 - 31),
        signed(iat=None),
        signed(iat=NOW // 1000 + 31),
        signed(nbf=NOW // 1000 + 31),
        unsecured(),
        "nonsense",
        "a.b.c",
    ],
)
def test_signed_tokens_that_are_refused(token: str) -> None:
    with pytest.raises(TokenError) as caught:
        validator().validate(token, NOW)
    assert token not in str(caught.value)


def test_an_unknown_key_is_named_and_a_wrong_jwks_keeps_the_old_keys() -> None:
    tokens = validator()
    with pytest.raises(UnknownKeyError, match="not in the JWKS"):
        tokens.validate(signed(kid="new"), NOW)
    for wrong in (b"", b"[]", b"{}", b'{"keys":[]}', b'{"keys":[{"kty":"RSA"}]}', b"\xff"):
        with pytest.raises(ValueError, match="JWKS"):
            tokens.load(wrong)
    assert tokens.validate(signed(), NOW).principal == "alice"


def test_without_audience_and_issuer_any_are_good() -> None:
    assert validator((), "").validate(signed(iss="x", aud=["y"]), NOW).principal == "alice"
