"""Kafka's authorizer: ACLs are read from ZooKeeper, followed by their notifications, and changed for clients.

Answers to: ``kafka.security.authorizer.AclAuthorizer`` (``configure``, ``loadCache``, ``createAcls``, ``deleteAcls``).
Deterministic.

While the connection to ZooKeeper is lost the ACLs that were read last hold; once it is back, all changes since then are
read within a moment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kafkalite.common.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclResourceType,
    ResourcePattern,
)
from kafkalite.common.errors import ApiError, ErrorCode, StartupError
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.tasks import gather_in_parts
from kafkalite.security.acl_cache import AclCache
from kafkalite.security.acl_snapshot import AclSnapshot
from kafkalite.security.authorizer_interface import Authorizer, DeletedAcl
from kafkalite.zk.stores.acls import AclStore
from kafkalite.zk.stores.feeds import ChangeFollower
from kafkalite.zk.zk_client import ZkError
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)

_AT_ONCE = 50
"""Patterns that are changed concurrently."""


class AclAuthorizer(Authorizer):
    """Decides by the ACLs in ``store`` as they were read last."""

    def __init__(self, store: AclStore, super_users: frozenset[KafkaPrincipal], *, allow_if_no_acl: bool) -> None:
        self._store = store
        self._acls = AclCache(super_users, allow_if_no_acl=allow_if_no_acl)
        self._changes: ChangeFollower[ResourcePattern | None] = ChangeFollower("ACLs", self._changed)

    @property
    def snapshot(self) -> AclSnapshot:
        """Replaced with every change of an ACL."""
        return self._acls.snapshot

    async def start(self) -> None:
        """Create Kafka's containers, watch for changes, then read every ACL. Raises :class:`ZkError`: call it again."""
        await self._store.ensure_paths()
        await self._changes.start(self._store.watch_changes)
        faults = await self._store.faults()
        if faults:
            # A broker that passed over what it cannot read might allow what is denied there.
            raise StartupError(f"{faults[0]}; write the ACLs of this resource again, or delete the znode")
        await self._read_all()

    def close(self) -> None:
        """Follow no more changes."""
        self._changes.close()

    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        """By the ACLs of the resource's name, of its prefixes and of ``*``."""
        return self._acls.authorize(principal, host, operation, type_, name)

    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType
    ) -> bool:
        """By the ACLs of all resources of the type."""
        return self._acls.authorize_by_resource_type(principal, host, operation, type_)

    def acls(self, wanted: AclBindingFilter) -> Iterable[AclBinding]:
        """The ACLs that this broker knows."""
        return self._acls.acls(wanted)

    async def create_acls(self, bindings: Sequence[AclBinding]) -> Sequence[Exception | None]:
        """Add ``bindings``, all of a pattern by one write."""
        results: list[Exception | None] = [_fault(binding) for binding in bindings]
        wanted: dict[ResourcePattern, set[AccessControlEntry]] = {}
        for binding, fault in zip(bindings, results, strict=True):
            if fault is None:
                wanted.setdefault(binding.pattern, set()).add(binding.entry)

        async def add(pattern: ResourcePattern) -> Exception | None:
            try:
                entries = await self._store.change(pattern, lambda present: present | wanted[pattern])
            except (ZkError, MalformedZnodeError) as error:
                return error
            self._acls.update(pattern, entries)
            return None

        patterns = list(wanted)
        outcomes = dict(zip(patterns, await gather_in_parts(add, patterns, _AT_ONCE), strict=True))
        return [
            outcomes[binding.pattern] if fault is None else fault
            for binding, fault in zip(bindings, results, strict=True)
        ]

    async def delete_acls(self, filters: Sequence[AclBindingFilter]) -> Sequence[Sequence[DeletedAcl]]:
        """Remove from every pattern what a filter matches; a filter by name also finds ACLs not known here yet."""
        results: list[list[DeletedAcl]] = [[] for _ in filters]
        named = (pattern for wanted in filters for pattern in wanted.patterns)
        candidates = dict.fromkeys((*self._acls.patterns(), *named))

        async def remove(pattern: ResourcePattern) -> None:
            asking = [
                (each, found) for each, found in zip(filters, results, strict=True) if each.matches_pattern(pattern)
            ]
            matched: dict[AccessControlEntry, list[DeletedAcl]] = {}

            def without(present: frozenset[AccessControlEntry]) -> frozenset[AccessControlEntry]:
                matched.clear()
                for entry in sorted(present):
                    for wanted, found in asking:
                        if wanted.matches_entry(entry):
                            matched[entry] = found
                            break
                return present - matched.keys()

            failed: Exception | None = None
            try:
                self._acls.update(pattern, await self._store.change(pattern, without))
            except (ZkError, MalformedZnodeError) as error:
                failed = error
            for entry, found in matched.items():
                found.append(DeletedAcl(AclBinding(pattern, entry), failed))

        await gather_in_parts(
            remove, [each for each in candidates if any(wanted.matches_pattern(each) for wanted in filters)], _AT_ONCE
        )
        return results

    async def _changed(self, pattern: ResourcePattern | None) -> None:
        """The ACLs of ``pattern`` were written; ``None``: perhaps those of any pattern."""
        if pattern is None:
            await self._read_all()
            return
        try:
            entries = await self._store.read(pattern)
        except MalformedZnodeError as error:
            log.error("%s; its former ACLs stay in force", error)
            return
        self._acls.update(pattern, entries)
        log.info("read %d ACLs of %s %s %s", len(entries), pattern.pattern_type.name, pattern.type.name, pattern.name)

    async def _read_all(self) -> None:
        found = await self._store.all(self._acls.entries)
        self._acls.replace_all(found)
        log.info("read the ACLs of %d resource patterns", len(found))


def _fault(binding: AclBinding) -> Exception | None:
    try:
        binding.check()
    except ValueError:
        return ApiError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
    return None
