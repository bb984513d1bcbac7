"""A group that this broker coordinates: its metadata, its timer, its waiting requests and its writes.

Answers to: ``kafka.coordinator.group.{DelayedJoin,DelayedSync,DelayedHeartbeat}`` as waiting requests, and
``GroupMetadata.inLock``, which a single reactor thread makes unnecessary. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import count
from typing import cast

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ErrorCode
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.tasks import Future, Lane, sleep
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.group_metadata import GroupMetadata
from kafkalite.coordinator.group.group_stats import GroupStats
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeavingMember,
    StoreGeneration,
    StoreKind,
    SyncAnswer,
    SyncRequest,
)
from kafkalite.zk.stores.claims import Claim, ClaimLostError
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.zk_client import ConnectionLostError, NodeExistsError, NoNodeError, SessionExpiredError, ZkError

log = logging.getLogger(__name__)
_RETRY = 0.25
"""Seconds until a write is retried whose outcome is unknown after a lost connection."""
_ASLEEP = 1.0
"""If a timer fires this many seconds late, the process was paused or its reactor blocked."""


class CoordinatedGroup:
    """``core`` under ``claim``. ``on_lost`` is called when a write finds that another broker holds the claim."""

    def __init__(
        self,
        core: GroupMetadata,
        claim: Claim,
        store: GroupStore,
        clock: Clock,
        on_lost: Callable[[CoordinatedGroup], None],
        record: EventRecorder = ignore_event,
        stats: GroupStats | None = None,
    ) -> None:
        self._record = record
        self._stats = GroupStats() if stats is None else stats
        self.core = core
        self.claim = claim
        self.pending_txn_offset_commits: list[Collection[TopicPartition]] = []
        """The partitions of each TxnOffsetCommit that was accepted and is not durable yet."""
        self._store = store
        self._clock = clock
        self._on_lost = on_lost
        self._tickets = count(1)
        self._waiting: dict[int, Future[JoinAnswer | SyncAnswer]] = {}
        self._writes = Lane(f"generations of group {core.name}", self._write)
        self._timer: Timer | None = None
        self._timer_at = float("inf")
        self._settle()

    async def join(self, request: JoinRequest, fresh_id: str) -> JoinAnswer:
        """Serve a JoinGroup; ``fresh_id`` is the member id for a member that needs one."""
        ticket, waiting = self._wait()
        self.core.join(ticket, request, fresh_id, self._clock.monotonic())
        self._settle()
        return cast(JoinAnswer, await waiting)

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        """Serve a SyncGroup."""
        ticket, waiting = self._wait()
        self.core.sync(ticket, request, self._clock.monotonic())
        self._settle()
        return cast(SyncAnswer, await waiting)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Serve a Heartbeat; it needs no timer and no write, because it only moves a deadline away."""
        return self.core.heartbeat(request, self._clock.monotonic())

    def leave(self, members: Sequence[LeavingMember]) -> LeaveAnswer:
        """Serve a LeaveGroup."""
        answer = self.core.leave(members, self._clock.monotonic())
        self._settle()
        return answer

    def check_commit(
        self, member_id: str, generation: int, instance_id: str | None, *, transactional: bool = False
    ) -> ErrorCode:
        """Whether that member may commit offsets now."""
        now = self._clock.monotonic()
        return self.core.check_commit(member_id, generation, instance_id, now, transactional=transactional)

    def lost(self) -> None:
        """A write has found that the claim is lost."""
        self._on_lost(self)

    def close(self, error: ErrorCode) -> None:
        """Answer all waiting requests ``error``, and write nothing more."""
        self._writes.close()
        self.core.die(error)
        self._settle()

    # Effects and deadlines

    def _wait(self) -> tuple[int, Future[JoinAnswer | SyncAnswer]]:
        ticket = next(self._tickets)
        waiting: Future[JoinAnswer | SyncAnswer] = Future()
        self._waiting[ticket] = waiting
        return ticket, waiting

    def _settle(self) -> None:
        """Carry out the core's effects after its step, because an answered client may send a request at once."""
        effects = self.core.take_effects()
        self._arm()
        for effect in effects:
            if isinstance(effect, StoreGeneration):
                self._writes.put(self._dated(effect))
                self._record_generation(effect)
                self._stats.rebalances += effect.kind is StoreKind.ASSIGNMENT
            else:
                self._waiting.pop(effect.ticket).callback(effect.answer)

    def _record_generation(self, store: StoreGeneration) -> None:
        if store.kind is StoreKind.REPLACEMENT:
            text = f"member {store.replaced[1]} takes the place of {store.replaced[0]}"
        else:
            text = f"generation {store.generation.number} with {len(store.members)} members"
        self._record(
            EventKind.REBALANCE, f"group {self.core.name}: {text}", group=self.core.name, why=self.core.rebalance_reason
        )

    def _dated(self, store: StoreGeneration) -> StoreGeneration:
        now = self._clock.time_ms()
        if store.kind is StoreKind.EMPTY:
            self.core.set_empty_since(now)
        return replace(store, generation=replace(store.generation, timestamp_ms=now))

    def _arm(self) -> None:
        """Set the one timer for all deadlines. Heartbeats do not, because they only move deadlines away."""
        wakes_at = self.core.wakes_at
        if self._timer is not None:
            if self._timer_at <= wakes_at and self.core.state is not GroupState.DEAD:
                return
            self._timer.cancel()
            self._timer = None
        if wakes_at != float("inf"):
            self._timer_at = wakes_at
            self._timer = self._clock.call_later(max(0.0, wakes_at - self._clock.monotonic()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        late = now - self._timer_at
        if late > _ASLEEP:
            # Heartbeats that arrived meanwhile are still unread, because the timer runs before the sockets.
            log.warning(
                "group %s: this broker was asleep for %.1f s; members are given that time", self.core.name, late
            )
            self.core.excuse(late + _ASLEEP, now)
        else:
            self.core.tick(now)
        self._settle()

    # Writes, one at a time

    async def _write(self, store: StoreGeneration) -> None:
        error = ErrorCode.NONE
        is_outcome_unknown = False
        while self.core.state is not GroupState.DEAD:
            try:
                await self._save(store)
                break
            except (ClaimLostError, SessionExpiredError) as lost:
                log.warning("group %s: %s", self.core.name, lost)
                self._on_lost(self)
                return
            except ConnectionLostError:
                # Retry while the requests wait; if another coordinator has taken over, the retry finds the claim lost.
                is_outcome_unknown = True
                await sleep(self._clock, _RETRY)
            except ZkError as failure:
                if is_outcome_unknown and isinstance(failure, NodeExistsError | NoNodeError):
                    # The attempt whose answer was lost took effect after this one had read the znodes: read them again.
                    is_outcome_unknown = False
                    continue
                log.error("group %s: generation %d: %s", self.core.name, store.generation.number, failure)
                error = ErrorCode.UNKNOWN_SERVER_ERROR
                break
            except Exception:
                # Answer the members that wait for this generation, so that they do not wait for ever.
                log.exception("group %s: storing generation %d failed", self.core.name, store.generation.number)
                error = ErrorCode.UNKNOWN_SERVER_ERROR
                break
        if self.core.state is not GroupState.DEAD:
            self.core.stored(store, error, self._clock.monotonic())
            self._settle()

    async def _save(self, store: StoreGeneration) -> None:
        name = self.core.name
        if store.kind is StoreKind.REPLACEMENT:
            before, after = store.replaced
            new = next(record for record in store.members if record.member_id == after)
            await self._store.replace(self.claim, name, store.generation, before, new)
        else:
            await self._store.save(self.claim, name, store.generation, store.members)
