"""PLAIN, SCRAM and JAAS: who gets in, what the others are told, and what is stored."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

import pytest
from kafka.net.sasl.scram import ScramClient

from kafkalite.common.authentication import SaslError
from kafkalite.security.jaas import JaasConfig
from kafkalite.security.plain import PlainSaslServer, PlainUsers
from kafkalite.security.sasl_mechanism import SaslAuthenticationError
from kafkalite.security.scram import ScramSaslServer, ScramUsers, TokenCredential, sasl_name
from kafkalite.security.scram_credentials import (
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramMechanism,
)

USERS = PlainUsers({"username": "broker", "password": "b", "user_alice": "wonder,land", "user_bob": "ß"})


@pytest.mark.parametrize(
    ("response", "user"),
    [(b"\0alice\0wonder,land", "alice"), (b"alice\0alice\0wonder,land", "alice"), ("\0bob\0ß".encode(), "bob")],
)
def test_plain_lets_users_with_their_passwords_in(response: bytes, user: str) -> None:
    server = PlainSaslServer(USERS.check)
    assert server.evaluate(response, 0) == b""
    assert server.is_complete
    assert server.authorization_id == user
    with pytest.raises(SaslError):
        server.evaluate(response, 0)


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nemo\0wonder,land", "Authentication failed: Invalid username or password"),
        (b"\0username\0broker", "Authentication failed: Invalid username or password"),
        (b"bob\0alice\0wonder,land", "Authentication failed: Client requested an authorization id that is different"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0wonder,land", "Authentication failed: username not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\xff\xfe", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0wonder,land\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_refuses_others_without_saying_whether_the_user_exists(response: bytes, told: str) -> None:
    server = PlainSaslServer(USERS.check)
    with pytest.raises(SaslAuthenticationError) as caught:
        server.evaluate(response, 0)
    assert str(caught.value).startswith(told)
    assert not server.is_complete


def test_plain_raises_nothing_else_for_any_bytes() -> None:
    rng = random.Random(22)
    for _ in range(20_000):
        data = bytes(rng.choice(b"\0\0ab\xff\xc3\xedalice") for _ in range(rng.randrange(30)))
        with pytest.raises(SaslError):
            PlainSaslServer(USERS.check).evaluate(data, 0)


# RFC 7677, section 3.
RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def test_the_arithmetic_is_that_of_the_rfc() -> None:
    credential = ScramCredential.from_password(SCRAM_SHA_256, "pencil", RFC_SALT, 4096)
    first = f"n=user,r={RFC_NONCE}"
    challenge = f"r={RFC_NONCE}{RFC_SERVER_NONCE},s={base64.b64encode(RFC_SALT).decode()},i=4096"
    final = f"c=biws,r={RFC_NONCE}{RFC_SERVER_NONCE}"
    messages = f"{first},{challenge},{final}".encode()
    signature = SCRAM_SHA_256.hmac(credential.server_key, messages)
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_signature = SCRAM_SHA_256.hmac(credential.stored_key, messages)
    client_key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
    assert SCRAM_SHA_256.digest(client_key) == credential.stored_key


def credential_of(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    return ScramCredential.from_password(mechanism, password, b"salt of " + password.encode(), iterations)


def users(mechanism: ScramMechanism) -> ScramUsers:
    """``alice`` and ``a=b,c`` with passwords, ``weak`` with too few iterations, and a token of ``alice``."""
    known = {"alice": credential_of(mechanism, "wönder"), "a=b,c": credential_of(mechanism, "p")}
    known["weak"] = credential_of(mechanism, "p", 1000)
    token = TokenCredential("alice", credential_of(mechanism, "aG1hYw=="), 5000)
    return ScramUsers(known.get, {"tokenid": token}.get, b"secret of the process")


def server_of(mechanism: ScramMechanism = SCRAM_SHA_256) -> ScramSaslServer:
    return ScramSaslServer(mechanism, users(mechanism), random.Random(1))


def exchange(server: ScramSaslServer, mechanism: str, user: str, password: str) -> ScramClient:
    """A whole exchange with kafka-python's client, which checks the server's signature."""
    client = ScramClient(sasl_name(user), password, mechanism)
    client.process_server_first_message(server.evaluate(client.first_message(), 0))
    assert not server.is_complete
    client.process_server_final_message(server.evaluate(client.final_message(), 0))
    return client


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)
@pytest.mark.parametrize(("user", "password"), [("alice", "wönder"), ("a=b,c", "p")])
def test_scram_lets_users_with_their_passwords_in(mechanism: ScramMechanism, user: str, password: str) -> None:
    server = server_of(mechanism)
    exchange(server, mechanism.name, user, password)
    assert server.is_complete
    assert server.authorization_id == user
    assert server.expires_at_ms is None
    assert not server.is_token
    with pytest.raises(SaslError):
        server.evaluate(b"", 0)


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nemo", "wönder"), ("tokenid", "aG1hYw==")])
def test_scram_refuses_a_wrong_password_and_an_unknown_user_alike(user: str, password: str) -> None:
    server = server_of()
    with pytest.raises(SaslError, match="Invalid client credentials") as caught:
        exchange(server, "SCRAM-SHA-256", user, password)
    assert not isinstance(caught.value, SaslAuthenticationError)
    assert not server.is_complete


class _KnownDecoys(ScramUsers):
    """An unknown user gets the credential of the password ``p``."""

    def decoy(self, mechanism: ScramMechanism, name: str) -> ScramCredential:  # noqa: ARG002
        return credential_of(mechanism, "p")


def test_an_unknown_user_is_refused_even_with_a_right_proof() -> None:
    decoys = _KnownDecoys(lambda _: None, lambda _: None, b"")
    server = ScramSaslServer(SCRAM_SHA_256, decoys, random.Random(1))
    with pytest.raises(SaslError, match="Invalid client credentials"):
        exchange(server, "SCRAM-SHA-256", "nemo", "p")


def test_a_right_proof_over_another_nonce_is_refused() -> None:
    """Otherwise a recorded final message could be sent again."""
    server = server_of()
    challenge = server.evaluate(b"n,,n=alice,r=abc", 0).decode()
    credential = credential_of(SCRAM_SHA_256, "wönder")
    salted = SCRAM_SHA_256.salted_password("wönder", credential.salt, credential.iterations)
    bare = "c=biws,r=another"
    signature = SCRAM_SHA_256.hmac(credential.stored_key, f"n=alice,r=abc,{challenge},{bare}".encode())
    client_key = SCRAM_SHA_256.hmac(salted, b"Client Key")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    with pytest.raises(SaslError, match="Invalid client nonce"):
        server.evaluate(f"{bare},p={proof}".encode(), 0)


def test_an_unknown_user_has_the_same_salt_each_time_and_another_than_others() -> None:
    def salt(user: str) -> str:
        return server_of().evaluate(f"n,,n={user},r=abc".encode(), 0).decode().split(",")[1]

    assert salt("nemo") == salt("nemo")
    assert len({salt("nemo"), salt("nemo2"), salt("alice")}) == 3


def with_token(first: bytes) -> bytes:
    return first + b",tokenauth=true"


@pytest.mark.parametrize(
    ("user", "password", "now_ms", "error"),
    [
        ("tokenid", "aG1hYw==", 4999, ""),
        ("tokenid", "aG1hYw==", 5000, "expired"),
        ("tokenid", "wrong", 0, "Invalid client credentials"),
        ("alice", "wönder", 0, "Invalid client credentials"),
    ],
)
def test_a_delegation_token_logs_its_owner_in_until_it_expires(
    user: str, password: str, now_ms: int, error: str
) -> None:
    server = server_of()
    client = ScramClient(user, password, "SCRAM-SHA-256")
    first = with_token(client.first_message())
    client.auth_message += b",tokenauth=true"
    client.process_server_first_message(server.evaluate(first, now_ms))
    if error:
        with pytest.raises(SaslError, match=error):
            server.evaluate(client.final_message(), now_ms)
        assert not server.is_complete
    else:
        client.process_server_final_message(server.evaluate(client.final_message(), now_ms))
        assert (server.authorization_id, server.is_token, server.expires_at_ms) == ("alice", True, 5000)


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (b"", "first message format"),
        (b"n,,n=alice", "first message format"),
        (b"n,,n=,r=abc", "first message format"),
        (b"y,,n=alice,r=abc", "first message format"),
        (b"p=tls-unique,,n=alice,r=abc", "first message format"),
        (b"n,,n=a=b,r=abc", "first message format"),
        (b"n,,n=alice,r=a\x80c", "first message format"),
        (b"n,,n=alice,r=abc,1=2", "first message format"),
        (b"n,a=bob,n=alice,r=abc", "authorization id"),
        (b"n,,n=weak,r=abc", "Iterations 1000 is less than the minimum 4096"),
    ],
)
def test_a_malformed_first_message_is_refused(first: bytes, error: str) -> None:
    server = server_of()
    with pytest.raises(SaslError, match=error):
        server.evaluate(first, 0)
    with pytest.raises(SaslError, match="after the end"):
        server.evaluate(b"n,,n=alice,r=abc", 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final[:0],
        lambda final: final[:-5],
        lambda final: final.replace(b",p=", b",p=AAAA"),
        lambda final: final.replace(b"r=", b"r=x"),
        lambda final: final.partition(b",p=")[0] + b",p=",
        lambda final: final.partition(b",p=")[0] + b",p=AAAA",
        lambda final: final.replace(b"c=biws", b"c=AAAA"),
    ],
)
def test_a_changed_final_message_is_refused(change: Callable[[bytes], bytes]) -> None:
    server = server_of()
    client = ScramClient("alice", "wönder", "SCRAM-SHA-256")
    client.process_server_first_message(server.evaluate(client.first_message(), 0))
    with pytest.raises(SaslError):
        server.evaluate(change(client.final_message()), 0)
    assert not server.is_complete


def test_scram_raises_nothing_else_for_any_bytes() -> None:
    rng = random.Random(23)
    parts = [
        b"n,,",
        b"n=",
        b"alice",
        b"r=",
        b"abc",
        b",",
        b"=2C",
        b"=",
        b"c=biws",
        b"p=",
        b"AAAA",
        b"\xff",
        b"\0",
        b"m=x,",
    ]
    known = users(SCRAM_SHA_256)
    for _ in range(20_000):
        server = ScramSaslServer(SCRAM_SHA_256, known, rng)
        for _ in range(2):
            try:
                server.evaluate(b"".join(rng.choice(parts) for _ in range(rng.randrange(12))), 0)
            except SaslError:
                pass
        assert not server.is_complete


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)
def test_a_stored_credential_is_read_as_it_was_written(mechanism: ScramMechanism) -> None:
    credential = credential_of(mechanism, "p")
    text = credential.text()
    assert ScramCredential.parse(text) == credential
    assert [part.partition("=")[0] for part in text.split(",")] == ["salt", "stored_key", "server_key", "iterations"]


@pytest.mark.parametrize(
    ("mechanism", "stored_key", "server_key"),
    [
        (
            SCRAM_SHA_256,
            "Mn0GJ9LUawsBWusqIOwwbAlq1lnyAU+B8IRZpDwWCzc=",
            "woWtLYKusYS5+tSqEMnEUj34dmujkpwgFzN3lAN324g=",
        ),
        (
            SCRAM_SHA_512,
            "P7QOuhip2ZvI0wtiSxeOO50fKJbsRlsvydJFc+i74YSEa0rcHtQYZE2a1GEo5qnOf+O8ou8PTKBanb6CDahmJQ==",
            "/UCylvnxWz3mZzAvpqobGxr046BtPXOhrzF/7K3jj7g3CixvWKuSTVRsKrpuGPKOPU79BwniCsod4Xsy3jxHDA==",
        ),
    ],
    ids=["sha256", "sha512"],
)
def test_a_credential_is_what_kafka_makes_of_the_password(
    mechanism: ScramMechanism, stored_key: str, server_key: str
) -> None:
    """Made by the classes ScramFormatter and ScramCredentialUtils of Kafka 3.9.1."""
    text = f"salt=MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ubw==,stored_key={stored_key},server_key={server_key},iterations=4096"
    credential = ScramCredential.from_password(mechanism, "pä,=n cil", b"0123456789abcdefghijklmno", 4096)
    assert credential.text() == text
    assert ScramCredential.parse(text) == credential


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=c2FsdA==",
        "salt=c2FsdA==,stored_key=AA==,server_key=AA==,iterations=x",
        "salt=c2FsdA==,stored_key=AA==,server_key=AA==,iterations=0",
        "salt=c2FsdA==,stored_key=AA==,server_key=AA==,iterations=4096,more=1",
        "salt=c2FsdA==,stored_key=AA==,stored_key=AA==,iterations=4096",
        "salt=?,stored_key=AA==,server_key=AA==,iterations=4096",
        "salt=hush=,stored_key=AA,server_key=AA==,iterations=4096",
    ],
)
def test_a_malformed_credential_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="the SCRAM credential is malformed") as caught:
        ScramCredential.parse(text)
    assert "hush" not in str(caught.value)
    assert "c2FsdA" not in str(caught.value)


def test_no_key_and_no_password_is_in_a_repr() -> None:
    credential = credential_of(SCRAM_SHA_512, "hush")
    config = JaasConfig.parse('a.PlainLoginModule required user_a="hush";')
    assert "hush" not in repr(credential) + repr(config)
    assert repr(credential.stored_key) not in repr(credential)
