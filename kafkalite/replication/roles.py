"""Taking over what was decided about partitions: one mechanism for the controller's requests and for ZooKeeper's
states.

Answers to: ``ReplicaManager.{becomeLeaderOrFollower,makeLeaders,makeFollowers,stopReplicas}``. Deterministic.

Fences: a request carries the controller's epoch and this broker's own (the czxid of its znode). A state read from
ZooKeeper names this broker leader rightly only where it was written after the broker registered. States of one topic
id are ordered; a topic id once replaced or deleted never comes back.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kafkalite.cluster.control import ControlResponse, LeaderAndIsr, StopPartition, StopReplica
from kafkalite.cluster.model import PartitionState
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future, gather
from kafkalite.common.types import NO_LEADER, ZERO_UUID, TopicPartition
from kafkalite.log.fs import LogDirFailure
from kafkalite.replication.effects import Effects
from kafkalite.replication.fetchers import FetcherManager
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.ports import LogStore, TopicConfigs
from kafkalite.replication.replicas import Replicas
from kafkalite.zk.port import ZkError

log = logging.getLogger(__name__)

_NONE = ErrorCode.NONE
_MAX_RETIRED = 10_000
_BREATH = 50

UNREGISTERED = 1 << 62
"""Broker epoch while this broker has no znode: newer than any request or state, so that all are too old."""


@dataclass(slots=True)
class Fence:
    """What requests and states are held against."""

    broker_epoch: int = UNREGISTERED
    controller_epoch: int = -1
    retired: dict[uuid.UUID, None] = field(default_factory=dict)

    def check(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Whether a request is from the newest controller and meant for this life of the broker."""
        if broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return _NONE

    def retire(self, topic_id: uuid.UUID | None) -> None:
        """Nothing said of this topic id counts from now on."""
        if topic_id is not None and topic_id != ZERO_UUID:
            self.retired[topic_id] = None
            if len(self.retired) > _MAX_RETIRED:
                del self.retired[next(iter(self.retired))]


