"""Moving replicas between the log directories of this broker (KIP-113).

Answers to: ``ReplicaManager.alterReplicaLogDirs``, ``kafka.server.ReplicaAlterLogDirsManager`` and
``kafka.server.ReplicaAlterLogDirsThread``. Deterministic.

One partition at a time is copied, in small pieces between which the reactor serves clients, at most at the rate of
``replica.alter.log.dirs.io.max.bytes.per.second``. The copy takes the replica's place in one step of the reactor in
which both are equal, so that producers and readers see no gap. A move is not recorded anywhere: a partition that has a
copy in another directory is being moved, also after a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import sleep, spawn
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import LogDirFailure
from kafkalite.log.log_manager import LogManager
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.partition_table import PartitionTable
from kafkalite.replication.replication_quotas import ReplicationQuotaManager

log = logging.getLogger(__name__)

PIECE_BYTES = 256 << 10
"""Bytes that are copied at a time, because the reactor does nothing else meanwhile."""
_BACKOFF_S = 1.0
_LONGEST_WAIT_S = 1.0
"""Not longer, because the limit may be raised meanwhile."""


class AlterLogDirs:
    """Begins, continues and ends the moves of replicas to other log directories."""

    def __init__(
        self, replicas: PartitionTable, logs: LogManager, quota: ReplicationQuotaManager, clock: Clock
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._futures = logs.future_logs
        self._quota = quota
        self._clock = clock
        self._moves: dict[TopicPartition, None] = {}
        self._running = False
        self._closed = False

    def close(self) -> None:
        """Copy no more."""
        self._closed = True

    # Requests

    def alter(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
        """Begin to move each partition to its log directory; a move of a partition that is there already ends.

        A partition that is not hosted here is refused with REPLICA_NOT_AVAILABLE, and created in that directory later.
        """
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for tp, log_dir in wanted.items():
            try:
                self._alter_one(tp, log_dir)
                outcomes[tp] = ErrorCode.NONE
            except LogDirFailure as failure:
                self._logs.handle_failure(failure.log_dir)
                outcomes[tp] = ErrorCode.KAFKA_STORAGE_ERROR
            except ApiError as refused:
                log.info("%s is not moved to %s: %s", tp, log_dir, refused)
                outcomes[tp] = refused.code
        return outcomes

    def _alter_one(self, tp: TopicPartition, log_dir: str) -> None:
        if log_dir not in self._logs.log_dirs:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{log_dir} is not one of this broker's log directories")
        if not self._logs.is_online(log_dir):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {log_dir} is offline")
        partition = self._replicas.partitions.get(tp)
        if partition is not None and partition.role is Role.OFFLINE:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{tp} is offline")
        if partition is None:
            self._futures.preferred[tp] = log_dir
            absence = self._replicas.absence(tp)
            # Kafka keeps the error of the first version of this request.
            known = absence is ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE if known else absence, f"{tp} has no replica here")
        future = self._futures.logs.get(tp)
        if future is not None and future.log_dir != log_dir:
            log.info("%s is no longer moved to %s", tp, future.log_dir)
            self._moves.pop(tp, None)
            self._futures.drop(tp)
        if partition.log.log_dir == log_dir:
            return
        if tp not in self._futures.logs:
            log.info("%s is moved from %s to %s", tp, partition.log.log_dir, log_dir)
            self._futures.create(tp, log_dir)
        self._begin(tp)

    def resume(self) -> None:
        """Continue the moves of partitions that have a copy; called when partitions were applied."""
        for tp, future in list(self._futures.logs.items()):
            partition = self._replicas.partitions.get(tp)
            if partition is None or tp in self._moves:
                continue
            if partition.log.log_dir == future.log_dir:
                self._futures.drop(tp)
            else:
                log.info("%s: its move to %s goes on", tp, future.log_dir)
                self._begin(tp)

    # Copying

    def _begin(self, tp: TopicPartition) -> None:
        self._moves[tp] = None
        if not self._running:
            self._running = True
            spawn(self._run(), "moving replicas between log directories")

    async def _run(self) -> None:
        try:
            while self._moves and not self._closed:
                tp = next(iter(self._moves))
                try:
                    wait = await self._step(tp)
                except LogDirFailure as failure:
                    self._logs.handle_failure(failure.log_dir)
                    wait = 0.0
                except Exception as error:
                    if isinstance(error, ApiError):
                        log.warning("%s: copying it failed and is tried again: %s", tp, error)
                    else:
                        log.exception("%s: copying it failed and is tried again", tp)
                    if tp in self._moves:
                        # To the end of the queue, so that the other moves go on.
                        del self._moves[tp]
                        self._moves[tp] = None
                    wait = _BACKOFF_S
                await sleep(self._clock, wait)
        finally:
            self._running = False

    def _moving(self, tp: TopicPartition) -> Partition | None:
        """The partition, if it still has a log and a copy of it."""
        partition = self._replicas.partitions.get(tp)
        if partition is None or partition.log is not self._logs.get(tp):
            return None
        return partition if tp in self._futures.logs else None

    async def _step(self, tp: TopicPartition) -> float:
        """Copy a piece; returns the seconds to wait before the next one."""
        if self._moving(tp) is None:
            self._moves.pop(tp, None)
            return 0.0
        if self._quota.limited and self._quota.is_exceeded():
            return min(self._quota.wait_s(), _LONGEST_WAIT_S)
        copied = await self._futures.copy(tp, PIECE_BYTES)
        if self._quota.limited:
            self._quota.record(copied)
        partition = self._moving(tp)
        if partition is None or not self._futures.is_caught_up(tp):
            return 0.0 if copied else _BACKOFF_S
        if not self._futures.is_durable(tp):
            await self._futures.make_durable(tp)
            return 0.0
        partition.log = self._futures.replace_current(tp)
        self._moves.pop(tp, None)
        log.info("%s is now in %s", tp, partition.log.log_dir)
        return 0.0
