"""Delegation tokens: made, renewed, ended and shown to those who may."""

from __future__ import annotations

import hmac
import random
from typing import Any

import pytest

from kafkalite.broker.token_keeper import TokenKeeper
from kafkalite.common.errors import ErrorCode
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.tasks import deferred
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.security.delegation_tokens import decode_token, encode_token, token_password
from kafkalite.security.sasl_client import ScramSaslClient
from kafkalite.security.scram import ScramSaslServer, ScramUsers
from kafkalite.security.scram_credentials import SCRAM_SHA_256
from kafkalite.security.token_manager import TokenManager, TokenSettings
from kafkalite.zk.stores.paths import ensure
from kafkalite.zk.stores.tokens import TokenStore
from kafkalite.zk.znodes.codec import MalformedZnodeError

from .helpers import FakeBroker, struct

SECRET = "planted-secret"
ALICE, BOB, EVE = (KafkaPrincipal.user(name) for name in ("alice", "bob", "eve"))


def broker(principal: KafkaPrincipal = ALICE, secret: str = SECRET) -> FakeBroker:
    made = FakeBroker({"delegation.token.secret.key": secret} if secret else None)
    deferred(ensure(made.client, "/delegation_token/token_changes"))
    become(made, principal)
    return made


def become(broker: FakeBroker, principal: KafkaPrincipal, protocol: str = "SASL_SSL") -> None:
    broker.connection.info.principal = principal
    broker.connection.info.security_protocol = protocol


def create(broker: FakeBroker, *renewers: KafkaPrincipal, owner: str = "", lifetime_ms: int = -1) -> Any:
    kind = [
        struct(
            ApiKey.CREATE_DELEGATION_TOKEN, "CreatableRenewers", 3, principal_type=each.type, principal_name=each.name
        )
        for each in renewers
    ]
    return broker.call(
        ApiKey.CREATE_DELEGATION_TOKEN,
        3,
        owner_principal_type="User" if owner else None,
        owner_principal_name=owner or None,
        renewers=kind,
        max_lifetime_ms=lifetime_ms,
    )


def renew(broker: FakeBroker, token: Any, period_ms: int = -1) -> tuple[int, int]:
    answer = broker.call(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period_ms=period_ms)
    return answer.error_code, answer.expiry_timestamp_ms


def expire(broker: FakeBroker, token: Any, period_ms: int = -1) -> tuple[int, int]:
    answer = broker.call(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period_ms=period_ms)
    return answer.error_code, answer.expiry_timestamp_ms


def described(broker: FakeBroker, *owners: str, everything: bool = True) -> list[str]:
    asked = [
        struct(
            ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationTokenOwner", 3, principal_type="User", principal_name=n
        )
        for n in owners
    ]
    answer = broker.call(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=asked or (None if everything else []))
    assert answer.error_code == ErrorCode.NONE
    return [each.token_id for each in answer.tokens]


def test_a_token_is_made_as_kafka_makes_it() -> None:
    made = broker()
    now = made.clock.time_ms()
    token = create(made, BOB)
    assert token.error_code == ErrorCode.NONE
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
    assert token.hmac == hmac.digest(SECRET.encode(), token.token_id.encode(), "sha512")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms) == (now, now + 1000)
    assert token.max_timestamp_ms == now + 604_800_000
    stored = decode_token("path", made.zookeeper.data(f"/delegation_token/tokens/{token.token_id}"))
    assert (stored.owner, stored.requester, stored.renewers) == (ALICE, ALICE, (BOB,))
    assert b"User%3Aalice" in encode_token(stored)
    assert len(token.token_id) == 22
    assert described(made) == [token.token_id]


def test_a_token_ends_at_its_greatest_age_and_is_renewed_by_owner_and_renewers_only() -> None:
    made = broker()
    now = made.clock.time_ms()
    token = create(made, BOB, lifetime_ms=5000)
    assert renew(made, token, 2000) == (ErrorCode.NONE, now + 2000)
    become(made, BOB)
    assert renew(made, token, 9000) == (ErrorCode.NONE, now + 5000)
    become(made, EVE)
    assert renew(made, token) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    assert expire(made, token) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    become(made, ALICE)
    assert expire(made, token, 100) == (ErrorCode.NONE, now + 100)
    made.clock.advance(1)
    assert renew(made, token) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
    assert expire(made, token, 100) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
    assert expire(made, token) == (ErrorCode.NONE, made.clock.time_ms())
    assert renew(made, token) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
    assert described(made) == []


