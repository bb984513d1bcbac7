"""A clock and an executor on Twisted's reactor: time, and threads for calls that block.

Answers to: ``org.apache.kafka.common.utils.SystemTime`` and ``kafka.utils.KafkaScheduler``. Reactor shell.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar, cast

from twisted.internet import defer, error
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from kafkalite.common.clock import Timer

T = TypeVar("T")
log = logging.getLogger(__name__)
_NICENESS: Final = 10
"""Added to the niceness of the process: a tenth of a busy core, and all of an idle one."""


class DelayedCall(Protocol):
    """Twisted's ``IDelayedCall``."""

    def cancel(self) -> None: ...
    def active(self) -> bool: ...
    def getTime(self) -> float: ...  # noqa: N802


class Descriptor(Protocol):
    """What the reactor watches: Twisted's ``IFileDescriptor``."""

    def fileno(self) -> int: ...
    def connectionLost(self, reason: Failure, /) -> None: ...  # noqa: N802


class ReadDescriptor(Descriptor, Protocol):
    """Twisted's ``IReadDescriptor``."""

    def doRead(self) -> BaseException | None: ...  # noqa: N802


class WriteDescriptor(Descriptor, Protocol):
    """Twisted's ``IWriteDescriptor``."""

    def doWrite(self) -> BaseException | None: ...  # noqa: N802


class ReactorTime(Protocol):
    """Twisted's ``IReactorTime``."""

    def seconds(self) -> float: ...
    def callLater(self, delay: float, call: Callable[..., object], /, *args: object) -> DelayedCall: ...  # noqa: N802


class ReactorThreads(Protocol):
    """Of Twisted's ``IReactorFromThreads`` and ``IReactorCore``."""

    def callFromThread(self, call: Callable[..., object], /, *args: object) -> None: ...  # noqa: N802
    def addSystemEventTrigger(  # noqa: N802
        self, phase: str, event: str, call: Callable[[], object], /
    ) -> object: ...


class ReactorSockets(ReactorTime, Protocol):
    """Twisted's ``IReactorFDSet``."""

    def addReader(self, reader: ReadDescriptor, /) -> None: ...  # noqa: N802
    def addWriter(self, writer: WriteDescriptor, /) -> None: ...  # noqa: N802
    def removeReader(self, reader: ReadDescriptor, /) -> None: ...  # noqa: N802
    def removeWriter(self, writer: WriteDescriptor, /) -> None: ...  # noqa: N802


class ReactorNames(Protocol):
    """Of Twisted's ``IReactorCore``."""

    def resolve(self, name: str, /) -> Awaitable[str]: ...


class Reactor(ReactorSockets, ReactorThreads, Protocol):
    """What a broker uses of Twisted's reactor. The simulation has a reactor of its own."""


class ReactorTimer:
    """A call that the reactor will make."""

    __slots__ = ("_call",)

    def __init__(self, call: DelayedCall) -> None:
        self._call = call

    def cancel(self) -> None:
        """Cancel the call; no error if it was made or cancelled already."""
        try:
            self._call.cancel()
        except (error.AlreadyCalled, error.AlreadyCancelled):
            pass


class ReactorClock:
    """A :class:`kafkalite.common.clock.Clock` on Twisted's reactor."""

    def __init__(self, reactor: ReactorTime) -> None:
        self._reactor = reactor

    monotonic = staticmethod(time.monotonic)
    """Seconds since an arbitrary point. No wrapper around it, because every event of a connection reads the time."""

    def time_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> Timer:
        """Make ``call(*args)`` after ``delay`` seconds; a failure is logged."""
        return ReactorTimer(self._reactor.callLater(max(0.0, delay), call, *args))


class _LowPriorityThread(threading.Thread):
    """Leaves its core to the reactor, which would else wait for 3 to 6 ms whenever a thread computes there.

    Only on Linux, where each thread has a niceness of its own. With a greater one a thread that holds Python's lock
    would keep the reactor waiting on a busy machine.
    """

    def run(self) -> None:
        if sys.platform == "linux":
            # A sandbox that forbids the call must not cost the thread.
            with contextlib.suppress(OSError):
                niceness = os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
        super().run()


class _LowPriorityThreadPool(ThreadPool):
    threadFactory = _LowPriorityThread  # noqa: N815 - Twisted's name


class ThreadExecutor:
    """A :class:`kafkalite.common.tasks.Executor`: at most ``size`` threads, started when first needed.

    ``computes``: the threads compute rather than wait, and have a lower priority than the reactor.
    """

    def __init__(
        self, reactor: ReactorThreads, size: int = 4, name: str = "blocking", *, computes: bool = False
    ) -> None:
        self._reactor = reactor
        self._pool = _LowPriorityThreadPool(0, size, name) if computes else ThreadPool(0, size, name)
        self._closed = False

    def run(self, call: Callable[..., T], *args: object) -> Awaitable[T]:
        """Make ``call(*args)`` in a thread; the outcome comes back on the reactor. Fails once closed."""
        if self._closed:
            return defer.fail(RuntimeError("the threads have ended"))
        if not self._pool.started:
            self._pool.start()
            # The process does not end while a thread of the pool runs.
            self._reactor.addSystemEventTrigger("after", "shutdown", self.close)
        reactor = cast("IReactorFromThreads", self._reactor)
        return cast("Awaitable[T]", deferToThreadPool(reactor, self._pool, call, *args))

    def resize(self, size: int) -> None:
        """At most ``size`` threads from now on."""
        self._pool.adjustPoolsize(0, size)

    def close(self) -> None:
        """Wait for the running calls, then end the threads."""
        if not self._closed:
            self._closed = True
            if self._pool.started:
                self._pool.stop()
