"""A group that this broker coordinates: its core, its timer, the requests that wait in it, and its writes.

Answers to: ``kafka.coordinator.group.{DelayedJoin,DelayedSync,DelayedHeartbeat}`` as waiting requests, and
``GroupMetadata.inLock``, which one reactor makes needless. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, Lane
from kafkalite.coordinator.group import requests
from kafkalite.coordinator.group.deadlines import excuse, tick
from kafkalite.coordinator.group.effects import StoreGeneration, StoreKind
from kafkalite.coordinator.group.group_metadata import GroupMetadata
from kafkalite.coordinator.group.joining import join
from kafkalite.coordinator.group.persistence import stored
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from kafkalite.zk.stores.claims import Claim, ClaimLostError
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError, ZkError

log = logging.getLogger(__name__)
_RETRY = 0.25
"""Seconds until a write whose outcome a lost connection left unknown is made again."""
_ASLEEP = 1.0
"""A timer that is so many seconds late says that the process was stopped, or its reactor held up."""


class CoordinatedGroup:
    """``core`` under ``claim``. ``on_lost`` is called once it turns out that the claim is no longer ours."""

    def __init__(
        self,
        core: GroupMetadata,
        claim: Claim,
        store: GroupStore,
        clock: Clock,
        on_lost: Callable[[CoordinatedGroup], None],
    ) -> None:
        self.core = core
        self.claim = claim
        self._store = store
        self._clock = clock
        self._on_lost = on_lost
        self._tickets = count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._writes = Lane(f"generations of group {core.name}", self._write)
        self._timer: Timer | None = None
        self._timer_at = float("inf")
        self._settle()

    async def join(self, request: JoinRequest, fresh_id: str) -> JoinAnswer:
        """A JoinGroup; ``fresh_id`` is for a member that needs an id."""
        ticket, waiting = self._wait()
        join(self.core, ticket, request, fresh_id, self._clock.monotonic())
        self._settle()
        answer: JoinAnswer = await waiting
        return answer

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        """A SyncGroup."""
        ticket, waiting = self._wait()
        requests.sync(self.core, ticket, request, self._clock.monotonic())
        self._settle()
        answer: SyncAnswer = await waiting
        return answer

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """A Heartbeat: a look into memory, and a later deadline that nobody is told of."""
        return requests.heartbeat(self.core, request, self._clock.monotonic())

    def leave(self, members: Sequence[LeavingMember]) -> LeaveAnswer:
        """A LeaveGroup."""
        answer = requests.leave(self.core, members, self._clock.monotonic())
        self._settle()
        return answer

    def check_commit(
        self, member_id: str, generation: int, instance_id: str | None, *, transactional: bool = False
    ) -> ErrorCode:
        """Whether that member may commit offsets now."""
        now = self._clock.monotonic()
        return requests.check_commit(self.core, member_id, generation, instance_id, now, transactional=transactional)

    def lost(self) -> None:
        """The claim has turned out to be lost."""
        self._on_lost(self)

    def close(self, error: ErrorCode) -> None:
        """Whoever waits is answered ``error``; nothing more is written."""
        self._writes.close()
        self.core.die(error)
        self._settle()

    # Effects and deadlines

    def _wait(self) -> tuple[int, Future[Any]]:
        ticket = next(self._tickets)
        waiting: Future[Any] = Future()
        self._waiting[ticket] = waiting
        return ticket, waiting

    def _settle(self) -> None:
        """Do what the core wants done. Its own state is consistent by now: who is answered may ask again at once."""
        effects = self.core.take()
        self._arm()
        for effect in effects:
            if isinstance(effect, StoreGeneration):
                self._writes.put(self._dated(effect))
            else:
                self._waiting.pop(effect.ticket).callback(effect.answer)

    def _dated(self, store: StoreGeneration) -> StoreGeneration:
        now = self._clock.time_ms()
        if store.kind is StoreKind.EMPTY:
            self.core.empty_since_ms = now
        return replace(store, generation=replace(store.generation, timestamp_ms=now))

    def _arm(self) -> None:
        """One timer for all deadlines. Heartbeats only move deadlines away, and leave it alone."""
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
            # Heartbeats of that time lie unread in the sockets, behind this timer.
            log.warning(
                "group %s: this broker was asleep for %.1f s; members are given that time", self.core.name, late
            )
            excuse(self.core, late + _ASLEEP, now)
        else:
            tick(self.core, now)
        self._settle()

    # Writes, one after the other

    async def _write(self, store: StoreGeneration) -> None:
        error = ErrorCode.NONE
        while self.core.state is not GroupState.DEAD:
            try:
                await self._save(store)
                break
            except (ClaimLostError, SessionExpiredError) as lost:
                log.warning("group %s: %s", self.core.name, lost)
                self._on_lost(self)
                return
            except ConnectionLostError:
                # Who waits goes on waiting: the same may be written again, or another coordinator has taken over.
                await self._pause()
            except ZkError as failure:
                log.error("group %s: generation %d: %s", self.core.name, store.generation.number, failure)
                error = ErrorCode.UNKNOWN_SERVER_ERROR
                break
            except Exception:
                # Members that wait for this generation must not wait for ever.
                log.exception("group %s: storing generation %d failed", self.core.name, store.generation.number)
                error = ErrorCode.UNKNOWN_SERVER_ERROR
                break
        if self.core.state is not GroupState.DEAD:
            stored(self.core, store, error, self._clock.monotonic())
            self._settle()

    async def _save(self, store: StoreGeneration) -> None:
        name = self.core.name
        if store.kind is StoreKind.REPLACEMENT:
            before, after = store.replaced
            new = next(record for record in store.members if record.member_id == after)
            await self._store.replace(self.claim, name, store.generation, before, new)
        else:
            await self._store.save(self.claim, name, store.generation, store.members)

    async def _pause(self) -> None:
        over: Future[None] = Future()
        self._clock.call_later(_RETRY, over.callback, None)
        await over
