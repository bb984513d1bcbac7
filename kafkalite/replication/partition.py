"""One partition on this broker: its role, its log, what the leader knows of the followers, its high watermark.

Answers to: ``kafka.cluster.{Partition,Replica}``. Deterministic.

Methods change the state and *return* what that completed; the caller completes it when all state is consistent.
Invariants: log start <= high watermark <= log end; every other replica and every other member of the ISR is a follower.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.purgatory import DelayedOperation
from kafkalite.log.log import Log
from kafkalite.log.values import AppendInfo
from kafkalite.replication.broker_topic_stats import BrokerTopicMetrics
from kafkalite.replication.delayed_operations import (
    Completed,
    DelayedDeleteRecords,
    DelayedFetch,
    DelayedProduce,
    FetchWatch,
)
from kafkalite.replication.isr import IsrState, committed
from kafkalite.replication.results import DeleteRecordsResult, ProduceResult


class Role(Enum):
    """``NONE``: hosted, but neither leading nor following (no leader known, or a session ended)."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


_UNKNOWN = -1
_NONE = ErrorCode.NONE
_LEADER = Role.LEADER
_SENT_AGAIN = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)
"""Errors after which every producer sends the same batch again, here or to another leader."""
_NO_ISR = committed((), -1)


class FollowerState:
    """A remote replica. Times are the clock's monotonic seconds; offsets are -1 until the follower has fetched.

    ``broker_epoch`` is the one that its last fetch carried (KIP-903), -1 where it carried none. ``is_added``: a
    reassignment adds it.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "is_added",
        "last_caught_up",
        "last_fetch",
        "last_fetch_leader_end",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.is_added = False
        self.reset(float("-inf"))

    def reset(self, caught_up_at: float) -> None:
        """A new leader epoch begins: nothing is known of the follower's log."""
        self.broker_epoch = -1
        self.log_start_offset = _UNKNOWN
        self.log_end_offset = _UNKNOWN
        self.last_caught_up = caught_up_at
        self.last_fetch = float("-inf")
        self.last_fetch_leader_end = 0

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now: float) -> None:
        """The follower asked for ``offset``: all below it is in its log.

        It was caught up at this moment where it asks for the leader's end, and at its previous fetch where it asks for
        the end as of then, so that a follower one fetch behind a busy leader is not taken for a slow one.
        """
        if offset >= leader_end:
            self.last_caught_up = now
        elif offset >= self.last_fetch_leader_end and self.last_fetch > self.last_caught_up:
            self.last_caught_up = self.last_fetch
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch = now


