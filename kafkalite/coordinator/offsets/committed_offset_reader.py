"""Reads the committed offsets of groups, from values cached under ZooKeeper watches; any broker may read.

Answers to: ``GroupMetadataManager.getOffsets`` and ``KafkaApis.fetchOffsetsFromZookeeper``. Reactor shell.

The committed offset of a partition is the staged one, if its transaction was decided after the number was written (or
after the decision of the transaction that wrote the number); else the number with the commit beside it, if both znodes
carry the same mzxid; else the bare number, which an old consumer or an administrator wrote.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.staged_offsets_reader import StagedOffsetsReader, StagedOffsetsView
from kafkalite.coordinator.offsets.values import OffsetAndMetadata
from kafkalite.zk.stores.offsets import AT_ONCE, OffsetStore, StoredOffset
from kafkalite.zk.stores.paths import children_or_watch
from kafkalite.zk.stores.watched_reads import WatchedReads
from kafkalite.zk.zk_client import Watch
from kafkalite.zk.znodes import consumers
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.names import decode_name

log = logging.getLogger(__name__)

Fetched = dict[TopicPartition, OffsetAndMetadata | ErrorCode]
Stored = StoredOffset | ErrorCode | None

_TRIES = 5


class CommittedOffsetReader:
    """Reads the offsets of groups through :class:`WatchedReads`."""

    def __init__(self, store: OffsetStore, reads: WatchedReads, staged: StagedOffsetsReader) -> None:
        self._store = store
        self._reads = reads
        self._staged = staged

    async def fetch(self, group: str, partitions: Sequence[TopicPartition] | None, require_stable: bool) -> Fetched:
        """See ``OffsetManager.fetch``."""
        wanted: Sequence[TopicPartition] = ()
        for _ in range(_TRIES):
            # Read the staged offsets first: those that are applied meanwhile are then found among the stored ones.
            staged = await self._staged.view(group)
            wanted = await self.partitions(group) if partitions is None else partitions
            if partitions is None:
                only_staged = set(staged.decided) | (staged.undecided if require_stable else set())
                wanted = sorted(only_staged.union(wanted))
            stored = await self.stored(group, wanted)
            if self._reads.all_valid(staged.paths):
                return _combined(wanted, stored, staged, require_stable)
            # A transaction changed meanwhile, so some offsets may be from before its decision and others from after.
        if require_stable:
            return dict.fromkeys(wanted, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _combined(wanted, stored, staged, require_stable)

    async def partitions(self, group: str) -> list[TopicPartition]:
        """All partitions for which ``group`` has an offset."""
        above = consumers.offsets_path(group)
        topics = await self._reads.get(above, partial(children_or_watch, self._store.client, above))
        listed = await gather(self._numbers(f"{above}/{topic}") for topic in topics)
        return sorted(
            TopicPartition(decode_name(topic), int(name))
            for topic, names in zip(topics, listed, strict=True)
            for name in names
            if name.isdecimal()
        )

    async def stored(self, group: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Stored]:
        """The offsets in the znodes of ``partitions``, without the staged ones."""
        found: dict[TopicPartition, Stored] = {}
        missing: list[TopicPartition] = []
        for tp in partitions:
            known, value = self._reads.peek(consumers.offset_path(group, tp))
            if known:
                found[tp] = value
            else:
                missing.append(tp)
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            found.update(zip(some, await gather(self._stored(group, tp) for tp in some), strict=True))
        return found

    async def _numbers(self, path: str) -> list[str]:
        return await self._reads.get(path, partial(children_or_watch, self._store.client, path))

    async def _stored(self, group: str, tp: TopicPartition) -> Stored:
        path = consumers.offset_path(group, tp)

        async def load(watch: Watch) -> Stored:
            before = self._reads.known(path)
            try:
                stored = await self._store.offset(group, tp, watch)
            except MalformedZnodeError as error:
                log.error("%s", error)
                return ErrorCode.UNKNOWN_SERVER_ERROR
            if stored is not None and isinstance(before, StoredOffset) and before.mzxid > stored.mzxid:
                return before  # the server of a new session lags behind; its watch will fire
            return stored

        return await self._reads.get(path, load)


def _combined(
    wanted: Sequence[TopicPartition],
    stored: dict[TopicPartition, Stored],
    staged: StagedOffsetsView,
    require_stable: bool,
) -> Fetched:
    answer: Fetched = {}
    for tp in wanted:
        if require_stable and tp in staged.undecided:
            answer[tp] = ErrorCode.UNSTABLE_OFFSET_COMMIT
            continue
        value, decided = stored[tp], staged.decided.get(tp)
        if isinstance(value, ErrorCode):
            answer[tp] = value
        elif decided is not None and (value is None or decided[0] > value.order):
            answer[tp] = decided[1]
        elif value is not None:
            answer[tp] = value.value
    return answer
