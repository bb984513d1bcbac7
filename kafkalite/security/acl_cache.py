"""The ACLs that a broker knows, and the decisions that follow from them.

Answers to: ``kafka.security.authorizer.AclAuthorizer`` (``aclCache``, ``authorizeAction``,
``authorizeByResourceType``). Pure.

A super user may do everything. Else the ACLs of the resource count: those of its literal name, of ``*``, and of each
prefix. Without any, ``allow.everyone.if.no.acl.found`` decides. A deny of the operation, or of all operations, wins
over every allow; an allow of an operation also allows what the operation implies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kafkalite.common.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.acl_snapshot import AclSnapshot

_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: (
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
_NONE: Final[frozenset[AccessControlEntry]] = frozenset()


class AclCache:
    """The ACLs that this broker knows, and the decisions that follow from them.

    ``snapshot`` is replaced with every change: a decision that was kept holds while its snapshot is current.
    """

    def __init__(self, super_users: frozenset[KafkaPrincipal] = frozenset(), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._literal: dict[tuple[AclResourceType, str], frozenset[AccessControlEntry]] = {}
        self._prefixed: dict[tuple[AclResourceType, str], frozenset[AccessControlEntry]] = {}
        self._lengths: dict[AclResourceType, Counter[int]] = {}
        """How many prefixes of each type have a length."""
        self.snapshot = AclSnapshot()

    def update(self, pattern: ResourcePattern, entries: Iterable[AccessControlEntry]) -> None:
        """Replace the entries of ``pattern``; none removes it."""
        table = self._prefixed if pattern.pattern_type == PatternType.PREFIXED else self._literal
        key = (pattern.type, pattern.name)
        kept = frozenset(entries)
        before = table.get(key, _NONE)
        if before == kept:
            return
        if kept:
            table[key] = kept
        else:
            del table[key]
        if table is self._prefixed:
            self._count_prefix(pattern, bool(kept) - bool(before))
        self.snapshot = self.snapshot.succeeded()

    def _count_prefix(self, pattern: ResourcePattern, change: int) -> None:
        lengths = self._lengths.setdefault(pattern.type, Counter())
        lengths[len(pattern.name)] += change
        if not lengths[len(pattern.name)]:
            del lengths[len(pattern.name)]

    def replace_all(self, acls: Mapping[ResourcePattern, Iterable[AccessControlEntry]]) -> None:
        """Make ``acls`` all that there are, after a new session with ZooKeeper."""
        for pattern in self.patterns():
            if pattern not in acls:
                self.update(pattern, ())
        for pattern, entries in acls.items():
            self.update(pattern, entries)

    def patterns(self) -> list[ResourcePattern]:
        """The patterns that have entries, sorted."""
        literal = (ResourcePattern(*key, PatternType.LITERAL) for key in self._literal)
        prefixed = (ResourcePattern(*key, PatternType.PREFIXED) for key in self._prefixed)
        return sorted((*literal, *prefixed))

    def entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        """The entries of ``pattern``."""
        table = self._prefixed if pattern.pattern_type == PatternType.PREFIXED else self._literal
        return table.get((pattern.type, pattern.name), _NONE)

    def acls(self, wanted: AclBindingFilter) -> Iterator[AclBinding]:
        """The ACLs that ``wanted`` matches, sorted."""
        for pattern in self.patterns():
            if wanted.matches_pattern(pattern):
                for entry in sorted(self.entries(pattern)):
                    if wanted.matches_entry(entry):
                        yield AclBinding(pattern, entry)

    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        """Whether the principal may do ``operation`` to the resource ``name`` from ``host``, an IP address as text."""
        if principal in self._super_users:
            return True
        entries = list(self._matching(type_, name))
        if not entries:
            return self._allow_if_no_acl
        who = str(principal)
        own = [
            entry
            for found in entries
            for entry in found
            if entry.principal in (who, WILDCARD_PRINCIPAL) and entry.host in (host, WILDCARD)
        ]
        denied = (operation, AclOperation.ALL)
        allowed = (*_IMPLIED_BY.get(operation, (operation,)), AclOperation.ALL)
        return not any(each.permission_type == _DENY and each.operation in denied for each in own) and any(
            each.permission_type == _ALLOW and each.operation in allowed for each in own
        )

    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType
    ) -> bool:
        """Whether there can be a resource of the type to which the principal may do exactly ``operation`` (KIP-679).

        No operation implies another one here. A literal allow does not count under a deny of the same name or of a
        prefix of it, and a prefixed allow not under a deny of the same prefix or of a shorter one.
        """
        if principal in self._super_users:
            return True
        who = (str(principal), WILDCARD_PRINCIPAL)
        hosts = (host, WILDCARD)
        operations = (operation, AclOperation.ALL)

        def names(table: Mapping[tuple[AclResourceType, str], frozenset[AccessControlEntry]], kind: int) -> set[str]:
            return {
                name
                for (type_of_name, name), entries in table.items()
                if type_of_name == type_
                and any(
                    entry.permission_type == kind
                    and entry.principal in who
                    and entry.host in hosts
                    and entry.operation in operations
                    for entry in entries
                )
            }

        deny_literals = names(self._literal, _DENY)
        if WILDCARD in deny_literals:
            return False
        if self._allow_if_no_acl:
            return True
        deny_prefixes = names(self._prefixed, _DENY)
        if any(not _is_dominated(prefix, deny_prefixes) for prefix in names(self._prefixed, _ALLOW)):
            return True
        return any(
            literal == WILDCARD or (literal not in deny_literals and not _is_dominated(literal, deny_prefixes))
            for literal in names(self._literal, _ALLOW)
        )

    def _matching(self, type_: AclResourceType, name: str) -> Iterator[frozenset[AccessControlEntry]]:
        literal, prefixed = self._literal, self._prefixed
        if (found := literal.get((type_, WILDCARD))) is not None:
            yield found
        if name != WILDCARD and (found := literal.get((type_, name))) is not None:
            yield found
        for size in self._lengths.get(type_, ()):
            if size <= len(name) and (found := prefixed.get((type_, name[:size]))) is not None:
                yield found


def _is_dominated(name: str, deny_prefixes: set[str]) -> bool:
    return any(name[:size] in deny_prefixes for size in range(1, len(name) + 1))