class Partition:
    """A replica that this broker holds. ``state`` is the newest one applied.

    ``is_alive`` says of a broker whether it is registered. ``metrics`` are those of the topic. ``watches`` are the ones
    set before the partition came.
    """

    __slots__ = (
        "_delete_waits",
        "_is_alive",
        "_produce_waits",
        "all_caught_up",
        "broker_id",
        "epoch_start_offset",
        "followers",
        "high_watermark_followers",
        "is_added",
        "isr",
        "joining",
        "leader_epoch",
        "log",
        "metrics",
        "role",
        "state",
        "topic_partition",
        "watches",
    )

    def __init__(
        self,
        state: LeaderAndIsr,
        broker_id: int,
        log: Log,
        is_alive: Callable[[int], bool],
        metrics: BrokerTopicMetrics,
        watches: list[FetchWatch] | None = None,
    ) -> None:
        self.topic_partition = state.topic_partition
        self.broker_id = broker_id
        self.state = state
        self.log = log
        self._is_alive = is_alive
        self.metrics = metrics
        self.role = Role.NONE
        self.leader_epoch = -1
        self.epoch_start_offset = -1
        self.followers: dict[int, FollowerState] = {}
        self.is_added = False
        """Whether a reassignment adds this broker's replica, which follows."""
        self.isr: IsrState = _NO_ISR
        # Replicas outside the ISR that caught up: the high watermark waits for them, because under load they could
        # never join otherwise.
        self.joining: set[int] = set()
        self.high_watermark_followers: tuple[FollowerState, ...] = ()
        # Whether every follower had all of the log when it was last compared; saves the hot path a clock and a loop.
        self.all_caught_up = False
        self.watches: list[FetchWatch] = [] if watches is None else watches
        self._produce_waits: deque[tuple[int, DelayedProduce, ProduceResult]] = deque()
        self._delete_waits: list[tuple[int, DelayedDeleteRecords]] = []

    # Roles

    def make_leader(self, state: LeaderAndIsr, now: float) -> Completed:
        """Lead by ``state``. The caller makes sure that ``state`` is not older than the one applied."""
        is_new = self.role is not _LEADER or state.leader_epoch != self.leader_epoch
        self.state = state
        if is_new:
            self.epoch_start_offset = self.log.log_end_offset
            self.log.assign_epoch_start(state.leader_epoch, self.epoch_start_offset)
            self.joining.clear()
        self.role = _LEADER
        self.leader_epoch = state.leader_epoch
        self.all_caught_up = False
        is_pending = self.isr.is_pending and not is_new
        self.set_isr(self.isr if is_pending else committed(state.isr, state.zk_version))
        for replica, follower in self.followers.items():
            follower.is_added = replica in state.assignment.adding
            if is_new:
                follower.reset(now if replica in state.isr else float("-inf"))
        fetches = self._mark_all() if is_new else []
        advanced = self.advance_high_watermark()
        if advanced is None:
            return Completed([], fetches)
        return Completed(advanced.operations, fetches + advanced.fetches)

    def make_follower(self, state: LeaderAndIsr) -> Completed | None:
        """Follow by ``state`` (or wait for a leader); ``None`` where the partition follows that leader already."""
        changed = (
            self.role is not Role.FOLLOWER
            or state.leader_epoch != self.leader_epoch
            or state.leader != self.state.leader
        )
        self.state = state
        self.leader_epoch = state.leader_epoch
        self.is_added = self.broker_id in state.assignment.adding
        self._leave(Role.FOLLOWER)
        if not changed:
            return None
        return Completed(self._fail_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER), self._mark_all())

    def stop(self, role: Role, error: ErrorCode) -> Completed:
        """Stop leading and following; requests that wait in this partition are answered with ``error``."""
        self._leave(role)
        return Completed(self._fail_waits(error), self._mark_all())

    def _leave(self, role: Role) -> None:
        self.role = role
        self.isr = _NO_ISR
        self.followers = {}
        self.joining.clear()
        self.high_watermark_followers = ()
        self.epoch_start_offset = -1

    def commit_isr(self, found: LeaderAndIsr) -> Completed | None:
        """ZooKeeper has the ISR of ``found``."""
        self.state = self.state.with_(
            isr=found.isr, zk_version=found.zk_version, unclean_start_epochs=found.unclean_start_epochs
        )
        self.set_isr(committed(found.isr, found.zk_version))
        return self.advance_high_watermark()

    def set_isr(self, isr: IsrState) -> None:
        """Take over a step of the ISR's state machine.

        A member of the ISR counts as a follower even if the assignment does not name it: this broker reads a new
        assignment in ZooKeeper before the controller takes a replica that is to go out of the ISR.
        """
        self.isr = isr
        self.followers = {
            replica: self.followers.get(replica) or FollowerState(replica)
            for replica in dict.fromkeys((*self.state.replicas, *isr.maximal))
            if replica != self.broker_id
        }
        self.joining.intersection_update(self.state.replicas)
        self.joining.difference_update(isr.maximal)
        self._choose_high_watermark_followers()

    def _choose_high_watermark_followers(self) -> None:
        self.high_watermark_followers = tuple(
            follower
            for replica, follower in self.followers.items()
            if replica in self.isr.maximal or replica in self.joining
        )

    def set_joining(self, replica: int, joining: bool) -> None:
        """Whether the high watermark waits for ``replica``, which is not in the ISR yet."""
        if joining != (replica in self.joining):
            (self.joining.add if joining else self.joining.discard)(replica)
            self._choose_high_watermark_followers()

    # The leader's side

    def check_leader(self, current_leader_epoch: int = -1) -> Log:
        """The log, where this broker leads in that epoch (-1: any). Raises :class:`ApiError` otherwise."""
        if self.role is not _LEADER:
            if self.role is Role.OFFLINE:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: its log directory is offline")
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic_partition}")
        self.check_epoch(current_leader_epoch)
        return self.log

    def check_local(self, current_leader_epoch: int = -1) -> Log:
        """The log, where this broker leads or follows."""
        if self.role is not _LEADER and self.role is not Role.FOLLOWER:
            return self.check_leader()
        self.check_epoch(current_leader_epoch)
        return self.log

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Compare the leader epoch that a client knows with ours. Raises :class:`ApiError`."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def min_in_sync(self) -> int:
        """``min.insync.replicas``, or the number of replicas where that is smaller."""
        return min(self.log.config.min_insync_replicas, len(self.state.replicas))

    def append_as_leader(
        self,
        records: memoryview,
        acks: int,
        now_ms: int,
        from_client: bool,
        monotonic: Callable[[], float],
        changes: list[Completed],
    ) -> AppendInfo:
        """Append where this broker leads; ``changes`` gets what that completes. Raises :class:`ApiError`.

        A refusal is noted where this broker does not lead, too: clients may know earlier than it that it is to lead.
        """
        log = self.log
        old_end = log.log_end_offset
        try:
            if self.role is not _LEADER:
                self.check_leader()
            if acks == -1 and self.isr.certain_size < self.min_in_sync:
                raise ApiError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{self.topic_partition} has {self.isr.certain_size} in-sync replicas of {self.min_in_sync} "
                    "required",
                )
            info = log.append_as_leader(records, self.leader_epoch, now_ms, from_client=from_client)
        except ApiError as error:
            if error.code in _SENT_AGAIN:
                log.note_refusal(records, error.code)
            # A full disk refuses the flush of records that are in the log already.
            if log.log_end_offset != old_end and (fetches := self._grew(old_end, monotonic)):
                changes.append(Completed([], fetches))
            raise
        fetches = [] if log.log_end_offset == old_end else self._grew(old_end, monotonic)
        if not self.high_watermark_followers and log.high_watermark < log.log_end_offset:
            # No follower counts: what is in this log is committed.
            log.update_high_watermark(log.log_end_offset)
            if self.watches or self._produce_waits:
                acknowledged = self._acknowledge()
                changes.append(Completed(acknowledged.operations, fetches + acknowledged.fetches))
                return info
        if fetches:
            changes.append(Completed([], fetches))
        return info

    def _grew(self, old_end: int, monotonic: Callable[[], float]) -> list[DelayedFetch]:
        """The log grew from ``old_end``; returns the fetches of followers that wait for it."""
        if self.all_caught_up and self.followers:
            self._fell_behind(old_end, monotonic())
        fetches: list[DelayedFetch] = []
        for watch in self.watches:
            if watch.is_follower:
                watch.dirty[self.topic_partition] = None
                if watch.waiting is not None:
                    fetches.append(watch.waiting)
        return fetches

    def _fell_behind(self, old_end: int, now: float) -> None:
        """The log grew from ``old_end``: followers that had all of it count as caught up until now.

        Otherwise the follower of an idle partition, which fetches nothing for hours, would look slow at the next
        append.
        """
        self.all_caught_up = False
        for follower in self.followers.values():
            if follower.log_end_offset >= old_end and follower.last_caught_up < now:
                follower.last_caught_up = now

    def await_replication(self, offset: int, operation: DelayedProduce, result: ProduceResult) -> None:
        """``operation`` waits until the high watermark reaches ``offset``; ``result`` says so until then."""
        result.error = ErrorCode.REQUEST_TIMED_OUT
        operation.pending += 1
        self._produce_waits.append((offset, operation, result))

    def advance_high_watermark(self) -> Completed | None:
        """Raise the high watermark to what the maximal ISR has; ``None`` where it stays, or nothing waits for it."""
        log = self.log
        end: int = log.log_end_offset
        for follower in self.high_watermark_followers:
            end = min(end, follower.log_end_offset)
        if end <= log.high_watermark:
            return None
        log.update_high_watermark(end)
        return self._acknowledge() if self.watches or self._produce_waits else None

    def follow_high_watermark(self, leaders: int) -> Completed | None:
        """Take over the high watermark of the leader's response, as far as this follower's log reaches."""
        log = self.log
        high_watermark = min(leaders, log.log_end_offset)
        if high_watermark <= log.high_watermark:
            return None
        log.update_high_watermark(high_watermark)
        return self._acknowledge() if self.watches else None

    def follower_fetched(self, follower: FollowerState, offset: int, log_start: int, now: float) -> Completed | None:
        """A follower has everything below ``offset``, and its log starts at ``log_start``."""
        end = self.log.log_end_offset
        log_start_moved = log_start != follower.log_start_offset
        moved = offset != follower.log_end_offset
        follower.fetched(offset, log_start, end, now)
        completed: Completed | None = None
        if moved:
            completed = self.advance_high_watermark()
            if offset == end and not self.all_caught_up:
                self.all_caught_up = all(other.log_end_offset >= end for other in self.followers.values())
        if log_start_moved and self._delete_waits:
            deletions = self.complete_deletions()
            if completed is None:
                return deletions
            completed.operations.extend(deletions.operations)
        return completed

    def is_in_sync(self, follower: FollowerState) -> bool:
        """Whether that follower's log reaches the high watermark and this leader's epoch."""
        offset = follower.log_end_offset
        return offset >= self.log.high_watermark and offset >= self.epoch_start_offset >= 0

    def lagging(self, now: float, max_lag: float) -> frozenset[int]:
        """Followers in the ISR that have not been caught up for ``max_lag`` seconds."""
        if self.all_caught_up or self.role is not _LEADER:
            return frozenset()
        end = self.log.log_end_offset
        return frozenset(
            replica
            for replica, follower in self.followers.items()
            if replica in self.isr.committed
            and follower.log_end_offset != end
            and now - follower.last_caught_up > max_lag
        )

    @property
    def low_watermark(self) -> int:
        """The lowest log start of all live replicas, -1 while one of them is not known."""
        start = self.log.log_start_offset
        for replica, follower in self.followers.items():
            if self._is_alive(replica):
                start = min(start, follower.log_start_offset)
        return start

    # Requests that wait

    def _acknowledge(self) -> Completed:
        """The high watermark moved: producers are acknowledged, consumers can read on.

        Followers learn of it with their next answer.
        """
        operations: list[DelayedOperation] = []
        waits = self._produce_waits
        if waits:
            high_watermark = self.log.high_watermark
            enough = self.isr.certain_size >= self.min_in_sync
            while waits and waits[0][0] <= high_watermark:
                _, operation, result = waits.popleft()
                if operation.completed:
                    continue
                result.error = _NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                operation.pending -= 1
                if operation.pending == 0:
                    operations.append(operation)
        fetches: list[DelayedFetch] = []
        for watch in self.watches:
            watch.dirty[self.topic_partition] = None
            if not watch.is_follower and watch.waiting is not None:
                fetches.append(watch.waiting)
        return Completed(operations, fetches)

    def _mark_all(self) -> list[DelayedFetch]:
        """The role or the log start changed: every session must look. Returns the fetches that wait."""
        fetches: list[DelayedFetch] = []
        for watch in self.watches:
            watch.dirty[self.topic_partition] = None
            if watch.waiting is not None:
                fetches.append(watch.waiting)
        return fetches

    def _fail_waits(self, error: ErrorCode) -> list[DelayedOperation]:
        """The partition is led here no longer: requests that wait in it end with ``error``."""
        operations: list[DelayedOperation] = []
        while self._produce_waits:
            _, operation, result = self._produce_waits.popleft()
            if operation.completed:
                continue
            result.error = error
            result.base_offset = -1
            operation.pending -= 1
            if operation.pending == 0:
                operations.append(operation)
        waits, self._delete_waits = self._delete_waits, []
        for _, deletion in waits:
            if deletion.finish(self.topic_partition, DeleteRecordsResult(-1, error)):
                operations.append(deletion)
        return operations

    def delete_records(self, offset: int, operation: DelayedDeleteRecords) -> Completed:
        """Start the log at ``offset`` (-1: the high watermark); ``operation`` waits until every live replica does so.

        :meth:`complete_deletions` ends the wait where they did. Raises :class:`ApiError`.
        """
        log = self.check_leader()
        if "delete" not in log.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"{self.topic_partition} is compacted only")
        high_watermark = log.high_watermark
        target = high_watermark if offset == -1 else offset
        if target < 0 or target > high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.increment_log_start_offset(target)
        operation.pending += 1
        self._delete_waits.append((target, operation))
        return Completed([], self._mark_all())

    @property
    def has_deletions(self) -> bool:
        """Whether a deletion of records waits for replicas."""
        return bool(self._delete_waits)

    def complete_deletions(self) -> Completed:
        """End the deletions whose offset every live replica has reached."""
        operations: list[DelayedOperation] = []
        if not self._delete_waits:
            return Completed(operations, [])
        low = self.low_watermark
        waiting = []
        for wait in self._delete_waits:
            offset, operation = wait
            if offset <= low:
                if operation.finish(self.topic_partition, DeleteRecordsResult(low, _NONE)):
                    operations.append(operation)
            elif not operation.completed:
                waiting.append(wait)
        self._delete_waits = waiting
        return Completed(operations, [])
