"""One partition on this broker: its role, its log, what the leader knows of the followers, its high watermark.

Answers to: ``kafka.cluster.Partition``. Deterministic.

Methods change the state and *return* what changed; nobody is called back from here. The manager completes what waits
when all state is consistent. Invariants: log start <= high watermark <= log end; the ISR is part of the replicas.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.replication.fetch_watch import FetchWatch
from kafkalite.replication.follower_state import FollowerState
from kafkalite.replication.isr import IsrState, committed

if TYPE_CHECKING:
    from kafkalite.replication.delayed_operations import DelayedDeleteRecords, DelayedProduce
    from kafkalite.replication.ports import AppendInfo, ReplicaLog
    from kafkalite.replication.results import ProduceResult

# What a follower's fetch changed.
HIGH_WATERMARK = 1
LOG_START = 2
MAY_EXPAND = 4


class Role(Enum):
    """``NONE``: hosted, but neither leading nor following (no leader known, or a session ended)."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


_LEADER = Role.LEADER
_SENT_AGAIN = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)
"""Refusals of a leader after which every producer sends the same batch again."""
_NO_ISR = committed((), -1)


class Partition:
    """A replica that this broker holds. ``state`` is the newest one applied, ``mzxid`` the newest znode seen."""

    __slots__ = (
        "all_caught_up",
        "broker_id",
        "delete_waits",
        "epoch_start_offset",
        "followers",
        "high_watermark_followers",
        "isr",
        "joining",
        "leader_epoch",
        "log",
        "produce_waits",
        "role",
        "state",
        "topic_partition",
        "watches",
    )

    def __init__(self, state: LeaderAndIsr, broker_id: int, watches: list[FetchWatch]) -> None:
        self.topic_partition = state.topic_partition
        self.broker_id = broker_id
        self.state = state
        self.log: ReplicaLog | Any = None
        self.role = Role.NONE
        # Whether this broker has itself read the partition's state: only then does its absence mean a deletion.
        self.leader_epoch = -1
        self.epoch_start_offset = -1
        self.followers: dict[int, FollowerState] = {}
        self.isr: IsrState = _NO_ISR
        # Replicas outside the ISR that caught up: the high watermark waits for them, or under load they never could
        # join.
        self.joining: set[int] = set()
        self.high_watermark_followers: tuple[FollowerState, ...] = ()
        # Whether every follower had all of the log at the last look; spares the hot path a clock and a loop.
        self.all_caught_up = False
        self.watches = watches
        self.produce_waits: deque[tuple[int, DelayedProduce, ProduceResult]] = deque()
        self.delete_waits: list[tuple[int, DelayedDeleteRecords]] = []

    # Roles

    def make_leader(self, state: LeaderAndIsr, now: float) -> bool:
        """Lead by ``state``; returns whether that is a new leadership. The caller makes sure that ``state`` is not
        older.
        """
        is_new = self.role is not _LEADER or state.leader_epoch != self.leader_epoch
        self.state = state
        followers = {
            replica: self.followers.get(replica) or FollowerState(replica)
            for replica in state.replicas
            if replica != self.broker_id
        }
        if is_new:
            self.epoch_start_offset = self.log.log_end_offset
            self.log.assign_epoch_start(state.leader_epoch, self.epoch_start_offset)
            for replica, follower in followers.items():
                follower.reset(now if replica in state.isr else float("-inf"))
            self.joining.clear()
        self.followers = followers
        self.role = _LEADER
        self.leader_epoch = state.leader_epoch
        self.all_caught_up = False
        if is_new or not self.isr.is_pending:
            self.set_isr(committed(state.isr, state.zk_version))
        else:
            self.set_isr(self.isr)
        return is_new

    def make_follower(self, state: LeaderAndIsr) -> bool:
        """Follow by ``state`` (or wait for a leader); returns whether the fetcher must start anew."""
        changed = (
            self.role is not Role.FOLLOWER
            or state.leader_epoch != self.leader_epoch
            or state.leader != self.state.leader
        )
        self.state = state
        self.leader_epoch = state.leader_epoch
        self._leave(Role.FOLLOWER)
        return changed

    def stop(self, role: Role = Role.NONE) -> None:
        """Neither lead nor follow any more."""
        self._leave(role)

    def _leave(self, role: Role) -> None:
        self.role = role
        self.isr = _NO_ISR
        self.followers = {}
        self.joining.clear()
        self.high_watermark_followers = ()
        self.epoch_start_offset = -1

    def set_isr(self, isr: IsrState) -> None:
        """Take over a step of the ISR's state machine."""
        self.isr = isr
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

    def check_leader(self, current_leader_epoch: int = -1) -> ReplicaLog:
        """The log, where this broker leads in that epoch (-1: any). Raises :class:`ApiError` otherwise."""
        if self.role is not _LEADER:
            if self.role is Role.OFFLINE:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: its log directory is offline")
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic_partition}")
        self.check_epoch(current_leader_epoch)
        return self.log

    def check_local(self, current_leader_epoch: int = -1) -> ReplicaLog:
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
        wanted: int = self.log.config.min_insync_replicas
        return min(wanted, len(self.followers) + 1)

    def append_as_leader(self, records: memoryview, acks: int, now_ms: int, from_client: bool) -> AppendInfo:
        """Append where this broker leads. Raises :class:`ApiError`."""
        if self.role is not _LEADER:
            self.check_leader()
        try:
            if acks == -1 and len(self.isr.committed) < self.min_in_sync:
                raise ApiError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{self.topic_partition} has {len(self.isr.committed)} in-sync replicas of {self.min_in_sync} "
                    "required",
                )
            info: AppendInfo = self.log.append_as_leader(
                records, self.leader_epoch, now_ms, from_client=from_client, required_acks=acks
            )
        except ApiError as error:
            if error.code in _SENT_AGAIN:
                self.log.note_refusal(records)
            raise
        return info

    def fell_behind(self, old_end: int, now: float) -> None:
        """The log grew from ``old_end``: followers that had all of it count as caught up until now.

        An idle partition's follower fetches nothing for hours and must not look slow at the next append.
        """
        self.all_caught_up = False
        for follower in self.followers.values():
            if follower.log_end_offset >= old_end and follower.last_caught_up < now:
                follower.last_caught_up = now

    def advance_high_watermark(self) -> bool:
        """Raise the high watermark to what the maximal ISR has; returns whether it moved."""
        log = self.log
        end: int = log.log_end_offset
        for follower in self.high_watermark_followers:
            end = min(end, follower.log_end_offset)
        if end > log.high_watermark:
            log.update_high_watermark(end)
            return True
        return False

    def follower_fetched(self, follower: FollowerState, offset: int, log_start: int, now: float) -> int:
        """A follower has everything below ``offset``; returns which of HIGH_WATERMARK, LOG_START, MAY_EXPAND it
        changed.
        """
        end: int = self.log.log_end_offset
        changed = 0
        if log_start != follower.log_start_offset:
            changed = LOG_START
        moved = offset != follower.log_end_offset
        follower.fetched(offset, log_start, end, now)
        if moved:
            if self.advance_high_watermark():
                changed |= HIGH_WATERMARK
            if offset == end and not self.all_caught_up:
                self.all_caught_up = all(other.log_end_offset >= end for other in self.followers.values())
        if follower.broker_id not in self.isr.maximal:
            changed |= MAY_EXPAND
        return changed

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

    def low_watermark(self, alive: set[int]) -> int:
        """The lowest log start of all live replicas, -1 while one of them is not known."""
        start: int = self.log.log_start_offset
        for replica, follower in self.followers.items():
            if replica in alive:
                start = min(start, follower.log_start_offset)
        return start
