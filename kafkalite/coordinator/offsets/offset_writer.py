"""Writes offset commits to ZooKeeper: coalesced, in few transactions, several of them in flight at once.

Answers to: ``GroupMetadataManager.storeOffsets``, whose batches Kafka's log makes. Reactor shell.

Each partition has at most one write in flight. Commits that arrive meanwhile wait; only the latest of them is written,
and answers the earlier ones, too. So an offset never goes backward when writes fail and are retried, and the rate of
writes to a partition adapts to ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, spawn
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.claims import Claim, ClaimLostError
from kafkalite.zk.stores.fenced_write import FencedError, FencedWrite, WriteFence, write_fenced
from kafkalite.zk.stores.offset_layout import OffsetLayout, OffsetWrite
from kafkalite.zk.zk_client import (
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    ZkClient,
    ZkError,
)
from kafkalite.zk.znodes.offsets import OffsetAndMetadata

log = logging.getLogger(__name__)

MAX_UNDER_WAY = 8
"""How many batches may be in flight; commits that arrive meanwhile form the next batches."""

MAX_BATCH = 80
"""Partitions in a batch: two operations for each, with the checks of up to 40 groups, fit into one transaction."""

_TRIES = 5

_Key = tuple[str, TopicPartition, bool]
"""Group, partition, and whether the write is ``plain``: the number alone, without metadata."""
_Outcome = ErrorCode | ClaimLostError


class _Commit:
    """One call of :meth:`OffsetWriter.write`; ``future`` fires when each of its partitions is written."""

    __slots__ = ("_left", "_lost", "_outcome", "future")

    def __init__(self, count: int) -> None:
        self.future: Future[dict[TopicPartition, ErrorCode]] = Future()
        self._left = count
        self._lost: ClaimLostError | None = None
        self._outcome: dict[TopicPartition, ErrorCode] = {}

    def done(self, tp: TopicPartition, outcome: _Outcome) -> None:
        if isinstance(outcome, ClaimLostError):
            self._lost = outcome
        else:
            self._outcome[tp] = outcome
        self._left -= 1
        if self._left == 0:
            if self._lost is not None:
                self.future.errback(self._lost)
            else:
                self.future.callback(self._outcome)


class _Pending:
    """The latest commit of one partition that was not written yet, and the commits that its write answers."""

    __slots__ = ("claim", "commits", "key", "write")

    def __init__(self, key: _Key, write: OffsetWrite, claim: Claim | None, commit: _Commit) -> None:
        self.key = key
        self.write = write
        self.claim = claim
        self.commits = [commit]

    def overtaken_by(self, later: _Pending) -> None:
        self.write, self.claim = later.write, later.claim
        self.commits += later.commits

    def done(self, outcome: _Outcome) -> None:
        for commit in self.commits:
            commit.done(self.write.tp, outcome)


class OffsetWriter:
    """Writes the commits of all groups that this broker coordinates."""

    def __init__(self, client: ZkClient) -> None:
        self.layout = OffsetLayout(client)
        self._client = client
        self._ready: dict[_Key, _Pending] = {}
        self._under_way: dict[_Key, _Pending | None] = {}
        """Partitions with a write in flight, each with the commit that waits behind it."""
        self._batches = 0

    async def write(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], claim: Claim | None
    ) -> dict[TopicPartition, ErrorCode]:
        """Write ``offsets``; an error for each. Without a ``claim``: plain, and unfenced.

        COORDINATOR_NOT_AVAILABLE if the outcome is unknown, or if other writers interfered in each attempt. Raises
        ``ClaimLostError``, also if the claim's session has expired.
        """
        if not offsets:
            return {}
        commit = _Commit(len(offsets))
        fence = WriteFence(None, self._client.session) if claim is None else claim.fence()
        for tp, value in offsets.items():
            key = (group, tp, claim is None)
            self._put(_Pending(key, OffsetWrite(fence, group, tp, value, claim is None), claim, commit))
        self._flush()
        return await commit.future

    def _put(self, pending: _Pending) -> None:
        key = pending.key
        if key in self._under_way:
            behind = self._under_way[key]
            if behind is None:
                self._under_way[key] = pending
            else:
                behind.overtaken_by(pending)
        elif key in self._ready:
            self._ready[key].overtaken_by(pending)
        else:
            self._ready[key] = pending

    def _flush(self) -> None:
        while self._ready and self._batches < MAX_UNDER_WAY:
            batch = [self._ready.pop(key) for key in list(islice(self._ready, MAX_BATCH))]
            self._under_way.update((pending.key, None) for pending in batch)
            self._batches += 1
            spawn(self._write(batch), "writing offsets")

    async def _write(self, batch: list[_Pending]) -> None:
        outcomes: dict[_Key, _Outcome] = {}
        left = batch
        try:
            for _ in range(_TRIES):
                if left:
                    left = await self._attempt(left, outcomes)
            # Other writers created or removed the containers in each attempt; the client's retry may succeed.
            outcomes.update((pending.key, ErrorCode.COORDINATOR_NOT_AVAILABLE) for pending in left)
        except ZkError as error:
            outcomes.update((pending.key, _outcome(pending, error)) for pending in left)
        finally:
            self._batches -= 1
            for pending in batch:
                behind = self._under_way.pop(pending.key)
                if behind is not None:
                    self._ready[pending.key] = behind
            for pending in batch:
                pending.done(outcomes.get(pending.key, ErrorCode.UNKNOWN_SERVER_ERROR))
            self._flush()

    async def _attempt(self, batch: list[_Pending], outcomes: dict[_Key, _Outcome]) -> list[_Pending]:
        """Write ``batch`` once; stores the outcomes, and returns the commits to write again."""
        await self.layout.prepare(pending.write for pending in batch)
        writes = [FencedWrite(pending.write.fence, self.layout.ops(pending.write)) for pending in batch]
        again = []
        for pending, result in zip(batch, await write_fenced(self._client, writes), strict=True):
            if not isinstance(result, ZkError):
                self.layout.wrote(pending.write)
                outcomes[pending.key] = ErrorCode.NONE
            elif isinstance(result, NoNodeError | NodeExistsError):
                # Another writer removed or created a znode, so the layout that we know is outdated.
                self.layout.doubt(pending.write)
                again.append(pending)
            else:
                outcomes[pending.key] = _outcome(pending, result)
        return again


def _outcome(pending: _Pending, error: ZkError) -> _Outcome:
    """The answer to a commit that failed with ``error``."""
    if isinstance(error, FencedError | SessionExpiredError) and pending.claim is not None:
        return pending.claim.lost()
    if isinstance(error, ConnectionLostError | SessionExpiredError):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.error("offset of %s for group %s was not written: %s", pending.write.tp, pending.write.group, error)
    return ErrorCode.UNKNOWN_SERVER_ERROR
