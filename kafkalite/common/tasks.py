"""Work in order, concurrent work, and blocking work off the reactor.

Answers to: ``kafka.utils.ShutdownableThread`` and the controller's event queue. The only module below the
reactor shell that knows Twisted's Deferred; it never sees a reactor.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Generic, Protocol, TypeVar, cast

from twisted.internet import defer
from twisted.python.failure import Failure

from kafkalite.common.clock import Clock

log = logging.getLogger(__name__)
T = TypeVar("T")
E = TypeVar("E")


class Executor(Protocol):
    """Runs blocking work: fsync, recovery, compaction, cold reads."""

    def run(self, call: Callable[..., T], *args: object) -> Awaitable[T]:
        """Make ``call(*args)`` off the reactor; the result or its exception comes back on the reactor."""


def deferred(work: Awaitable[T]) -> defer.Deferred[T]:
    """``work`` as a Deferred, started now."""
    if isinstance(work, defer.Deferred):
        return work
    return defer.ensureDeferred(cast("Coroutine[defer.Deferred[object], object, T]", work))


async def gather(works: Iterable[Awaitable[T]]) -> list[T]:
    """Run all ``works`` concurrently; results in order. The first failure is raised once all have ended."""
    started = [deferred(work) for work in works]
    outcomes = cast("list[tuple[bool, T | Failure]]", await defer.DeferredList(started, consumeErrors=True))
    for _, value in outcomes:
        if isinstance(value, Failure):
            value.raiseException()
    return [cast(T, value) for _, value in outcomes]


async def gather_in_parts(call: Callable[[E], Awaitable[T]], items: Sequence[E], at_once: int) -> list[T]:
    """``call(item)`` for each of ``items``, ``at_once`` of them concurrently; results in order."""
    results: list[T] = []
    for start in range(0, len(items), at_once):
        results += await gather(map(call, items[start : start + at_once]))
    return results


def spawn(work: Awaitable[object], what: str, on_error: Callable[[BaseException], object] | None = None) -> None:
    """Start ``work`` without waiting for it; a failure is logged under the name ``what`` and passed to ``on_error``."""

    def failed(failure: Failure) -> None:
        error = cast(BaseException, failure.value)
        if isinstance(error, defer.CancelledError):
            return
        if on_error is not None:
            on_error(error)
        else:
            log.error("%s failed: %s", what, error, exc_info=error)

    deferred(work).addErrback(failed)


class Future(defer.Deferred[T]):
    """A Deferred under the name that the other rooms use: created at an edge, awaited in straight-line code."""


def sleep(clock: Clock, seconds: float) -> Future[None]:
    """Fires after ``seconds`` by ``clock``."""
    over: Future[None] = Future()
    clock.call_later(seconds, over.callback, None)
    return over


class SharedOutcome(Generic[T]):
    """The outcome of one piece of work, for all callers that wait for it; they continue in the order of their calls."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Future[T]] = []

    def wait(self) -> Future[T]:
        """Fires with the result or the error of the work."""
        future: Future[T] = Future()
        self._waiting.append(future)
        return future

    def succeed(self, result: T) -> None:
        """Hand ``result`` to all callers that wait."""
        for future in self._waiting:
            future.callback(result)

    def fail(self, error: BaseException) -> None:
        """Raise ``error`` in all callers that wait."""
        for future in self._waiting:
            future.errback(error)


class Lane(Generic[E]):
    """A queue with one consumer, which finishes each event before it takes the next.

    Callbacks from ZooKeeper, timers and threads only call :meth:`put`. If handling an event fails, the failure is
    logged and the lane goes on.
    """

    def __init__(self, name: str, handle: Callable[[E], Awaitable[None]]) -> None:
        self.name = name
        self._handle = handle
        self._queue: deque[E] = deque()
        self._running = False
        self._closed = False

    def put(self, event: E) -> None:
        """Queue ``event``; handling starts at once when the lane is idle."""
        if self._closed:
            return
        self._queue.append(event)
        if not self._running:
            self._running = True
            spawn(self._consume(), self.name)

    def close(self) -> None:
        """Drop the queued events and accept no more."""
        self._closed = True
        self._queue.clear()

    @property
    def depth(self) -> int:
        """How many events wait."""
        return len(self._queue)

    async def _consume(self) -> None:
        try:
            while self._queue:
                event = self._queue.popleft()
                try:
                    await self._handle(event)
                except Exception:
                    log.exception("%s: event %r failed", self.name, event)
        finally:
            self._running = False
