"""The purgatory: requests that wait for a condition or for their timeout.

Answers to: ``kafka.server.{DelayedOperation,DelayedOperationPurgatory}``. Deterministic.

A completed operation never runs inside the loop that completed it: :meth:`Purgatory.check_and_complete`
first collects the satisfied ones and then runs them, because by then the caller's own state is consistent.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from itertools import count

from kafkalite.common.clock import Clock, Timer

_PURGE_INTERVAL = 1000
"""How many completed operations may be kept for their deadline (``…purgatory.purge.interval.requests``)."""


class DelayedOperation:
    """One waiting request. Subclasses define its condition and its answer.

    ``timeout`` is in seconds. Exactly one call of :meth:`complete` succeeds; :meth:`on_complete`
    runs once, after :meth:`on_expiration` if the timeout came first.
    """

    __slots__ = ("completed", "keys", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.completed = False
        self.keys: tuple[Hashable, ...] = ()

    def is_satisfied(self) -> bool:
        """Whether the condition holds now. Must not change anything."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Send the answer."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called just before :meth:`on_complete` if the timeout came first."""

    def complete(self) -> bool:
        """Complete the operation unless it is complete already; returns whether this call did it."""
        if self.completed:
            return False
        self.completed = True
        self.on_complete()
        return True


class Purgatory:
    """Operations by the keys that they watch, with one timer for all of them."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._watchers: dict[Hashable, dict[int, DelayedOperation]] = {}
        self._deadlines: list[tuple[float, int, DelayedOperation]] = []
        self._order = count()
        self._purge_at = _PURGE_INTERVAL
        self._timer: Timer | None = None
        self._timer_at = float("inf")

    def __len__(self) -> int:
        """How many operations wait."""
        return len({id(op) for ops in self._watchers.values() for op in ops.values()})

    @property
    def delayed(self) -> int:
        """How many operations wait, those without keys among them. Looks at each of them."""
        return sum(not operation.completed for _, _, operation in self._deadlines)

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Complete ``operation`` at once if its condition holds; otherwise let it wait under each of ``keys``.

        Returns whether it was completed.
        """
        if operation.is_satisfied():
            return operation.complete()
        operation.keys = tuple(keys)
        identity = id(operation)
        for key in operation.keys:
            self._watchers.setdefault(key, {})[identity] = operation
        deadline = self._clock.monotonic() + operation.timeout
        heapq.heappush(self._deadlines, (deadline, next(self._order), operation))
        if len(self._deadlines) > self._purge_at:
            self._purge()
        self._arm()
        return False

    def _purge(self) -> None:
        """Drop operations that were completed before their deadline: with a timeout of 30 s nearly all are."""
        self._deadlines = [entry for entry in self._deadlines if not entry[2].completed]
        heapq.heapify(self._deadlines)
        self._purge_at = max(_PURGE_INTERVAL, 2 * len(self._deadlines))

    def check_and_complete(self, key: Hashable) -> int:
        """Complete the operations that wait under ``key`` and are satisfied now; returns how many."""
        watching = self._watchers.get(key)
        if not watching:
            return 0
        done = [operation for operation in watching.values() if operation.is_satisfied()]
        for operation in done:
            self._forget(operation)
        for operation in done:
            operation.complete()
        return len(done)

    def shutdown(self) -> None:
        """Stop the timer; waiting operations are dropped."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._watchers.clear()
        self._deadlines.clear()

    def _forget(self, operation: DelayedOperation) -> None:
        identity = id(operation)
        for key in operation.keys:
            watching = self._watchers.get(key)
            if watching is not None:
                watching.pop(identity, None)
                if not watching:
                    del self._watchers[key]

    def _arm(self) -> None:
        while self._deadlines and self._deadlines[0][2].completed:
            heapq.heappop(self._deadlines)
        if not self._deadlines:
            return
        deadline = self._deadlines[0][0]
        # A later timer is replaced. An earlier one stays, because it looks for the next deadline when it fires.
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._timer_at = float("inf")
        now = self._clock.monotonic()
        expired = []
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][2].completed):
            operation = heapq.heappop(self._deadlines)[2]
            if not operation.completed:
                self._forget(operation)
                expired.append(operation)
        for operation in expired:
            if not operation.completed:
                operation.on_expiration()
                operation.complete()
        self._arm()