def test_what_has_ended_is_removed() -> None:
    made = broker()
    ends, stays = create(made, lifetime_ms=10), create(made)
    made.clock.advance(0.5)
    deferred(made.tokens.remove_expired())
    assert described(made) == [stays.token_id]
    assert f"/delegation_token/tokens/{ends.token_id}" not in made.zookeeper.paths()


def test_tokens_are_asked_for_by_owner() -> None:
    made = broker()
    token, other = create(made, BOB), create(made, owner="bob")
    assert (other.principal_name, other.token_requester_principal_name) == ("bob", "alice")
    assert described(made, "alice") == described(made, "bob") == [token.token_id, other.token_id]
    assert described(made, "eve") == []
    assert described(made, everything=False) == []


def test_the_requester_of_a_token_sees_it_and_does_not_change_its_end() -> None:
    """As in Kafka: ``TokenInformation.ownerOrRenewer`` names the requester, ``allowedToRenew`` does not."""
    made = broker()
    token = create(made, owner="bob")
    assert described(made) == [token.token_id]
    assert renew(made, token) == expire(made, token) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    become(made, BOB)
    assert expire(made, token) == (ErrorCode.NONE, made.clock.time_ms())


@pytest.mark.parametrize(
    ("principal", "protocol"),
    [
        (ALICE, "PLAINTEXT"),
        (KafkaPrincipal.user("ANONYMOUS"), "SSL"),
        (KafkaPrincipal("User", "alice", token_authenticated=True), "SASL_SSL"),
    ],
)
def test_clients_without_a_login_of_their_own_have_no_tokens(principal: KafkaPrincipal, protocol: str) -> None:
    made = broker()
    become(made, principal, protocol)
    assert create(made).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_without_a_secret_tokens_are_off() -> None:
    made = broker(secret="")
    token = create(made)
    assert token.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert renew(made, token) == expire(made, token) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, -1)


def test_renewers_are_users() -> None:
    assert create(broker(), KafkaPrincipal("Group", "g")).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_every_broker_lets_the_token_log_in_until_it_ends() -> None:
    made = broker()
    other = TokenManager(
        TokenSettings(SECRET), TokenStore(made.client, made.clock.time_ms), made.clock.time_ms, random.Random(3)
    )
    store = TokenStore(made.zookeeper.client(), made.clock.time_ms)
    deferred(TokenKeeper(other, store, made.clock, 3_600_000, lambda: False).start())
    token = create(made)
    users = ScramUsers(lambda _: None, lambda name: other.credential("SCRAM-SHA-256", name), b"secret")

    def log_in() -> ScramSaslServer:
        server = ScramSaslServer(SCRAM_SHA_256, users, random.Random(1))
        password = token_password(SECRET, token.token_id)
        client = ScramSaslClient(SCRAM_SHA_256, token.token_id, password, random.Random(2), is_token=True)
        answer = client.evaluate(None)
        while answer is not None:
            answer = client.evaluate(server.evaluate(answer, made.clock.time_ms()))
        return server

    server = log_in()
    assert (server.authorization_id, server.is_token, server.expires_at_ms) == (
        "alice",
        True,
        token.expiry_timestamp_ms,
    )
    expire(made, token)
    assert other.credential("SCRAM-SHA-256", token.token_id) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"version":4}', b'{"version":3,"owner":"nobody","renewers":[]}', b'{"version":1,"owner":"User:a"}'],
)
def test_a_malformed_token_is_dropped(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_token("/delegation_token/tokens/t", data)
    made = broker()
    made.tokens.token_changed("t", data)
    assert described(made) == []
    assert "no client can log in by it" in caplog.text


def test_a_token_of_kafka_2_has_no_requester() -> None:
    token = decode_token(
        "path",
        b'{"version":1,"owner":"User%3Aalice","renewers":["User%3Abob"],"issueTimestamp":1,"maxTimestamp":3,'
        b'"expiryTimestamp":2,"tokenId":"id"}',
    )
    assert (token.requester, token.renewers, token.expires_ms) == (ALICE, (BOB,), 2)


def test_the_secret_is_not_shown() -> None:
    assert SECRET not in repr(TokenSettings(SECRET))
