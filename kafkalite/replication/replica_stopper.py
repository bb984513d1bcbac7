"""The ends of replicas: by the controller's request, with their topic, with their log directory, with the session.

Answers to: ``kafka.server.ReplicaManager`` (``stopReplicas``, ``handleLogDirFailure``). Deterministic.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping

from kafkalite.cluster.control import (
    EPOCH_DURING_DELETE,
    ControlResponse,
    StopReplicaPartitionState,
    StopReplicaRequest,
)
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.log.file_system import LogDirFailure
from kafkalite.log.log_manager import LogManager
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.delayed_operations import complete
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.partition_table import PartitionTable, differs
from kafkalite.replication.replica_fetcher_manager import ReplicaFetcherManager

log = logging.getLogger(__name__)


class ReplicaStopper:
    """Stops replicas, and deletes their logs if the controller or a new topic id says so.

    ``isr_settled`` waits until no ISR change that this broker wrote for a stopped partition can take effect any more.
    """

    def __init__(
        self,
        replicas: PartitionTable,
        logs: LogManager,
        fetchers: ReplicaFetcherManager,
        broker_epoch: BrokerEpoch,
        isr_settled: Callable[[TopicPartition], Awaitable[None]],
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._fetchers = fetchers
        self._broker_epoch = broker_epoch
        self._isr_settled = isr_settled

    async def stop_replicas(self, request: StopReplicaRequest) -> ControlResponse:
        """The controller's request to stop, and perhaps to delete, replicas."""
        if self._broker_epoch.is_over(request.broker_epoch):
            return ControlResponse(ErrorCode.STALE_BROKER_EPOCH)
        outcomes = []
        for stop in request.partitions:
            try:
                outcome = await self._stop_one(stop)
                if stop.delete:
                    await self._isr_settled(stop.topic_partition)
            except LogDirFailure as failure:
                self._logs.handle_failure(failure.log_dir)
                outcome = ErrorCode.KAFKA_STORAGE_ERROR
            except ApiError as error:
                log.warning("%s: stopping it failed: %s", stop.topic_partition, error)
                outcome = error.code
            except Exception:
                log.exception("%s: stopping it failed", stop.topic_partition)
                outcome = ErrorCode.UNKNOWN_SERVER_ERROR
            outcomes.append((stop.topic_partition, outcome))
        return ControlResponse(ErrorCode.NONE, tuple(outcomes))

    async def _stop_one(self, stop: StopReplicaPartitionState) -> ErrorCode:
        tp = stop.topic_partition
        partition = self._replicas.partitions.get(tp)
        if partition is not None:
            if differs(partition.state.topic_id, stop.topic_id):
                # The request is about the topic that had this name before, of which this broker has nothing.
                self._replicas.retire(stop.topic_id)
                return ErrorCode.NONE
            if partition.role is Role.OFFLINE:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if stop.leader_epoch >= 0 and stop.leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
        if not stop.delete:
            if partition is not None:
                self.stop(partition, Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return ErrorCode.NONE
        stored = self._logs.get(tp)
        if stored is None and tp in self._logs.offline_logs and not differs(self._logs.offline_logs[tp], stop.topic_id):
            # The log cannot be deleted, so the topic's deletion waits until its directory is back.
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is None and (stored is None or differs(stored.topic_id, stop.topic_id)):
            if stop.leader_epoch == EPOCH_DURING_DELETE:
                self._replicas.retire(stop.topic_id)
            return ErrorCode.NONE
        topic_id: uuid.UUID | None = None
        if stop.leader_epoch == EPOCH_DURING_DELETE:
            # Requests of Kafka's controller name no topic ids. Without one, a state that is read from ZooKeeper before
            # the topic's znodes are gone would create the log again.
            topic_id = stop.topic_id
            if topic_id == ZERO_UUID and partition is not None:
                topic_id = partition.state.topic_id
            elif topic_id == ZERO_UUID and stored is not None:
                topic_id = stored.topic_id
        await self.delete(tp, topic_id)
        return ErrorCode.NONE

    def topics_gone(self, topics: Mapping[str, uuid.UUID]) -> None:
        """ZooKeeper no longer has ``topics``: stop their replicas, where of that topic id. Their logs stay.

        Data are not deleted, because a deletion by the controller reaches each replica as a StopReplicaRequest before
        the znodes go. Znodes that disappear without it were deleted by hand, or with a lost ensemble.
        """
        for tp, partition in list(self._replicas.partitions.items()):
            topic_id = topics.get(tp.topic)
            if topic_id is None or partition.role is Role.OFFLINE or differs(partition.state.topic_id, topic_id):
                continue
            log.warning("%s is no longer in ZooKeeper: it is not served any more, its log stays on disk", tp)
            self._replicas.drop(tp)
            self.stop(partition, Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for topic_id in topics.values():
            self._replicas.retire(topic_id)

    async def delete(self, tp: TopicPartition, topic_id: uuid.UUID | None) -> None:
        """Stop a replica and delete its log; with ``topic_id``, no state of that topic counts any more."""
        partition = self._replicas.partitions.get(tp)
        if partition is not None:
            self._replicas.drop(tp)
            self.stop(partition, Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._replicas.retire(topic_id)
        if self._logs.get(tp) is not None:
            await self._logs.delete(tp)

    def stop(self, partition: Partition, role: Role, error: ErrorCode) -> None:
        """Stop leading and following; requests that wait in the partition are answered with ``error``."""
        self._fetchers.remove(partition.topic_partition)
        complete((partition.stop(role, error),))

    def stop_leading(self) -> None:
        """Stop leading, because the session or the registration is over and another leader may have been elected.

        Followers go on. Until the broker is registered again, every decision about it was meant for the life that
        ended.
        """
        self._broker_epoch.ended()
        complete(
            [partition.stop(Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER) for partition in self._replicas.leaders()]
        )

    def directory_failed(self, log_dir: str) -> list[TopicPartition]:
        """The partitions in ``log_dir`` go offline; returns them."""
        failed = []
        for partition in list(self._replicas.partitions.values()):
            if partition.log.log_dir == log_dir and partition.role is not Role.OFFLINE:
                self.stop(partition, Role.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR)
                failed.append(partition.topic_partition)
        return failed
