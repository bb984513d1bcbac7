"""The authentication of a connection: every path from its first frame to a verdict."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import cast

import pytest

from kafkalite.common.authentication import AuthenticationStep, SaslError, Verdict
from kafkalite.common.errors import ErrorCode
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import request_header, response_body_offset
from kafkalite.protocol.wire import write_uvarint
from kafkalite.security.oauth_bearer import OAuthBearerSaslServer, UnsecuredTokens
from kafkalite.security.plain import PlainSaslServer, PlainUsers
from kafkalite.security.sasl_mechanism import SaslMechanism
from kafkalite.security.sasl_server import SaslListener, SaslServerAuthenticator
from kafkalite.security.scram import ScramSaslServer, ScramUsers
from kafkalite.security.scram_credentials import SCRAM_SHA_256
from tests.soak import SOAK, has_long_form

USERS = PlainUsers({"user_alice": "wonder", "user_bob": "build"})
RIGHT, WRONG = b"\0alice\0wonder", b"\0alice\0hush"
VERSIONS = b"the versions"
PLAIN_ERROR = "Authentication failed: Invalid username or password"


def api_versions(version: int, body: memoryview) -> tuple[bytes, bool]:
    """Versions 0 to 3 are known; the body ``malformed`` is none."""
    if bytes(body) == b"malformed":
        raise ProtocolError("cut short")
    return VERSIONS, version <= 3


def listener(max_reauth_ms: int = 0) -> SaslListener:
    def plain() -> SaslMechanism:
        return PlainSaslServer(USERS.check)

    def scram() -> SaslMechanism:
        unknown = ScramUsers(lambda _: None, lambda _: None, b"secret")
        return ScramSaslServer(SCRAM_SHA_256, unknown, random.Random(1))

    def bearer() -> SaslMechanism:
        return OAuthBearerSaslServer(UnsecuredTokens().validate)

    mechanisms = {"PLAIN": plain, "SCRAM-SHA-256": scram, "OAUTHBEARER": bearer}
    return SaslListener(mechanisms, dict.fromkeys(mechanisms, max_reauth_ms))


def authenticator(max_reauth_ms: int = 0) -> SaslServerAuthenticator:
    return SaslServerAuthenticator(listener(max_reauth_ms), api_versions)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    request = messages.SaslHandshakeRequest(version=version, mechanism=mechanism)
    return request_header(ApiKey.SASL_HANDSHAKE, version, 7, "c") + encode_request(
        ApiKey.SASL_HANDSHAKE, version, request
    )


def authenticate(token: bytes, version: int = 2) -> bytes:
    request = messages.SaslAuthenticateRequest(version=version, auth_bytes=token)
    return request_header(ApiKey.SASL_AUTHENTICATE, version, 8, "c") + encode_request(
        ApiKey.SASL_AUTHENTICATE, version, request
    )


def ask_versions(version: int = 3, body: bytes = b"") -> bytes:
    return request_header(ApiKey.API_VERSIONS, version, 6, "c") + body


def read_handshake(step: AuthenticationStep, version: int = 1) -> messages.SaslHandshakeResponse:
    return cast(messages.SaslHandshakeResponse, _read(step, ApiKey.SASL_HANDSHAKE, version, 7))


def read_authenticate(step: AuthenticationStep, version: int = 2) -> messages.SaslAuthenticateResponse:
    return cast(messages.SaslAuthenticateResponse, _read(step, ApiKey.SASL_AUTHENTICATE, version, 8))


def _read(step: AuthenticationStep, api_key: ApiKey, version: int, correlation_id: int) -> object:
    assert step.answer is not None
    frame = memoryview(step.answer)
    assert struct.unpack_from(">i", frame) == (correlation_id,)
    return decode_response(api_key, version, frame[response_body_offset(api_key, version, frame) :])


FAILED = "Authentication failed during authentication due to invalid credentials with SASL mechanism"


@pytest.mark.parametrize("asks_versions", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_with_the_right_password_is_authenticated(asks_versions: bool, version: int) -> None:
    client = authenticator()
    if asks_versions:
        assert client.receive(ask_versions(), 0) == AuthenticationStep(Verdict.CONTINUE, b"\0\0\0\6" + VERSIONS)
    step = client.receive(handshake(), 0)
    assert step.verdict is Verdict.CONTINUE
    answer = read_handshake(step)
    assert (answer.error_code, list(answer.mechanisms)) == (0, ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
    step = client.receive(authenticate(RIGHT, version), 0)
    assert step.verdict is Verdict.COMPLETE
    done = read_authenticate(step, version)
    assert (done.error_code, done.error_message, bytes(done.auth_bytes)) == (0, "", b"")
    assert client.is_complete
    assert client.principal == KafkaPrincipal.user("alice")
    assert client.session_expires_at_ms is None


def test_after_a_handshake_of_version_0_the_frames_are_bare_tokens() -> None:
    client = authenticator()
    assert read_handshake(client.receive(handshake(version=0), 0), 0).error_code == 0
    assert client.receive(RIGHT, 0) == AuthenticationStep(Verdict.COMPLETE, b"")
    assert client.principal == KafkaPrincipal.user("alice")


def test_a_wrong_bare_token_is_not_answered() -> None:
    client = authenticator()
    client.receive(handshake(version=0), 0)
    assert client.receive(WRONG, 0) == AuthenticationStep(Verdict.FAILED, None, PLAIN_ERROR)


def test_an_unknown_mechanism_is_answered_with_those_that_there_are() -> None:
    client = authenticator()
    step = client.receive(handshake("GSSAPI"), 0)
    assert step.verdict is Verdict.FAILED
    answer = read_handshake(step)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert list(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]
    assert client.receive(handshake(), 0).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("mechanism", "token", "text"),
    [
        ("PLAIN", WRONG, PLAIN_ERROR),
        ("PLAIN", b"\0nemo\0hush", PLAIN_ERROR),
        ("PLAIN", b"hush", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("SCRAM-SHA-256", b"hush", f"{FAILED} SCRAM-SHA-256"),
    ],
)
def test_a_failed_client_is_told_nothing_that_helps_to_guess(mechanism: str, token: bytes, text: str) -> None:
    client = authenticator()
    client.receive(handshake(mechanism), 0)
    step = client.receive(authenticate(token), 0)
    assert step.verdict is Verdict.FAILED
    answer = read_authenticate(step)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert bytes(answer.auth_bytes) == b""
    assert "hush" not in step.reason
    assert client.principal is None
    assert not client.is_complete
    assert client.receive(authenticate(RIGHT), 0).verdict is Verdict.INVALID


def test_after_an_unknown_version_of_api_versions_the_client_may_ask_again() -> None:
    client = authenticator()
    assert client.receive(ask_versions(9), 0).verdict is Verdict.CONTINUE
    assert client.receive(ask_versions(), 0).verdict is Verdict.CONTINUE
    assert client.receive(ask_versions(), 0).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"\x60\x82\x02\x1b token of GSSAPI"],
        [b"GET / HTTP/1.1\r\n\r\n"],
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
        [request_header(ApiKey.METADATA, 9, 1, "c") + b"\0"],
        [request_header(ApiKey.METADATA, 1, 1, "c") + b"\0\5PLAIN"],
        [authenticate(RIGHT)],
        [handshake(version=1)[:-1]],
        [request_header(ApiKey.SASL_HANDSHAKE, 2, 1, "c") + b"\0\5PLAIN"],
        [ask_versions(3, b"malformed")],
        [ask_versions(), ask_versions()],
        [handshake(), request_header(ApiKey.SASL_AUTHENTICATE, 3, 1, "c") + b"\1"],
        [handshake(), authenticate(RIGHT)[:-3]],
        [handshake(), b"\0"],
    ],
)
def test_a_frame_out_of_place_closes_the_connection_without_an_answer(frames: list[bytes]) -> None:
    client = authenticator()
    for frame in frames[:-1]:
        assert client.receive(frame, 0).verdict is Verdict.CONTINUE
    step = client.receive(frames[-1], 0)
    assert (step.verdict, step.answer) == (Verdict.INVALID, None)
    assert step.reason
    assert not client.is_complete


@pytest.mark.parametrize("frame", [handshake(), ask_versions(), request_header(ApiKey.PRODUCE, 9, 1, "c")])
def test_another_request_instead_of_a_token_fails_the_authentication(frame: bytes) -> None:
    client = authenticator()
    client.receive(handshake(), 0)
    step = client.receive(frame, 0)
    assert (step.verdict, step.answer) == (Verdict.FAILED, None)
    assert "during SASL authentication" in step.reason


class _Expiring(PlainSaslServer):
    """A credential that ends at 5,000 ms."""

    expires_at_ms = cast(None, 5000)


@pytest.mark.parametrize(
    ("max_reauth_ms", "factory", "lifetime_ms"),
    [
        (0, PlainSaslServer, 0),
        (3000, PlainSaslServer, 3000),
        (0, _Expiring, 4000),
        (3000, _Expiring, 3000),
        (9000, _Expiring, 4000),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_session_ends_with_the_credential_or_after_the_configured_time(
    max_reauth_ms: int, factory: Callable[[Callable[[str, str], bool]], SaslMechanism], lifetime_ms: int, version: int
) -> None:
    base = listener(max_reauth_ms)
    client = SaslServerAuthenticator(
        SaslListener({"PLAIN": lambda: factory(USERS.check)}, base.max_reauth_ms), api_versions
    )
    client.receive(handshake(), 1000)
    assert read_authenticate(client.receive(authenticate(RIGHT, version), 1000), version).session_lifetime_ms == (
        lifetime_ms
    )
    expected = 1000 + lifetime_ms if lifetime_ms else None
    assert client.session_expires_at_ms == expected
    assert not client.is_expired(1000 + lifetime_ms)
    assert client.is_expired(1001 + lifetime_ms) == bool(lifetime_ms)


def authenticated(max_reauth_ms: int = 3000) -> SaslServerAuthenticator:
    client = authenticator(max_reauth_ms)
    client.receive(handshake(), 0)
    assert client.receive(authenticate(RIGHT), 0).verdict is Verdict.COMPLETE
    return client


def test_a_client_re_authenticates_and_its_session_goes_on() -> None:
    client = authenticated()
    assert client.begin_reauthentication(2000)
    assert not client.is_complete
    assert client.receive(handshake(), 2000).verdict is Verdict.CONTINUE
    step = client.receive(authenticate(RIGHT), 2100)
    assert step.verdict is Verdict.COMPLETE
    assert read_authenticate(step).session_lifetime_ms == 3000
    assert client.session_expires_at_ms == 5100
    assert client.principal == KafkaPrincipal.user("alice")


def test_a_client_re_authenticates_once_a_second_at_most_and_only_if_sessions_end() -> None:
    assert not authenticated(0).begin_reauthentication(2000)
    assert not authenticator(3000).begin_reauthentication(0)
    client = authenticated()
    assert client.begin_reauthentication(2000)
    client.receive(handshake(), 2000)
    client.receive(authenticate(RIGHT), 2000)
    assert not client.begin_reauthentication(2999)
    assert client.is_complete
    assert client.begin_reauthentication(3000)


def test_a_client_keeps_its_principal() -> None:
    client = authenticated()
    assert client.begin_reauthentication(2000)
    client.receive(handshake(), 2000)
    step = client.receive(authenticate(b"\0bob\0build"), 2000)
    assert step.verdict is Verdict.FAILED
    text = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert read_authenticate(step).error_message == text


def test_a_client_keeps_its_mechanism() -> None:
    client = authenticated()
    assert client.begin_reauthentication(2000)
    step = client.receive(handshake("SCRAM-SHA-256"), 2000)
    assert (step.verdict, read_handshake(step).error_code) == (Verdict.CONTINUE, 0)
    step = client.receive(authenticate(b"n,,n=alice,r=abc"), 2000)
    assert (step.verdict, step.answer) == (Verdict.FAILED, None)
    assert "'SCRAM-SHA-256' requested by client is not supported for re-authentication" in step.reason


def test_a_failed_reauthentication_is_named_as_such() -> None:
    def check(user: str, password: str) -> bool:
        if password == "hush":
            raise SaslError("of the operator's concern")
        return USERS.check(user, password)

    client = SaslServerAuthenticator(
        SaslListener({"PLAIN": lambda: PlainSaslServer(check)}, {"PLAIN": 9000}), api_versions
    )
    client.receive(handshake(), 1000)
    client.receive(authenticate(RIGHT), 1000)
    assert client.begin_reauthentication(2000)
    client.receive(handshake(), 2000)
    step = client.receive(authenticate(WRONG), 2000)
    assert (read_authenticate(step).error_message or "").startswith("Authentication failed during re-authentication")


LARGEST = 520_000
"""Bytes of a message: somewhat less than `sasl.server.max.receive.size` allows by default."""
FILLINGS = (b"a", b"=2C", b"=", b",a=b", b",", b"a=b\x01", b"\xff", b"[")
BEGINNINGS = (
    ("PLAIN", (b"\0",)),
    ("SCRAM-SHA-256", (b"n,,n=",)),
    ("SCRAM-SHA-256", (b"n,a=",)),
    ("SCRAM-SHA-256", (b"n,,n=a,r=b",)),
    ("SCRAM-SHA-256", (b"n,,n=a,r=b", b"c=")),
    ("SCRAM-SHA-256", (b"n,,n=a,r=b", b"c=biws,r=")),
    ("OAUTHBEARER", (b"n,a=",)),
    ("OAUTHBEARER", (b"n,,\x01",)),
    ("OAUTHBEARER", (b"n,,\x01auth=Bearer ",)),
)


# trap: kafkalite/security/scram.py: A regular expression keeps a state for each repetition that it may have to take
# back, so that half a megabyte from a stranger takes 120 MB and a third of a second.
@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize(("mechanism", "messages"), BEGINNINGS)
def test_a_long_message_takes_little_more_memory_than_its_bytes(
    mechanism: str, messages: tuple[bytes, ...], filling: bytes
) -> None:
    client = authenticator()
    client.receive(handshake(mechanism), 0)
    for message in messages[:-1]:
        client.receive(authenticate(message), 0)
    last = authenticate(messages[-1] + filling * (LARGEST // len(filling)))
    tracemalloc.start()
    try:
        step = client.receive(last, 0)
        assert tracemalloc.get_traced_memory()[1] < 12 * LARGEST
    finally:
        tracemalloc.stop()
    assert step.verdict is not Verdict.COMPLETE


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1) + write_uvarint(200_000) + b"\x01\0" * 200_000,
        authenticate(b"n,,n=alice,r=abc")[:-1] + write_uvarint(200_000) + b"\x01\0" * 200_000,
    ],
    ids=["header", "body"],
)
def test_a_frame_of_countless_tagged_fields_is_refused(frame: bytes) -> None:
    client = authenticator()
    if frame[1] == ApiKey.SASL_AUTHENTICATE:
        client.receive(handshake("SCRAM-SHA-256"), 0)
    step = client.receive(frame, 0)
    assert step.verdict is Verdict.INVALID
    assert "200000 tagged fields" in step.reason


FRAMES = 1_000_000 if SOAK else 12_000
STRAY_TOKENS = (b"\x01", b"", b"n,,n=nemo,r=abc,tokenauth=true", b"n,,\x01auth=Bearer e30.e30.\x01\x01")


def tokens_of(mechanism: str) -> list[bytes]:
    """What a client with a wrong password sends."""
    match mechanism:
        case "PLAIN":
            return [WRONG]
        case "SCRAM-SHA-256":
            first = b"n,,n=alice,r=abc"
            client = authenticator()
            client.receive(handshake(mechanism), 0)
            challenge = bytes(read_authenticate(client.receive(authenticate(first), 0)).auth_bytes)
            # The chance of the listener in these tests repeats itself, so that this nonce is right.
            nonce = challenge.partition(b",")[0]
            return [first, b"c=biws," + nonce + b",p=" + b"A" * 43 + b"="]
        case "OAUTHBEARER":
            return [b"n,,\x01auth=Bearer e30.e30.\x01\x01", b"\x01"]
    return []


def bad_frames(rng: random.Random, tokens: Mapping[str, list[bytes]]) -> Iterator[bytes]:
    """The frames of an exchange that fails, some of them damaged, cut, out of place or random."""
    mechanism = rng.choice([*tokens, "GSSAPI"])
    version = rng.randrange(2)
    exchange = [ask_versions(rng.randrange(5))] if rng.random() < 0.3 else []
    exchange.append(handshake(mechanism, version))
    for token in tokens.get(mechanism, []):
        exchange.append(authenticate(token, rng.randrange(3)) if version else token)
    for valid in [*exchange, authenticate(rng.choice(STRAY_TOKENS))]:
        choice = rng.random()
        frame = bytearray(valid)
        if choice < 0.1:
            frame = bytearray(rng.randbytes(rng.randrange(60)))
        elif choice < 0.15:
            frame = bytearray(rng.choice(exchange))
        elif choice < 0.3:
            for _ in range(rng.randrange(1, 4)):
                frame[rng.randrange(len(frame))] = rng.randrange(256)
        elif choice < 0.35:
            del frame[rng.randrange(len(frame)) :]
        yield bytes(frame)


@has_long_form
def test_no_frames_raise_or_authenticate() -> None:
    """Any exception but those that become a verdict would be a traceback in the broker's log."""
    rng = random.Random(25)
    tokens = {mechanism: tokens_of(mechanism) for mechanism in listener().mechanisms}
    seen: Counter[tuple[str, str, Verdict]] = Counter()
    count = 0
    while count < FRAMES:
        client = authenticator(rng.choice((0, 1000)))
        for frame in bad_frames(rng, tokens):
            state = client._state.name
            step = client.receive(frame, 0)
            count += 1
            seen[client._mechanism, state, step.verdict] += 1
            assert step.verdict is not Verdict.COMPLETE
            if step.verdict is not Verdict.CONTINUE:
                break
    for mechanism in tokens:
        assert seen[mechanism, "AUTHENTICATE", Verdict.FAILED] > FRAMES // 100
        assert seen[mechanism, "AUTHENTICATE", Verdict.CONTINUE] > FRAMES // 100 or mechanism == "PLAIN"


@has_long_form
def test_no_frames_take_over_the_connection_of_another_user() -> None:
    """The same frames in an exchange by which an authenticated client authenticates again."""
    rng = random.Random(26)
    tokens = {mechanism: tokens_of(mechanism) for mechanism in listener().mechanisms}
    for _ in range(FRAMES // 10):
        client = authenticated()
        assert client.begin_reauthentication(2000)
        for frame in bad_frames(rng, tokens):
            step = client.receive(frame, 2000)
            assert step.verdict is not Verdict.COMPLETE
            assert client.principal == KafkaPrincipal.user("alice")
            if step.verdict is not Verdict.CONTINUE:
                break
