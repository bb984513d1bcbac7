"""The client's side of SASL against the server's, and against servers that lie."""

from __future__ import annotations

import random

import pytest

from kafkalite.common.authentication import SaslClient, SaslError
from kafkalite.security.plain import PlainSaslServer, PlainUsers
from kafkalite.security.sasl_client import PlainSaslClient, ScramSaslClient
from kafkalite.security.sasl_mechanism import SaslMechanism
from kafkalite.security.scram import ScramSaslServer, ScramUsers, TokenCredential
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS, SCRAM_SHA_256, ScramCredential

USER, PASSWORD = "a,l=ice", "wönder"


def exchange(client: SaslClient, server: SaslMechanism) -> None:
    token = client.evaluate(None)
    while token is not None:
        token = client.evaluate(server.evaluate(token, 0))


def scram_server(mechanism: str, password: str = PASSWORD) -> ScramSaslServer:
    kind = SCRAM_MECHANISMS[mechanism]
    credential = ScramCredential.from_password(kind, password, b"salt", 4096)
    users = ScramUsers(
        lambda name: credential if name == USER else None,
        lambda name: TokenCredential("owner", credential, 9000) if name == "id" else None,
        b"secret",
    )
    return ScramSaslServer(kind, users, random.Random(1))


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_client_and_server_authenticate_each_other(mechanism: str) -> None:
    server = scram_server(mechanism)
    exchange(ScramSaslClient(SCRAM_MECHANISMS[mechanism], USER, PASSWORD, random.Random(2)), server)
    assert (server.is_complete, server.authorization_id) == (True, USER)
    with pytest.raises(SaslError):
        exchange(ScramSaslClient(SCRAM_MECHANISMS[mechanism], USER, "no", random.Random(2)), scram_server(mechanism))


def test_a_delegation_token_logs_in_as_its_owner() -> None:
    server = scram_server("SCRAM-SHA-256")
    exchange(ScramSaslClient(SCRAM_SHA_256, "id", PASSWORD, random.Random(2), is_token=True), server)
    assert (server.authorization_id, server.is_token, server.expires_at_ms) == ("owner", True, 9000)


def test_plain_sends_user_and_password() -> None:
    server = PlainSaslServer(PlainUsers({"user_alice": PASSWORD}).check)
    exchange(PlainSaslClient("alice", PASSWORD), server)
    assert server.authorization_id == "alice"


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff",
        b"r=other,s=c2FsdA==,i=4096",
        b"r=NONCE1,s=c2FsdA==,i=1",
        b"r=NONCE1,s=c2FsdA==,i=99999999",
        b"r=NONCE1,s=====,i=4096",
        b"r=NONCE1,s=c2FsdA==,i=-4096",
    ],
)
def test_a_server_that_sends_nonsense_or_too_many_iterations_is_refused(challenge: bytes) -> None:
    client = ScramSaslClient(SCRAM_SHA_256, USER, PASSWORD, random.Random(2))
    first = client.evaluate(None)
    assert first is not None
    nonce = first.rpartition(b"r=")[2]
    with pytest.raises(SaslError) as caught:
        client.evaluate(challenge.replace(b"NONCE", nonce))
    assert PASSWORD not in str(caught.value)


def test_a_server_that_does_not_know_the_user_is_refused() -> None:
    server = scram_server("SCRAM-SHA-256")
    client = ScramSaslClient(SCRAM_SHA_256, USER, PASSWORD, random.Random(2))
    client.evaluate(server.evaluate(client.evaluate(None) or b"", 0))
    with pytest.raises(SaslError, match="does not know"):
        client.evaluate(b"v=AAAA")


def test_passwords_are_not_shown() -> None:
    shown = repr(
        [PlainSaslClient("alice", "planted"), ScramSaslClient(SCRAM_SHA_256, "alice", "planted", random.Random(1))]
    )
    assert "planted" not in shown
