"""ACLs in ZooKeeper: read as a whole or by pattern, changed under the version of their znode, and watched.

Answers to: ``kafka.zk.KafkaZkClient`` (``createAclPaths``, ``conditionalSetAclsForResource``,
``createAclChangeNotification``) and ``AclAuthorizer.updateResourceAcls``. Reactor shell.

The notification of a change is part of the transaction that makes it, so that no broker misses a change because the
broker that made it was cut off in between.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable

from kafkalite.common.acls import AccessControlEntry, PatternType, ResourcePattern
from kafkalite.common.clock import Clock
from kafkalite.common.tasks import gather, sleep
from kafkalite.zk.stores.feeds import NotificationFeed
from kafkalite.zk.stores.paths import children, ensure, read
from kafkalite.zk.zk_client import (
    BadVersionError,
    Create,
    Delete,
    MultiError,
    NodeExistsError,
    NoNodeError,
    Op,
    SetData,
    ZkClient,
    ZkError,
)
from kafkalite.zk.znodes import acls
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)

MAX_RETRIES = 10
"""How often a change is tried again after another client changed the same ACLs."""

_BACKOFF = 0.1
_JITTER = 0.05
_OVERTAKEN = (BadVersionError, NoNodeError, NodeExistsError)

Entries = frozenset[AccessControlEntry]


class AclStore:
    """``/kafka-acl`` and ``/kafka-acl-extended``. A pattern without ACLs has no znode."""

    def __init__(self, client: ZkClient, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng

    async def ensure_paths(self) -> None:
        """Create the containers of ACLs and of notifications, as Kafka does at the start of a broker."""
        for path in acls.PERSISTENT_PATHS:
            await ensure(self._client, path)

    async def all(self, known: Callable[[ResourcePattern], Entries]) -> dict[ResourcePattern, Entries]:
        """The ACLs of every pattern. A malformed znode is logged, and its pattern keeps the ACLs that ``known`` has.

        A type of resource that this release does not know is passed over, as in Kafka.
        """
        patterns = [pattern for kind in acls.ROOTS for pattern in await self._patterns(kind)]
        found = await gather(self._read(pattern) for pattern in patterns)
        entries = {}
        for pattern, each in zip(patterns, found, strict=True):
            if isinstance(each, MalformedZnodeError):
                log.error("%s; its former ACLs stay in force", each)
                entries[pattern] = known(pattern)
            elif each is not None:
                entries[pattern] = each[0]
        return entries

    async def faults(self) -> list[str]:
        """What is wrong with the ACLs' znodes; a broker must not start without the ACLs that it cannot read."""
        patterns = [pattern for kind in acls.ROOTS for pattern in await self._patterns(kind)]
        found = await gather(self._read(pattern) for pattern in patterns)
        return [str(each) for each in found if isinstance(each, MalformedZnodeError)]

    async def read(self, pattern: ResourcePattern) -> Entries:
        """The ACLs of ``pattern``. Raises :class:`MalformedZnodeError`."""
        found = await self._read(pattern)
        if isinstance(found, MalformedZnodeError):
            raise found
        return frozenset() if found is None else found[0]

    async def change(self, pattern: ResourcePattern, change: Callable[[Entries], Entries]) -> Entries:
        """Replace the ACLs of ``pattern`` by what ``change`` makes of them, and notify every broker; the new ACLs.

        ``change`` is called again if another client changed them meanwhile. Raises :class:`MalformedZnodeError`,
        :class:`ZkError`, and :class:`BadVersionError` after too many tries.
        """
        for _ in range(MAX_RETRIES + 1):
            found = await self._read(pattern)
            if isinstance(found, MalformedZnodeError):
                raise found
            present = frozenset() if found is None else found[0]
            wanted = change(present)
            if wanted == present:
                return wanted
            if await self._write(pattern, wanted, None if found is None else found[1]):
                return wanted
            await sleep(self._clock, _BACKOFF + self._rng.random() * _JITTER)
        path = acls.resource_path(pattern)
        raise BadVersionError(path, f"the ACLs were changed by others {MAX_RETRIES + 1} times in a row:")

    async def watch_changes(self, on_change: Callable[[ResourcePattern | None], None]) -> tuple[NotificationFeed, ...]:
        """Call ``on_change(pattern)`` for every change, until both results are stopped.

        ``on_change(None)`` says that changes may have been missed, and that every pattern must be read.
        """
        literal = self._feed(acls.LITERAL_CHANGES, acls.decode_literal_change, on_change)
        extended = self._feed(acls.EXTENDED_CHANGES, acls.decode_extended_change, on_change)
        await literal.start()
        try:
            await extended.start()
        except ZkError:
            # The caller begins again with two new feeds.
            literal.stop()
            raise
        return literal, extended

    def _feed(
        self,
        root: str,
        decode: Callable[[bytes], ResourcePattern],
        on_change: Callable[[ResourcePattern | None], None],
    ) -> NotificationFeed:
        def handle(data: bytes | None) -> None:
            pattern = None
            if data is not None:
                try:
                    pattern = decode(data)
                except MalformedZnodeError as error:
                    # It may tell of a deletion, which must not be passed over.
                    log.warning("all ACLs are read again, because of a notification: %s", error)
            on_change(pattern)

        return NotificationFeed(self._client, f"{root}/{acls.CHANGE_PREFIX}", handle, self._clock.time_ms)

    async def _patterns(self, kind: PatternType) -> Iterable[ResourcePattern]:
        root = acls.ROOTS[kind]
        names = sorted(await children(self._client, root))
        types = [(name, acls.resource_type(name)) for name in names]
        for name, type_ in types:
            if type_ is None:
                log.warning("%s/%s: ACLs of a resource type that this release does not know are ignored", root, name)
        known = [(name, type_) for name, type_ in types if type_ is not None]
        found = await gather(children(self._client, f"{root}/{name}") for name, _ in known)
        return [
            ResourcePattern(type_, name, kind)
            for (_, type_), resources in zip(known, found, strict=True)
            for name in sorted(resources)
        ]

    async def _read(self, pattern: ResourcePattern) -> tuple[Entries, int] | MalformedZnodeError | None:
        path = acls.resource_path(pattern)
        found = await read(self._client, path)
        if found is None:
            return None
        try:
            return acls.decode_acls(path, found[0]), found[1].version
        except MalformedZnodeError as error:
            return error

    async def _write(self, pattern: ResourcePattern, entries: Entries, version: int | None) -> bool:
        """Whether the znode was still at ``version`` (``None``: not there) and is written."""
        path = acls.resource_path(pattern)
        op: Op
        if not entries:
            op = Delete(path, -1 if version is None else version)
        elif version is None:
            op = Create(path, acls.encode_acls(entries))
        else:
            op = SetData(path, acls.encode_acls(entries), version)
        notification = Create(acls.change_path(pattern), acls.encode_change(pattern), sequence=True)
        try:
            await self._client.multi([op, notification])
        except MultiError as error:
            if not isinstance(error.cause, _OVERTAKEN):
                raise error.cause from None
            # Another client changed the ACLs, or removed a container, which Kafka creates at the start only.
            await self.ensure_paths()
            return False
        return True
