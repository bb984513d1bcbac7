"""ACLs as znodes: ``/kafka-acl``, ``/kafka-acl-extended`` and the notifications of their changes.

Answers to: ``kafka.zk.{ZkAclStore,ZkAclChangeStore}``, ``LiteralAclStore``, ``ExtendedAclStore``, ``ResourceZNode`` and
``kafka.security.authorizer.AclEntry``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalite.common.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.zk.znodes.codec import JsonObject, MalformedZnodeError, from_json, to_json

LITERAL_ROOT: Final = "/kafka-acl"
EXTENDED_ROOT: Final = "/kafka-acl-extended"
PREFIXED_ROOT: Final = f"{EXTENDED_ROOT}/prefixed"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
CHANGE_PREFIX: Final = "acl_changes_"
ROOTS: Final = {PatternType.LITERAL: LITERAL_ROOT, PatternType.PREFIXED: PREFIXED_ROOT}
"""Under each root a znode for every type of resource, under that one for every pattern."""


TYPE_NAMES: Final = {kind: kind.camel_name for kind in AclResourceType if kind > AclResourceType.ANY}
"""Names of the types in paths: ``Topic``, ``TransactionalId`` …"""
OPERATION_NAMES: Final = {each: each.camel_name for each in AclOperation if each > AclOperation.ANY}
PERMISSION_NAMES: Final = {each: each.camel_name for each in AclPermissionType if each > AclPermissionType.ANY}
_TYPES: Final = {name: kind for kind, name in TYPE_NAMES.items()}
_OPERATIONS: Final = {name.lower(): each for each, name in OPERATION_NAMES.items()}
_PERMISSIONS: Final = {name.lower(): each for each, name in PERMISSION_NAMES.items()}


PERSISTENT_PATHS: Final = (
    LITERAL_ROOT,
    EXTENDED_ROOT,
    PREFIXED_ROOT,
    *(f"{root}/{name}" for root in ROOTS.values() for name in TYPE_NAMES.values()),
    LITERAL_CHANGES,
    EXTENDED_CHANGES,
)
"""What a broker with Kafka's authorizer creates at its start."""


def resource_path(pattern: ResourcePattern) -> str:
    """Where the ACLs of ``pattern`` stand."""
    return f"{ROOTS[pattern.pattern_type]}/{TYPE_NAMES[pattern.type]}/{pattern.name}"


def resource_type(name: str) -> AclResourceType | None:
    """The type whose znode has that name; ``None`` for a type of another release, which Kafka ignores as well."""
    return _TYPES.get(name)


def encode_acls(entries: Iterable[AccessControlEntry]) -> bytes:
    """The content of a pattern's znode, in a fixed order."""
    acls = [
        {
            "principal": entry.principal,
            "permissionType": PERMISSION_NAMES[entry.permission_type],
            "operation": OPERATION_NAMES[entry.operation],
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]
    return to_json({"version": 1, "acls": acls})


def decode_acls(path: str, data: bytes) -> frozenset[AccessControlEntry]:
    """The reverse; empty data means none. Raises :class:`MalformedZnodeError`."""
    if not data:
        return frozenset()
    value = from_json(data, path)
    if value.get("version") != 1:
        raise MalformedZnodeError(f"{path}: version {value.get('version')!r} is not 1")
    acls = value.get("acls")
    if not isinstance(acls, list):
        raise MalformedZnodeError(f"{path}: acls: not a list: {acls!r}")
    return frozenset(_entry(path, each) for each in acls)


def _entry(path: str, value: object) -> AccessControlEntry:
    if not isinstance(value, dict):
        raise MalformedZnodeError(f"{path}: not an ACL: {value!r}")
    principal, host = _text(path, value, "principal"), _text(path, value, "host")
    operation = _OPERATIONS.get(_text(path, value, "operation").lower())
    permission = _PERMISSIONS.get(_text(path, value, "permissionType").lower())
    if operation is None or permission is None or ":" not in principal:
        raise MalformedZnodeError(f"{path}: an ACL has an unknown operation, permission type or principal: {value!r}")
    return AccessControlEntry(principal, host, operation, permission)


def change_path(pattern: ResourcePattern) -> str:
    """The path of a change's sequential znode, without its number."""
    root = LITERAL_CHANGES if pattern.pattern_type == PatternType.LITERAL else EXTENDED_CHANGES
    return f"{root}/{CHANGE_PREFIX}"


def encode_change(pattern: ResourcePattern) -> bytes:
    """The notification that the ACLs of ``pattern`` were written: text for a literal one, else JSON."""
    if pattern.pattern_type == PatternType.LITERAL:
        return f"{pattern.type.name}:{pattern.name}".encode()
    return to_json(
        {
            "version": 1,
            "resourceType": pattern.type.name,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_literal_change(data: bytes) -> ResourcePattern:
    """The pattern of a change under ``/kafka-acl-changes``. Raises :class:`MalformedZnodeError`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MalformedZnodeError(f"{LITERAL_CHANGES}: not UTF-8: {data[:100]!r}") from None
    kind, colon, name = text.partition(":")
    if not colon or not name:
        raise MalformedZnodeError(f"{LITERAL_CHANGES}: not <type>:<name>: {text[:100]!r}")
    return ResourcePattern(_resource_type(LITERAL_CHANGES, kind), name, PatternType.LITERAL)


def decode_extended_change(data: bytes) -> ResourcePattern:
    """The pattern of a change under ``/kafka-acl-extended-changes``. Raises :class:`MalformedZnodeError`."""
    value = from_json(data, EXTENDED_CHANGES)
    name = _text(EXTENDED_CHANGES, value, "name")
    kind = _resource_type(EXTENDED_CHANGES, _text(EXTENDED_CHANGES, value, "resourceType"))
    pattern = _text(EXTENDED_CHANGES, value, "patternType").upper()
    if value.get("version") != 1 or pattern not in ("LITERAL", "PREFIXED") or not name:
        raise MalformedZnodeError(f"{EXTENDED_CHANGES}: not a change of version 1: {value!r}")
    return ResourcePattern(kind, name, PatternType[pattern])


def _resource_type(path: str, name: str) -> AclResourceType:
    # Kafka writes the constant's name, and before 2.0 the name of the path.
    by_name = {kind.name: kind for kind in TYPE_NAMES}
    kind = by_name.get(name.upper()) or _TYPES.get(name)
    if kind is None:
        raise MalformedZnodeError(f"{path}: an unknown resource type: {name!r}")
    return kind


def _text(path: str, value: JsonObject, name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        raise MalformedZnodeError(f"{path}: {name}: not a text: {text!r}")
    return text