class Roles:
    """Makes leaders and followers, and stops them. Its methods run one after the other."""

    def __init__(
        self,
        replicas: Replicas,
        logs: LogStore,
        fetchers: FetcherManager,
        topic_configs: TopicConfigs,
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._fetchers = fetchers
        self._topic_configs = topic_configs
        self._clock = clock
        self.fence = Fence()

    async def leader_and_isr(self, request: LeaderAndIsr) -> ControlResponse:
        """The controller's word. The answer has an error for each partition."""
        error = self.fence.check(request.controller_epoch, request.broker_epoch)
        if error:
            return ControlResponse(error)
        self._fetchers.learn_brokers(request.brokers)
        outcomes = await self.apply(request.states, from_controller=True)
        return ControlResponse(_NONE, tuple(outcomes.items()))

    async def apply(
        self, states: Sequence[PartitionState], *, from_controller: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Take ``states`` over where they are newer; an error (or NONE) for each partition.

        What needs a new log waits for its topic's configuration. Where that cannot be read, the others go on: the
        controller hears of it; who read the states from ZooKeeper gets the ``ZkError``, and comes again with them.
        """
        outcomes: dict[TopicPartition, ErrorCode] = {}
        broker_epoch = self.fence.broker_epoch
        wanted = [state for state in states if self._is_wanted(state, outcomes, from_controller)]
        configs, unread = await self._read_configs({state.topic for state in wanted if self._needs_log(state)})
        effects = Effects()
        for number, state in enumerate(wanted):
            tp = state.topic_partition
            if number and number % _BREATH == 0:
                # Making logs takes its time: those that are ready begin, and the reactor serves others meanwhile.
                effects.run()
                self._fetchers.start_added()
                await self._breathe()
            # Configurations were waited for, deletions may be: an ISR change, a failed directory or the end of the
            # session may have made the state old meanwhile.
            if not self._is_wanted(state, outcomes, from_controller):
                continue
            if self.fence.broker_epoch != broker_epoch:
                outcomes[tp] = ErrorCode.STALE_BROKER_EPOCH
                continue
            if state.topic in unread:
                outcomes[tp] = ErrorCode.UNKNOWN_SERVER_ERROR
                continue
            try:
                outcomes[tp] = await self._apply_one(state, configs, effects)
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
        effects.run()
        self._fetchers.start_added()
        for error in unread.values():
            if not from_controller:
                raise error
        return outcomes

    async def _read_configs(self, topics: Collection[str]) -> tuple[dict[str, object], dict[str, ZkError]]:
        """The configurations of ``topics``, and why those that are missing could not be read."""
        found: dict[str, object] = {}
        unread: dict[str, ZkError] = {}

        async def read(topic: str) -> None:
            try:
                found[topic] = await self._topic_configs(topic)
            except ZkError as error:
                log.warning("the configuration of topic %s cannot be read: %s", topic, error)
                unread[topic] = error

        await gather(read(topic) for topic in topics)
        return found, unread

    def _breathe(self) -> Future[None]:
        breath: Future[None] = Future()
        self._clock.call_later(0, breath.callback, None)
        return breath

    def _needs_log(self, state: PartitionState) -> bool:
        partition = self._replicas.partitions.get(state.topic_partition)
        return partition is None or partition.log is None or self._is_other_topic(partition, state)

    def _is_other_topic(self, partition: Partition, state: PartitionState) -> bool:
        hosted = partition.state.topic_id
        return _differs(hosted, state.topic_id)

    def _is_wanted(
        self, state: PartitionState, outcomes: dict[TopicPartition, ErrorCode], from_controller: bool
    ) -> bool:
        tp = state.topic_partition
        fence = self.fence
        if state.topic_id in fence.retired:
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
        if leads and not from_controller and state.mzxid <= fence.broker_epoch:
            # Written before this broker registered: meant for its earlier life. The controller decides anew.
            outcomes[tp] = ErrorCode.STALE_BROKER_EPOCH
            return False
        if partition is None:
            # A replica on its way out is stopped, and its log deleted, before the assignment says that it is gone.
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

    def _is_newer(
        self,
        partition: Partition,
        state: PartitionState,
        outcomes: dict[TopicPartition, ErrorCode],
        from_controller: bool,
    ) -> bool:
        known = partition.state
        if partition.role is Role.LEADER and state.leader_epoch == partition.leader_epoch and partition.isr.is_pending:
            # Our own write, come back before its acknowledgement, or what it is about to be refused by.
            return False
        if state.order > known.order:
            return True
        if state.order < known.order:
            if state.leader_epoch < known.leader_epoch:
                outcomes[state.topic_partition] = ErrorCode.FENCED_LEADER_EPOCH
            return False
        if state.mzxid > known.mzxid:
            partition.state = known = known.with_(mzxid=state.mzxid)
        # The very same state: take it where it tells of another assignment or of the topic's id, or where the
        # controller
        # confirms, to this life of the broker, a role that the end of a session took away.
        return (
            state.assignment != known.assignment
            or (known.topic_id == ZERO_UUID and state.topic_id != ZERO_UUID)
            or (partition.role is Role.NONE and from_controller)
        )

    def _stop_reassigned(self, partition: Partition, state: PartitionState) -> None:
        if state.order >= partition.state.order and partition.role is not Role.OFFLINE:
            partition.state = state
            self._stop(partition, Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def _apply_one(self, state: PartitionState, configs: Mapping[str, object], effects: Effects) -> ErrorCode:
        tp = state.topic_partition
        partition = self._replicas.partitions.get(tp)
        if partition is not None and self._is_other_topic(partition, state):
            log.info("%s was deleted and created again: its old log goes", tp)
            await self._delete(tp, partition.state.topic_id)
            partition = None
        if partition is None:
            stored = self._logs.get(tp)
            if stored is not None and _differs(stored.topic_id, state.topic_id):
                log.info("%s: the log on disk is of a deleted topic of that name: it goes", tp)
                self.fence.retire(stored.topic_id)
                await self._logs.delete(tp)
        if partition is None or partition.log is None:
            is_new = state.leader_epoch == 0 and state.zk_version <= 0
            topic_id = None if state.topic_id == ZERO_UUID else state.topic_id
            replica_log = self._logs.get_or_create(tp, topic_id, is_new, configs.get(state.topic))
            partition = self._replicas.host(state)
            partition.log = replica_log
        if state.topic_id != ZERO_UUID and partition.log.topic_id is None:
            partition.log.set_topic_id(state.topic_id)
        if state.leader == self._replicas.broker_id:
            self._lead(partition, state, effects)
        else:
            self._follow(partition, state, effects)
        return _NONE

    def _lead(self, partition: Partition, state: PartitionState, effects: Effects) -> None:
        self._fetchers.remove(partition.topic_partition)
        is_new = partition.make_leader(state, self._clock.monotonic())
        if is_new:
            effects.changed(partition)
        if partition.advance_high_watermark():
            effects.high_watermark(partition)

    def _follow(self, partition: Partition, state: PartitionState, effects: Effects) -> None:
        if partition.role is Role.LEADER:
            effects.left(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not partition.make_follower(state):
            return
        effects.changed(partition)
        if state.leader == NO_LEADER:
            self._fetchers.remove(partition.topic_partition)
        else:
            self._fetchers.add(partition)

    # Stopping

    async def stop_replicas(self, request: StopReplica) -> ControlResponse:
        """The controller's word to stop, and perhaps to delete, replicas."""
        error = self.fence.check(request.controller_epoch, request.broker_epoch)
        if error:
            return ControlResponse(error)
        outcomes = []
        for stop in request.partitions:
            try:
                outcome = await self._stop_one(stop)
            except LogDirFailure as failure:
                self._logs.handle_failure(failure.log_dir)
                outcome = ErrorCode.KAFKA_STORAGE_ERROR
            except Exception:
                log.exception("%s: stopping it failed", stop.topic_partition)
                outcome = ErrorCode.UNKNOWN_SERVER_ERROR
            outcomes.append((stop.topic_partition, outcome))
        return ControlResponse(_NONE, tuple(outcomes))

    async def _stop_one(self, stop: StopPartition) -> ErrorCode:
        tp = stop.topic_partition
        partition = self._replicas.partitions.get(tp)
        if partition is not None:
            if _differs(partition.state.topic_id, stop.topic_id):
                # About the topic that had this name before: nothing of it is left here.
                self.fence.retire(stop.topic_id)
                return _NONE
            if partition.role is Role.OFFLINE:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if stop.leader_epoch >= 0 and stop.leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
        if not stop.delete:
            if partition is not None:
                self._stop(partition, Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return _NONE
        stored = self._logs.get(tp)
        if partition is None and (stored is None or _differs(stored.topic_id, stop.topic_id)):
            if stop.leader_epoch == -2:
                self.fence.retire(stop.topic_id)
            return _NONE
        await self._delete(tp, stop.topic_id if stop.leader_epoch == -2 else None)
        return _NONE

    def topics_gone(self, topics: Mapping[str, uuid.UUID]) -> None:
        """ZooKeeper no longer has ``topics``: stop their replicas, where of that topic id. Their logs stay.

        A deletion by the controller reaches each replica as StopReplica, which deletes, before the znodes go. Znodes
        that go without it (by hand, by a lost ensemble) are no order to destroy data.
        """
        for tp, partition in list(self._replicas.partitions.items()):
            topic_id = topics.get(tp.topic)
            if topic_id is None or partition.role is Role.OFFLINE or _differs(partition.state.topic_id, topic_id):
                continue
            log.warning("%s is no longer in ZooKeeper: it is not served any more, its log stays on disk", tp)
            self._replicas.drop(tp)
            self._stop(partition, Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for topic_id in topics.values():
            self.fence.retire(topic_id)

    async def _delete(self, tp: TopicPartition, topic_id: uuid.UUID | None) -> None:
        partition = self._replicas.partitions.get(tp)
        if partition is not None:
            self._replicas.drop(tp)
            self._stop(partition, Role.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.fence.retire(topic_id)
        if self._logs.get(tp) is not None:
            await self._logs.delete(tp)

    def _stop(self, partition: Partition, role: Role, error: ErrorCode) -> None:
        self._fetchers.remove(partition.topic_partition)
        effects = Effects()
        partition.stop(role)
        effects.left(partition, error)
        effects.run()

    def stop_leading(self) -> None:
        """The session is over: another may have been elected. Followers go on.

        Until the broker is registered anew, everything that is decided about it was meant for the life that ended.
        """
        self.fence.broker_epoch = UNREGISTERED
        effects = Effects()
        for partition in self._replicas.leaders():
            partition.stop()
            effects.left(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        effects.run()

    def directory_failed(self, log_dir: str) -> list[TopicPartition]:
        """The partitions in ``log_dir`` go offline; returns them."""
        failed = []
        for partition in list(self._replicas.partitions.values()):
            if partition.log is not None and partition.log.log_dir == log_dir and partition.role is not Role.OFFLINE:
                self._stop(partition, Role.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR)
                failed.append(partition.topic_partition)
        return failed


def _differs(one: uuid.UUID | None, other: uuid.UUID | None) -> bool:
    """Whether two topic ids are both known and not the same."""
    return one is not None and other is not None and one != other and one.int != 0 and other.int != 0
