"""The matrix of ACLs: every request of :mod:`integration.security.acl_cases`, sent by users with different ACLs.

Each pair of a request and a way of granting has a user of its own, so that all ACLs can stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from integration.harness.wire import Wire
from integration.security.acl_cases import CASES, GROUP, TOPIC, AclCase, Need, build, plain
from kafkalite.common.acls import (
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.errors import ErrorCode
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request, request_class

ADMIN: Final = "admin"
READER: Final = "reader"
CREATOR: Final = "creator"
PASSWORD: Final = "matrix"
CLIENT_HOST: Final = "127.0.0.1"

_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
_IMPLYING: Final = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}

Grant = tuple[ResourcePattern, str, AclOperation, AclPermissionType]
"""Resources, host, operation, and whether it is allowed."""


def _literal(name: str, need: Need, host: str = "*", kind: AclPermissionType = _ALLOW) -> Grant:
    return ResourcePattern(need[1], name, _LITERAL), host, need[0], kind


def _prefix(name: str, need: Need, kind: AclPermissionType = _ALLOW) -> Grant:
    # The cluster's ACLs must have its whole name, also those for a prefix.
    prefix = name if need[1] is AclResourceType.CLUSTER else name[:-3]
    return ResourcePattern(need[1], prefix, _PREFIXED), "*", need[0], kind


def _wildcard(name: str, need: Need) -> Grant:
    return _literal(name if need[1] is AclResourceType.CLUSTER else "*", need)


def _all(need: Need) -> Need:
    return AclOperation.ALL, need[1]


def _others(name: str, need: Need) -> list[Grant]:
    """Every operation that does not allow the needed one."""
    allowing = {need[0], *_IMPLYING.get(need[0], ())}
    return [_literal(name, (operation, need[1])) for operation in SUPPORTED_OPERATIONS[need[1]] - allowing]


def _another_name(name: str, need: Need) -> list[Grant]:
    # There is only one cluster.
    return [] if need[1] is AclResourceType.CLUSTER else [_literal(f"{name}s", need)]


ANOTHER_NAME: Final = "another name"

ALLOWED: Final[Mapping[str, Callable[[str, Need], list[Grant]]]] = {
    "literal": lambda name, need: [_literal(name, need)],
    "prefixed": lambda name, need: [_prefix(name, need)],
    "wildcard": lambda name, need: [_wildcard(name, need)],
    "all operations": lambda name, need: [_literal(name, _all(need))],
    "host": lambda name, need: [_literal(name, need, CLIENT_HOST)],
    "denied from another host": lambda name, need: [
        _literal(name, need),
        _literal(name, need, "10.9.8.7", _DENY),
    ],
    "denied another operation": lambda name, need: [
        _literal(name, need),
        *((*grant[:3], _DENY) for grant in _others(name, need) if grant[2] != AclOperation.ALL),
    ],
}
DENIED: Final[Mapping[str, Callable[[str, Need], list[Grant]]]] = {
    "nothing": lambda name, need: [],  # noqa: ARG005
    "another host": lambda name, need: [_literal(name, need, "10.9.8.7")],
    "other operations": _others,
    ANOTHER_NAME: _another_name,
    "denied": lambda name, need: [_literal(name, need), _literal(name, need, kind=_DENY)],
    "denied all operations": lambda name, need: [_literal(name, need), _literal(name, _all(need), kind=_DENY)],
    "denied by prefix": lambda name, need: [_literal(name, need), _prefix(name, need, _DENY)],
    "denied from this host": lambda name, need: [_literal(name, need), _literal(name, need, CLIENT_HOST, _DENY)],
}
INSTEAD: Final = "instead"
"""The way of granting what :attr:`AclCase.instead` names."""


def without(index: int) -> str:
    """The way of granting all but one of what a request needs."""
    return f"without {index}"


def ways(case: AclCase) -> Iterator[str]:
    """The ways of granting that make sense for ``case``."""
    yield from (way for way in DENIED if not (way == ANOTHER_NAME and case.any_name))
    yield from ALLOWED
    if case.instead:
        yield INSTEAD
    if len(case.needs) > 1:
        yield from (without(index) for index in range(len(case.needs)))


def grants(case: AclCase, way: str) -> list[Grant]:
    """The ACLs of ``way`` for ``case``."""
    if way == INSTEAD:
        return [_literal(case.resource(need[1]), need) for need in case.instead]
    if way.startswith("without "):
        left_out = int(way.removeprefix("without "))
        return [_literal(case.resource(need[1]), need) for index, need in enumerate(case.needs) if index != left_out]
    make = ALLOWED.get(way) or DENIED[way]
    found = [grant for need in case.needs for grant in make(case.resource(need[1]), need)]
    return [grant for grant in found if (grant[2], grant[0].type) not in case.instead]


def user(case: AclCase, way: str) -> str:
    """The user that has the ACLs of ``way`` for ``case``."""
    return f"u{CASES.index(case)}-{way.replace(' ', '-')}"


def users() -> list[str]:
    """All users of the matrix."""
    return [ADMIN, READER, CREATOR, *(user(case, way) for case in CASES for way in ways(case))]


def properties(address: str, sasl_address: str, names: Iterable[str]) -> dict[str, str]:
    """What makes a broker know the users and obey ACLs; other brokers come as anonymous super users."""
    logins = " ".join(f'user_{name}="{PASSWORD}"' for name in names)
    return {
        "listeners": f"PLAINTEXT://{address},SASL://{sasl_address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {logins};"
        ),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    }


def ask(client: BlockingConnection, api: ApiKey, version: int, **fields: Any) -> Any:
    """One request from plain values, and its decoded answer."""
    message = build(request_class(api), version, fields)
    return decode_response(api, version, client.call(api, version, encode_request(api, version, message)))


class User(Wire):
    """One connection of a user, authenticated by PLAIN."""

    def __init__(self, address: str, name: str, password: str = PASSWORD) -> None:
        super().__init__(address)
        self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=f"\0{name}\0{password}".encode())
        assert answer.error_code == ErrorCode.NONE, answer.error_message

    def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        """One request from plain values, and its decoded answer."""
        return ask(self, api, version, **fields)

    def send(self, case: AclCase) -> Any:
        """The answer to ``case`` as plain values."""
        return plain(self.ask(case.api, case.version, **case.fields))

    def create_acls(self, bindings: Iterable[AclBinding]) -> list[Any]:
        """The results of CreateAcls for ``bindings``."""
        creations = [
            {
                "resource_type": pattern.type,
                "resource_name": pattern.name,
                "resource_pattern_type": pattern.pattern_type,
                "principal": entry.principal,
                "host": entry.host,
                "operation": entry.operation,
                "permission_type": entry.permission_type,
            }
            for pattern, entry in bindings
        ]
        return list(self.ask(ApiKey.CREATE_ACLS, 3, creations=creations).results)


def bindings() -> list[AclBinding]:
    """The ACLs of all users."""
    found = [
        AclBinding(pattern, AccessControlEntry(f"User:{user(case, way)}", host, operation, kind))
        for case in CASES
        for way in ways(case)
        for pattern, host, operation, kind in grants(case, way)
    ]
    return list(dict.fromkeys(found))


def prepare(admin: User) -> None:
    """Make the topic, the group and the ACLs that the matrix is about."""
    topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    (made,) = admin.ask(ApiKey.CREATE_TOPICS, 5, topics=[topic], timeout_ms=10_000, validate_only=False).topics
    assert made.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), made
    wanted = bindings()
    for start in range(0, len(wanted), 200):
        for result in admin.create_acls(wanted[start : start + 200]):
            assert result.error_code == ErrorCode.NONE, result
    commit_offset(admin)


def commit_offset(admin: User) -> None:
    """Make the group exist, by an offset."""
    for _ in range(100):
        (coordinator,) = admin.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[GROUP]).coordinators
        if coordinator.error_code == ErrorCode.NONE:
            (case,) = (case for case in CASES if case.name == "offset commit")
            answer = admin.send(case)
            if answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE:
                return
    raise AssertionError("the group's offset could not be committed")


def order(cases: Sequence[AclCase]) -> list[AclCase]:
    """Those that delete come last, because the others need the existing topics and groups."""
    return sorted(cases, key=lambda case: case.name.startswith("delete"))
