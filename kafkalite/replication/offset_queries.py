"""Offsets by time and by leader epoch, deletion of records, and the contents of the log directories.

Answers to: ``ReplicaManager.{fetchOffsetForTimestamp,lastOffsetForLeaderEpoch,deleteRecords,describeLogDirs}``.
Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.purgatory import Purgatory
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.log.log_manager import LogManager
from kafkalite.replication.delayed_operations import Completed, DelayedDeleteRecords, complete
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.partition_table import PartitionTable
from kafkalite.replication.results import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    DeleteRecordsResult,
    EpochEndOffset,
    LogDirDescription,
    OffsetResult,
    ReplicaDescription,
)

_NONE = ErrorCode.NONE


class OffsetQueries:
    """Answers about offsets, from the partitions hosted here."""

    def __init__(self, replicas: PartitionTable, logs: LogManager, purgatory: Purgatory) -> None:
        self._replicas = replicas
        self._logs = logs
        self._purgatory = purgatory
        self._waiting: dict[Partition, None] = {}

    def _partition(self, tp: TopicPartition) -> Partition:
        partition = self._replicas.partitions.get(tp)
        if partition is None:
            raise ApiError(self._replicas.absence(tp))
        return partition

    def list_offset(
        self,
        tp: TopicPartition,
        timestamp: int,
        isolation: int | None,
        current_leader_epoch: int = -1,
        from_follower_ok: bool = False,
    ) -> OffsetResult:
        """The offset for ``timestamp`` (ms; -1 latest, -2 earliest, -3 of the greatest timestamp, -4 earliest local).

        ``isolation`` ``None`` is a follower's question (up to the log's end), else 0 or 1.
        """
        try:
            partition = self._partition(tp)
            check = partition.check_local if from_follower_ok else partition.check_leader
            return self._find(partition, check(current_leader_epoch), timestamp, isolation)
        except ApiError as error:
            return OffsetResult(error.code)

    def _find(self, partition: Partition, replica_log: Log, timestamp: int, isolation: int | None) -> OffsetResult:
        if isolation is None:
            upper = replica_log.log_end_offset
        elif isolation == READ_COMMITTED:
            upper = replica_log.last_stable_offset
        else:
            upper = replica_log.high_watermark
        # A new leader's high watermark may be older than the one that its predecessor sent to consumers: it must not go
        # back.
        behind = isolation is not None and partition.role is Role.LEADER and upper < partition.epoch_start_offset
        if timestamp == LATEST_TIMESTAMP:
            if behind:
                raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
            return OffsetResult(_NONE, -1, upper, partition.leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start = replica_log.log_start_offset
            return OffsetResult(_NONE, -1, start, _epoch_at(replica_log, start, partition.leader_epoch))
        if timestamp == LATEST_TIERED_TIMESTAMP:
            return OffsetResult(_NONE)
        found = (
            replica_log.offset_of_max_timestamp()
            if timestamp == MAX_TIMESTAMP
            else replica_log.offset_for_timestamp(timestamp)
        )
        if found is not None and found.offset >= 0 and found.offset < upper:
            epoch = _epoch_at(replica_log, found.offset, partition.leader_epoch)
            return OffsetResult(_NONE, found.timestamp, found.offset, epoch)
        if found is not None and behind:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return OffsetResult(_NONE)

    def offsets_before(
        self, tp: TopicPartition, timestamp: int, limit: int, to_consumer: bool = True, from_follower_ok: bool = False
    ) -> list[int]:
        """Up to ``limit`` offsets before ``timestamp`` at which segments start, newest first; for ListOffsets 0.

        For a consumer, none is above the high watermark. Raises ``ApiError``.
        """
        partition = self._partition(tp)
        replica_log = partition.check_local() if from_follower_ok else partition.check_leader()
        offsets = replica_log.offsets_before(timestamp, limit)
        high_watermark = replica_log.high_watermark
        if to_consumer and offsets and offsets[0] > high_watermark:
            return [high_watermark, *(offset for offset in offsets if offset <= high_watermark)]
        return offsets

    def end_offset_for_epoch(self, tp: TopicPartition, current_leader_epoch: int, epoch: int) -> EpochEndOffset:
        """The newest leader epoch not above ``epoch`` in the leader's log, and where it ends."""
        try:
            replica_log = self._partition(tp).check_leader(current_leader_epoch)
            found_epoch, end = replica_log.end_offset_for_epoch(epoch)
        except ApiError as error:
            return EpochEndOffset(tp, error.code)
        return EpochEndOffset(tp, _NONE, found_epoch, end)

    # DeleteRecords

    def delete_records(
        self,
        timeout_ms: int,
        offsets: Mapping[TopicPartition, int],
        on_done: Callable[[dict[TopicPartition, DeleteRecordsResult]], object],
    ) -> None:
        """Delete the records below these offsets (-1: the high watermark); wait until all live replicas did so."""
        results: dict[TopicPartition, DeleteRecordsResult] = {}
        operation = DelayedDeleteRecords(timeout_ms / 1000, results, on_done)
        changes: list[Completed] = []
        waiting = []
        for tp, offset in offsets.items():
            try:
                partition = self._partition(tp)
                changes.append(partition.delete_records(offset, operation))
            except ApiError as error:
                results[tp] = DeleteRecordsResult(-1, error.code)
                continue
            results[tp] = DeleteRecordsResult(-1, ErrorCode.REQUEST_TIMED_OUT)
            waiting.append(partition)
            self._waiting[partition] = None
        changes += [partition.complete_deletions() for partition in waiting]
        self._purgatory.try_complete_else_watch(operation, ())
        complete(changes)

    def brokers_changed(self) -> None:
        """The live brokers changed: deletions wait for the replicas on live brokers only."""
        changes: list[Completed] = []
        for partition in list(self._waiting):
            changes.append(partition.complete_deletions())
            if not partition.has_deletions:
                del self._waiting[partition]
        complete(changes)

    # Log directories

    def describe_log_dirs(self, partitions: Iterable[TopicPartition] | None = None) -> list[LogDirDescription]:
        """Every log directory with those replicas of ``partitions`` (``None``: of all) that lie in it."""
        asked = None if partitions is None else set(partitions)
        found: dict[str, list[ReplicaDescription]] = {}
        for tp, replica_log in self._logs.logs.items():
            if asked is None or tp in asked:
                lag = max(0, replica_log.high_watermark - replica_log.log_end_offset)
                partition = self._replicas.partitions.get(tp)
                if partition is not None and partition.role is Role.LEADER:
                    lag = 0
                found.setdefault(replica_log.log_dir, []).append(ReplicaDescription(tp, replica_log.size, lag))
        for tp, future in self._logs.future_logs.logs.items():
            current = self._logs.get(tp)
            if asked is None or tp in asked:
                lag = -1 if current is None else max(0, current.log_end_offset - future.log_end_offset)
                found.setdefault(future.log_dir, []).append(ReplicaDescription(tp, future.size, lag, True))
        offline = set(self._logs.offline_dirs)
        described = []
        for log_dir in self._logs.log_dirs:
            if log_dir in offline:
                described.append(LogDirDescription(log_dir, ErrorCode.KAFKA_STORAGE_ERROR))
                continue
            total, usable = self._logs.space(log_dir)
            described.append(LogDirDescription(log_dir, _NONE, tuple(found.get(log_dir, ())), total, usable))
        return described


def _epoch_at(replica_log: Log, offset: int, leader_epoch: int) -> int:
    """The leader epoch in which the record at ``offset`` was written, -1 where the log does not know.

    The log answers where epochs end, so the epoch at an offset is the oldest whose end lies beyond it.
    """
    latest = replica_log.latest_epoch
    if latest is None:
        return -1
    low, high = 0, latest
    if offset >= replica_log.log_end_offset:
        return leader_epoch
    while low < high:
        middle = (low + high) // 2
        if replica_log.end_offset_for_epoch(middle)[1] > offset:
            high = middle
        else:
            low = middle + 1
    return low if replica_log.end_offset_for_epoch(low)[1] > offset else latest
