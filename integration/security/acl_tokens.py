"""The matrix of delegation tokens: what an authorizer is asked for them, and what owners, renewers and others may do.

The id of a token is known only once it is made, so that these requests cannot be rows of
:mod:`integration.security.acl_cases`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from integration.harness.wire import Wire
from integration.security.acl_matrix import ADMIN, ALLOWED, DENIED, Grant, User, ask
from integration.security.scram_login import log_in, token_password
from kafkalite.common.acls import AccessControlEntry, AclBinding, AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey

SECRET: Final = "matrix-secret"
MECHANISM: Final = "SCRAM-SHA-256"
OWNER: Final = "token-owner"
RENEWER: Final = "token-renewer"
REQUESTER: Final = "token-requester"
STRANGER: Final = "token-stranger"
PARTIES: Final = (OWNER, RENEWER, REQUESTER, STRANGER, ADMIN)
HOUR_MS: Final = 3_600_000
PROPERTIES: Final = {
    "delegation.token.secret.key": SECRET,
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
"""Settings of a broker beside those of :func:`integration.security.acl_matrix.properties`."""

Need = tuple[AclOperation, AclResourceType]
Client = User | Wire
CREATE: Final = "create a token of another user"
DESCRIBE: Final = "describe a token"
DESCRIBE_ALL: Final = "describe the tokens of a user"
NEEDS: Final[Mapping[str, Need]] = {
    CREATE: (AclOperation.CREATE_TOKENS, AclResourceType.USER),
    DESCRIBE: (AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN),
    DESCRIBE_ALL: (AclOperation.DESCRIBE_TOKENS, AclResourceType.USER),
}


class Token(NamedTuple):
    """What its maker is told."""

    id: str
    hmac: bytes
    issued_ms: int


def ways() -> list[str]:
    """The ways of granting."""
    return [*DENIED, *ALLOWED]


def user(need: str, way: str) -> str:
    """The user that has the ACLs of ``way`` for ``need``."""
    return f"t{list(NEEDS).index(need)}-{way.replace(' ', '-')}"


def users() -> list[str]:
    """All users of this matrix but the administrator."""
    return [OWNER, RENEWER, REQUESTER, STRANGER, *(user(need, way) for need in NEEDS for way in ways())]


class TokenMatrix:
    """Sends the requests to one broker, at its address with SASL and at the ``open_address`` without."""

    def __init__(self, open_address: str, address: str) -> None:
        self._open_address = open_address
        self._address = address

    def answers(self) -> dict[str, dict[str, Any]]:
        """Request → client → answer, as plain values without what differs from run to run."""
        with self._as(ADMIN) as admin:
            _grant(admin, REQUESTER, _exact(f"User:{OWNER}", NEEDS[CREATE]))
            with self._as(REQUESTER) as requester:
                token = _made(requester, owner=OWNER)
            for need, (operation, type_) in NEEDS.items():
                name = token.id if type_ is AclResourceType.DELEGATION_TOKEN else f"User:{OWNER}"
                for way in ways():
                    make = ALLOWED.get(way) or DENIED[way]
                    _grant(admin, user(need, way), make(name, (operation, type_)))
        found: dict[str, dict[str, Any]] = {}
        # Those that make tokens come last, because the others are to see the one token.
        for need in (DESCRIBE, DESCRIBE_ALL, CREATE):
            for way in ways():
                with self._as(user(need, way)) as client:
                    found.setdefault(need, {})[way] = _created(client, owner=OWNER) if need == CREATE else _seen(client)
        found["the parties of a token"] = {name: self._party(name) for name in PARTIES}
        found["unusual requests"] = self._unusual()
        found["without a login of its own"] = self._without_login()
        return found

    def _as(self, name: str) -> User:
        return User(self._address, name)

    def _party(self, name: str) -> dict[str, Any]:
        """What one of :data:`PARTIES` may do with a token."""
        with self._as(REQUESTER) as requester, self._as(name) as client:
            token = _made(requester, owner=OWNER, renewers=[RENEWER])
            return {
                "sees it": any(each.token_id == token.id for each in _described(client).tokens),
                "renews it": _renewed(client, token, -1),
                "renews it for an hour": _renewed(client, token, HOUR_MS),
                "lets it end in two hours": _expired(client, token, 2 * HOUR_MS),
                "ends it": _expired(client, token, -1)[0],
                "renews what it has ended": _renewed(client, token, -1)[0],
            }

    def _unusual(self) -> dict[str, Any]:
        with self._as(OWNER) as owner, self._as(ADMIN) as admin:
            ended, short, long = _made(owner), _made(owner, lifetime_ms=HOUR_MS), _made(owner, lifetime_ms=10**15)
            found: dict[str, Any] = {
                "a renewer that is a group": _created(owner, renewers=["x"], renewer_type="Group"),
                "an owner that is a group": _created(owner, owner="x", owner_type="Group"),
                "an owner that is a group, by a super user": _created(admin, owner="x", owner_type="Group"),
                "its own token by name": _created(owner, owner=OWNER),
                "the oldest version": _created(owner, version=1),
                "another secret is renewed": _renewed(owner, ended._replace(hmac=b"no"), -1)[0],
                "another secret is ended": _expired(owner, ended._replace(hmac=b""), -1)[0],
                "a life of an hour is renewed": _renewed(owner, short, -1),
                "a life of ages is renewed": _renewed(owner, long, 10**15),
                "no life is left": _expired(owner, ended, 0),
            }
            time.sleep(0.05)  # a token ends after its last millisecond
            found["an ended token is renewed"] = _renewed(owner, ended, -1)
            found["an ended token ends later"] = _expired(owner, ended, HOUR_MS)
            found["an ended token is seen"] = any(each.token_id == ended.id for each in _described(owner).tokens)
            found["an ended token is ended"] = _expired(owner, ended, -1)[0]
            found["no owners"] = len(_described(owner, owners=[]).tokens)
            return found

    def _without_login(self) -> dict[str, Any]:
        with self._as(OWNER) as owner:
            token = _made(owner)
        with Wire(self._open_address) as stranger, Wire(self._address) as bearer:
            assert log_in(bearer, MECHANISM, token.id, token_password(token.hmac), is_token=True) == ErrorCode.NONE
            return {
                name: {
                    "create": _created(client),
                    "renew": _renewed(client, token, -1),
                    "expire": _expired(client, token, -1),
                    "describe": _described(client).error_code,
                }
                for name, client in (("nobody", stranger), ("a bearer of the token", bearer))
            }


def _exact(name: str, need: Need) -> list[Grant]:
    return ALLOWED["literal"](name, need)


def _grant(admin: User, name: str, grants: Sequence[Grant]) -> None:
    wanted = [
        AclBinding(pattern, AccessControlEntry(f"User:{name}", host, operation, kind))
        for pattern, host, operation, kind in grants
    ]
    for result in admin.create_acls(wanted):
        assert result.error_code == ErrorCode.NONE, result


def _create(
    client: Client,
    *,
    owner: str | None = None,
    owner_type: str = "User",
    renewers: Sequence[str] = (),
    renewer_type: str = "User",
    lifetime_ms: int = -1,
    version: int = 3,
) -> Any:
    fields: dict[str, Any] = {
        "renewers": [{"principal_type": renewer_type, "principal_name": name} for name in renewers],
        "max_lifetime_ms": lifetime_ms,
    }
    if version >= 3:
        fields |= {"owner_principal_type": owner_type if owner else None, "owner_principal_name": owner}
    return ask(client, ApiKey.CREATE_DELEGATION_TOKEN, version, **fields)


def _made(client: Client, **wanted: Any) -> Token:
    answer = _create(client, **wanted)
    assert answer.error_code == ErrorCode.NONE, answer
    return Token(answer.token_id, bytes(answer.hmac), answer.issue_timestamp_ms)


def _created(client: Client, **wanted: Any) -> dict[str, Any]:
    answer = _create(client, **wanted)
    return {
        "error_code": int(answer.error_code),
        "owner": f"{answer.principal_type}:{answer.principal_name}",
        "requester": f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
        "id": len(answer.token_id),
        "hmac": len(answer.hmac),
        "hours": _hours(answer.expiry_timestamp_ms - answer.issue_timestamp_ms),
        "greatest hours": _hours(answer.max_timestamp_ms - answer.issue_timestamp_ms),
    }


def _renewed(client: Client, token: Token, period_ms: int) -> list[int]:
    """The error, and the hours from the token's beginning to its end; -1 without an end."""
    answer = ask(client, ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period_ms=period_ms)
    return _change(answer, token)


def _expired(client: Client, token: Token, period_ms: int) -> list[int]:
    answer = ask(client, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period_ms=period_ms)
    return _change(answer, token)


def _change(answer: Any, token: Token) -> list[int]:
    end = answer.expiry_timestamp_ms
    return [int(answer.error_code), -1 if end == -1 else _hours(end - token.issued_ms)]


def _described(client: Client, owners: Sequence[str] | None = None) -> Any:
    asked = None if owners is None else [{"principal_type": "User", "principal_name": name} for name in owners]
    return ask(client, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=asked)


def _seen(client: Client) -> dict[str, Any]:
    """What the client sees, if it asks for all tokens, for those of the owner, and for those of another user."""
    return {
        name: [
            int(answer.error_code),
            sorted(
                f"{each.principal_name} {each.token_requester_principal_name} {len(each.hmac)}"
                for each in answer.tokens
            ),
        ]
        for name, answer in (
            ("all", _described(client)),
            ("of the owner", _described(client, [OWNER])),
            ("of the requester", _described(client, [REQUESTER])),
            ("of another", _described(client, [RENEWER])),
        )
    }


def _hours(milliseconds: int) -> int:
    return round(milliseconds / HOUR_MS)
