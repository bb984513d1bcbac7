"""Applies leader and ISR states: those of the controller's requests and those read from ZooKeeper, in one way.

Answers to: ``ReplicaManager.{becomeLeaderOrFollower,makeLeaders,makeFollowers}``. Deterministic.

Fences: a request carries the controller's epoch and this broker's own (the czxid of its znode). A state read from
ZooKeeper that names this broker leader counts only if it was written after the broker registered. States of one topic
id are ordered; a topic id that was replaced or deleted never comes back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from kafkalite.cluster.control import ControlResponse, LeaderAndIsrRequest
from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.tasks import gather, sleep
from kafkalite.common.types import NO_LEADER, ZERO_UUID, TopicPartition
from kafkalite.log.file_system import LogDirFailure
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_manager import LogManager
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.delayed_operations import Completed, complete
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.partition_table import PartitionTable, differs
from kafkalite.replication.replica_fetcher_manager import ReplicaFetcherManager
from kafkalite.replication.replica_stopper import ReplicaStopper
from kafkalite.zk.zk_client import ZkError

log = logging.getLogger(__name__)
T = TypeVar("T")

_NONE = ErrorCode.NONE
_BREATH = 50


class RoleApplier:
    """Makes leaders and followers. Its methods run one after the other.

    ``on_outcomes`` is called with the errors of each call of :meth:`apply`.
    """

    def __init__(
        self,
        replicas: PartitionTable,
        logs: LogManager,
        fetchers: ReplicaFetcherManager,
        topic_configs: Callable[[str], Awaitable[LogConfig]],
        is_being_deleted: Callable[[str], Awaitable[bool]],
        clock: Clock,
        broker_epoch: BrokerEpoch,
        stopping: ReplicaStopper,
        on_outcomes: Callable[[Collection[ErrorCode]], object],
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self._replicas = replicas
        self._logs = logs
        self._fetchers = fetchers
        self._topic_configs = topic_configs
        self._is_being_deleted = is_being_deleted
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._stopping = stopping
        self._on_outcomes = on_outcomes

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> ControlResponse:
        """The controller's request. The answer has an error for each partition."""
        if self._broker_epoch.is_over(request.broker_epoch):
            return ControlResponse(ErrorCode.STALE_BROKER_EPOCH)
        self._fetchers.learn_brokers(request.brokers)
        outcomes = await self.apply(request.states, from_controller=True)
        return ControlResponse(_NONE, tuple(outcomes.items()))

    async def apply(self, states: Sequence[LeaderAndIsr], *, from_controller: bool) -> dict[TopicPartition, ErrorCode]:
        """Apply those of ``states`` that are newer; returns an error (or NONE) for each partition.

        A partition that needs a new log waits for its topic's configuration. If that cannot be read, the other
        partitions go on: the answer to the controller has an error; states read from ZooKeeper raise the ``ZkError``,
        so that the caller reads and applies them again.
        """
        outcomes: dict[TopicPartition, ErrorCode] = {}
        broker_epoch = self._broker_epoch.current
        wanted = [state for state in states if self._is_wanted(state, outcomes, from_controller)]
        configs, unread = await self._read_configs(
            dict.fromkeys(state.topic for state in wanted if self._needs_log(state))
        )
        deleted, unknown = await self._read_deleted(
            dict.fromkeys(state.topic for state in wanted if not from_controller and self._creates_log(state))
        )
        unread.update(unknown)
        changes: list[Completed] = []
        for number, state in enumerate(wanted):
            tp = state.topic_partition
            if number and number % _BREATH == 0:
                # Creating logs takes long: let the partitions that are ready begin, and let the reactor serve clients.
                complete(changes)
                changes = []
                self._fetchers.start_added()
                await sleep(self._clock, 0)
            # Check again, because an ISR change, a failed directory or the end of the session may have made the state
            # old while configurations were read or logs deleted.
            if not self._is_wanted(state, outcomes, from_controller):
                continue
            if self._broker_epoch.current != broker_epoch:
                outcomes[tp] = ErrorCode.STALE_BROKER_EPOCH
                continue
            if state.topic in unread:
                outcomes[tp] = ErrorCode.UNKNOWN_SERVER_ERROR
                continue
            if deleted.get(state.topic) and self._creates_log(state):
                log.info("%s: its topic is being deleted, so no log is created", tp)
                outcomes[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            try:
                outcomes[tp] = await self._apply_one(state, configs, changes)
            except LogDirFailure as failure:
                log.error("%s: %s", tp, failure)
                self._logs.handle_failure(failure.log_dir)
                outcomes[tp] = ErrorCode.KAFKA_STORAGE_ERROR
            except ApiError as refused:
                log.error("%s: %s", tp, refused)
                outcomes[tp] = refused.code
            except Exception:
                log.exception("%s: taking over %s failed", tp, state)
                outcomes[tp] = ErrorCode.UNKNOWN_SERVER_ERROR
        complete(changes)
        self._fetchers.start_added()
        self._on_outcomes(outcomes.values())
        for error in unread.values():
            if not from_controller:
                raise error
        return outcomes

    async def _read_configs(self, topics: Iterable[str]) -> tuple[dict[str, LogConfig], dict[str, ZkError]]:
        """The configurations of ``topics``, and why those that are missing could not be read."""
        return await _read_each(topics, self._topic_configs, "the configuration of topic %s cannot be read: %s")

    async def _read_deleted(self, topics: Iterable[str]) -> tuple[dict[str, bool], dict[str, ZkError]]:
        """Whether each of ``topics`` is being deleted, and why that could not be read of those that are missing.

        An earlier life of this broker may have deleted the log, and the controller waits only for the other replicas:
        a log that is created now would outlast its topic.
        """
        return await _read_each(topics, self._is_being_deleted, "whether topic %s is being deleted cannot be read: %s")

    def _creates_log(self, state: LeaderAndIsr) -> bool:
        """Whether applying ``state`` creates a log, other than that of a new replica of a reassignment.

        A deletion waits for the reassignments of its topic, and they for their new replicas.
        """
        stored = self._logs.get(state.topic_partition)
        return (stored is None or differs(stored.topic_id, state.topic_id)) and not state.assignment.adding

    def _needs_log(self, state: LeaderAndIsr) -> bool:
        partition = self._replicas.partitions.get(state.topic_partition)
        return partition is None or self._is_other_topic(partition, state)

    def _is_other_topic(self, partition: Partition, state: LeaderAndIsr) -> bool:
        hosted = partition.state.topic_id
        return differs(hosted, state.topic_id)

    def _is_wanted(self, state: LeaderAndIsr, outcomes: dict[TopicPartition, ErrorCode], from_controller: bool) -> bool:
        tp = state.topic_partition
        if self._replicas.is_retired(state.topic_id):
            outcomes[tp] = ErrorCode.INCONSISTENT_TOPIC_ID
            return False
        partition = self._replicas.partitions.get(tp)
        if self._replicas.broker_id not in state.replicas:
            if partition is not None and state.replicas and not self._is_other_topic(partition, state):
                self._stop_reassigned(partition, state)
            outcomes[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return False
        outcomes[tp] = _NONE
        leads = state.leader == self._replicas.broker_id
        if leads and not from_controller and state.mzxid <= self._broker_epoch.current:
            # Written before this broker registered, and so meant for its earlier life. The controller decides again.
            outcomes[tp] = ErrorCode.STALE_BROKER_EPOCH
            return False
        if leads and not from_controller and self._started_uncleanly_since(state):
            outcomes[tp] = ErrorCode.STALE_BROKER_EPOCH
            return False
        if partition is None:
            if self._was_removed(state):
                outcomes[tp] = ErrorCode.FENCED_LEADER_EPOCH
                return False
            # A replica that is being removed is stopped, and its log deleted, before the assignment no longer names it.
            return from_controller or self._replicas.broker_id not in state.assignment.removing
        if partition.role is Role.OFFLINE:
            outcomes[tp] = ErrorCode.KAFKA_STORAGE_ERROR
            return False
        if self._is_other_topic(partition, state):
            known = partition.state.mzxid
            if not from_controller and known >= 0 and state.mzxid <= known:
                outcomes[tp] = ErrorCode.INCONSISTENT_TOPIC_ID
                return False
            return True
        return self._is_newer(partition, state, outcomes, from_controller)

    def _was_removed(self, state: LeaderAndIsr) -> bool:
        """Whether this broker has read a later state of the partition, without a replica here.

        A request of the controller may arrive after that, for example where the network held it. The replica that it
        began would follow for ever, because nothing about the partition changes any more.
        """
        known = self._replicas.metadata.state(state.topic_partition)
        return (
            known is not None
            and known.topic_id == state.topic_id
            and known.order > state.order
            and bool(known.replicas)
            and self._replicas.broker_id not in known.replicas
        )

    def _started_uncleanly_since(self, state: LeaderAndIsr) -> bool:
        """Whether the controller elected an earlier life of this broker, one that may have had more records.

        The write of a controller that was cut off from ZooKeeper can take effect after this broker registered again,
        and be younger than the registration. A controller that knows both compares the same two epochs and decides
        again. A state of Kafka names no such epoch.
        """
        recorded = dict(state.unclean_start_epochs).get(self._replicas.broker_id)
        return recorded is not None and recorded != self._broker_epoch.unclean_start

    def _is_newer(
        self,
        partition: Partition,
        state: LeaderAndIsr,
        outcomes: dict[TopicPartition, ErrorCode],
        from_controller: bool,
    ) -> bool:
        known = partition.state
        if partition.role is Role.LEADER and state.leader_epoch == partition.leader_epoch and partition.isr.is_pending:
            # The leader's own write, seen before its acknowledgement, or the write that will make ZooKeeper refuse it.
            return False
        if state.order > known.order:
            return True
        if state.order < known.order:
            if state.leader_epoch < known.leader_epoch:
                outcomes[state.topic_partition] = ErrorCode.FENCED_LEADER_EPOCH
            return False
        if state.mzxid > known.mzxid:
            partition.state = known = known.with_(mzxid=state.mzxid)
        # The same state is applied if it has another assignment or the topic's id, or if the controller confirms, to
        # this life of the broker, a role that the end of a session took away.
        return (
            (state.assignment != known.assignment and (from_controller or not _brings_back(state, known)))
            or (known.topic_id == ZERO_UUID and state.topic_id != ZERO_UUID)
            or (partition.role is Role.NONE and from_controller)
        )

    def _stop_reassigned(self, partition: Partition, state: LeaderAndIsr) -> None:
        if state.order >= partition.state.order and partition.role is not Role.OFFLINE:
            partition.state = state
            self._stopping.stop(partition, Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def _apply_one(
        self, state: LeaderAndIsr, configs: Mapping[str, LogConfig], changes: list[Completed]
    ) -> ErrorCode:
        tp = state.topic_partition
        partition = self._replicas.partitions.get(tp)
        if partition is not None and self._is_other_topic(partition, state):
            log.info("%s was deleted and created again: its old log goes", tp)
            await self._stopping.delete(tp, partition.state.topic_id)
            partition = None
        if partition is None:
            stored = self._logs.get(tp)
            if stored is not None and differs(stored.topic_id, state.topic_id):
                log.info("%s: the log on disk is of a deleted topic of that name: it goes", tp)
                self._replicas.retire(stored.topic_id)
                await self._logs.delete(tp)
            is_new = state.leader_epoch == 0 and state.zk_version <= 0
            topic_id = None if state.topic_id == ZERO_UUID else state.topic_id
            partition = self._replicas.host(
                state, self._logs.get_or_create(tp, topic_id, is_new, configs.get(state.topic))
            )
        if state.topic_id != ZERO_UUID and partition.log.topic_id is None:
            partition.log.set_topic_id(state.topic_id)
        if state.leader == self._replicas.broker_id:
            self._fetchers.remove(tp)
            if partition.role is not Role.LEADER or partition.leader_epoch != state.leader_epoch:
                self._record_role(state, "leads")
            changes.append(partition.make_leader(state, self._clock.monotonic()))
        else:
            completed = partition.make_follower(state)
            if completed is not None:
                changes.append(completed)
                self._record_role(
                    state, "waits for a leader of" if state.leader == NO_LEADER else f"follows broker {state.leader} in"
                )
                self._follow(partition)
        return _NONE

    def _record_role(self, state: LeaderAndIsr, does: str) -> None:
        self._record(
            EventKind.LEADERSHIP,
            f"broker {self._replicas.broker_id} {does} {state.topic_partition}",
            topic=state.topic,
            partition=state.partition,
            controller_epoch=state.controller_epoch,
            leader_epoch=state.leader_epoch,
            cause=state.mzxid,
        )

    def _follow(self, partition: Partition) -> None:
        if partition.state.leader == NO_LEADER:
            self._fetchers.remove(partition.topic_partition)
        else:
            self._fetchers.add(partition)


async def _read_each(
    topics: Iterable[str], read: Callable[[str], Awaitable[T]], failed: str
) -> tuple[dict[str, T], dict[str, ZkError]]:
    """``read`` of each of ``topics``, and the errors of those that could not be read; ``failed`` is their log text."""
    found: dict[str, T] = {}
    unread: dict[str, ZkError] = {}

    async def read_one(topic: str) -> None:
        try:
            found[topic] = await read(topic)
        except ZkError as error:
            log.warning(failed, topic, error)
            unread[topic] = error

    await gather(read_one(topic) for topic in topics)
    return found, unread


def _brings_back(state: LeaderAndIsr, known: LeaderAndIsr) -> bool:
    """Whether the assignment of ``state``, read from ZooKeeper, has a replica that ``known`` lacks and that is not new.

    It is then older than ``known``: the controller writes the state that completes a reassignment and tells the leader,
    before it writes the topic's znode. By the older assignment the leader would let a removed replica join the ISR.
    """
    assignment = state.assignment
    return any(replica not in known.replicas and replica not in assignment.adding for replica in assignment.replicas)
