"""Access control lists: who may, or may not, do what to which resource; and the filters that find them.

Answers to: ``org.apache.kafka.common.acl.{AclOperation,AclPermissionType,AccessControlEntry,AclBinding}``,
``org.apache.kafka.common.resource.{ResourceType,PatternType,ResourcePattern,ResourcePatternFilter}`` and
``kafka.security.authorizer.AclEntry``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, Self

WILDCARD: Final = "*"
"""Every resource of a type, or every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type ``CLUSTER``."""


class _Code(IntEnum):
    """A number of requests. 0 is ``UNKNOWN`` in each of these enums."""

    @classmethod
    def of_code(cls, code: int) -> Self:
        """The member with the number ``code``; ``UNKNOWN`` for a number without one."""
        return cls(code if code in cls._value2member_map_ else 0)

    @property
    def camel_name(self) -> str:
        """``DescribeConfigs`` for ``DESCRIBE_CONFIGS``, as znodes, logs and Kafka's tools have it."""
        return self.name.title().replace("_", "")


class AclOperation(_Code):
    """Kafka's ``AclOperation``; the numbers are those of requests."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclPermissionType(_Code):
    """Kafka's ``AclPermissionType``."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclResourceType(_Code):
    """Kafka's ``ResourceType`` of ACLs (configurations have another one)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How a resource's name is compared. ``ANY`` and ``MATCH`` occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


_SUPPORTED: Final = {
    AclResourceType.TOPIC: "READ WRITE CREATE DESCRIBE DELETE ALTER DESCRIBE_CONFIGS ALTER_CONFIGS",
    AclResourceType.GROUP: "READ DESCRIBE DELETE",
    AclResourceType.CLUSTER: ("CREATE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALTER DESCRIBE"),
    AclResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE",
    AclResourceType.DELEGATION_TOKEN: "DESCRIBE",
    AclResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
}
SUPPORTED_OPERATIONS: Final = {
    kind: frozenset(AclOperation[name] for name in names.split()) for kind, names in _SUPPORTED.items()
}
"""The operations of each type of resource (``AclEntry.supportedOperations``), for ``authorized operations``."""


class ResourcePattern(NamedTuple):
    """The resources that an ACL is about: one by its literal name (``*`` is all), or all with a prefix."""

    type: AclResourceType
    name: str
    pattern_type: PatternType

    def matches(self, type_: AclResourceType, name: str) -> bool:
        """Whether the resource ``name`` is among them."""
        if self.type != type_:
            return False
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AccessControlEntry(NamedTuple):
    """One line of a list: ``principal`` is ``User:alice`` or ``User:*``, ``host`` an IP address as text or ``*``."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType


class AclBinding(NamedTuple):
    """An entry and the resources that it is about."""

    pattern: ResourcePattern
    entry: AccessControlEntry

    def check(self) -> None:
        """Check that it can be kept. Raises :class:`ValueError`."""
        pattern, entry = self.pattern, self.entry
        if (
            pattern.type in (AclResourceType.UNKNOWN, AclResourceType.ANY)
            or pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
            or entry.operation in (AclOperation.UNKNOWN, AclOperation.ANY)
            or entry.permission_type in (AclPermissionType.UNKNOWN, AclPermissionType.ANY)
        ):
            raise ValueError("ACL binding contains unknown elements")
        if "/" in pattern.name or not pattern.name:
            raise ValueError(f"ACL binding contains invalid resource name: {pattern.name}")


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """The ACLs that a client asks for; ``None`` and ``ANY`` match every value."""

    resource_type: AclResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission_type: AclPermissionType

    @property
    def is_unknown(self) -> bool:
        """Whether a part of the filter has a number that this release does not know."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission_type)

    @property
    def patterns(self) -> tuple[ResourcePattern, ...]:
        """The only patterns that can match; empty if every pattern must be tried."""
        if self.resource_type in (0, AclResourceType.ANY) or self.name is None:
            return ()
        types = {
            PatternType.ANY: (PatternType.LITERAL, PatternType.PREFIXED),
            PatternType.LITERAL: (PatternType.LITERAL,),
            PatternType.PREFIXED: (PatternType.PREFIXED,),
        }.get(self.pattern_type, ())
        return tuple(ResourcePattern(self.resource_type, self.name, each) for each in types)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether ACLs of ``pattern`` are asked for. ``MATCH`` finds all that apply to the resource ``name``."""
        if self.resource_type not in (AclResourceType.ANY, pattern.type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.name == pattern.name
        return pattern.matches(pattern.type, self.name)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        """Whether ``entry`` is asked for."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )
