"""A simulated process's threads and helpers: executor, guardian, watchdog, compactors. Deterministic.

Answers to: :mod:`kafkalite.network.reactor`, :mod:`kafkalite.broker.guardian`, :mod:`kafkalite.broker.watchdog` and
:mod:`kafkalite.broker.cleaner`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kafkalite.common.errors import ApiError
from kafkalite.common.tasks import Future
from kafkalite.log.cleaner.cleaner import Cleaner, RoundAborted, discard_cleaned
from kafkalite.log.cleaner.job import Abort, Cleaned, CleaningAborted, CleaningFailed, CleanJob, Order, Report
from kafkalite.log.file_system import FileSystem
from kafkalite.record.batch import CorruptRecordError
from kafkalite.testing.simulation.world import Life, ScheduledCall

T = TypeVar("T")

_WORK = (0.0002, 0.01)
"""Seconds until a thread has completed its work."""
_BACK = (0.00001, 0.0005)
"""Seconds from the completion until the reactor gets the outcome."""
_ROUND = (0.005, 0.1)
"""Seconds until a compactor starts a job, and between two of its reports."""
GUARDED = (0.005, 0.02)
"""Seconds from a process's death until its guardian has closed the session."""


class SimExecutor:
    """A :class:`kafkalite.broker.edges.WorkPool` that does the work at one moment and reports its outcome later.

    ``slowness``: virtual seconds by which a slow disk may delay the outcome.
    """

    def __init__(self, life: Life, slowness: Callable[[], float] = lambda: 0.0) -> None:
        self._life = life
        self._slowness = slowness
        self._rng = life.world.rng(f"threads {life.name}")

    def run(self, call: Callable[..., T], *args: object) -> Awaitable[T]:
        """Call ``call(*args)`` soon, unless the process dies before."""
        future: Future[T] = Future()
        self._life.threads.call_later(self._rng.uniform(*_WORK), self._work, future, call, args)
        return future

    def _work(self, future: Future[T], call: Callable[..., T], args: tuple[object, ...]) -> None:
        slowness = self._slowness()
        back = self._rng.uniform(*_BACK) + (self._rng.uniform(0, slowness) if slowness else 0)
        try:
            result = call(*args)
        except Exception as error:
            self._life.call_later(back, future.errback, error)
        else:
            self._life.call_later(back, future.callback, result)

    def resize(self, size: int) -> None:
        """Does nothing, because the number of threads is unlimited."""

    def close(self) -> None:
        """Does nothing, because there are no threads."""


class SimGuardian:
    """Ends the session soon after the process was killed, but not after a power loss, which ends the guardian, too."""

    def __init__(self, life: Life, expire: Callable[[int], object]) -> None:
        self._life = life
        self._expire = expire
        self._rng = life.world.rng(f"guardian {life.name}")
        self._session = 0
        life.at_death.append(self._process_died)

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:  # noqa: ARG002
        """Guard this session."""
        self._session = session

    def release(self) -> None:
        """Stop guarding."""
        self._session = 0

    @property
    def is_running(self) -> bool:
        """Whether a session is guarded."""
        return bool(self._session)

    def _process_died(self) -> None:
        if self._session:
            self._life.world.call_later(self._rng.uniform(*GUARDED), self._expire, self._session)


class SimWatchdog:
    """Ends the session once the reactor has hung (since :meth:`hung`) for longer than the session timeout.

    A pause of the whole process (:meth:`Life.pause`) stops its watchdog, too.
    """

    def __init__(self, life: Life, expire: Callable[[int], object]) -> None:
        self._life = life
        self._expire = expire
        self._session = 0
        self._timeout = 0.0
        self.hangs = 0
        self._timer: ScheduledCall | None = None

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:  # noqa: ARG002
        """Watch for this session."""
        self._session = session
        self._timeout = timeout_ms / 1000

    def stop(self) -> None:
        """Stop watching."""
        self._session = 0
        self.back()

    def hung(self) -> None:
        """The reactor begins to hang."""
        if self._session and self._timer is None:
            self._timer = self._life.threads.call_later(self._timeout, self._give_up, self._session)

    def _give_up(self, session: int) -> None:
        self.hangs += 1
        self._expire(session)

    def back(self) -> None:
        """The reactor runs again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Killed(BaseException):
    """The compactor ends in the middle of a job."""


class SimCleaners:
    """A :class:`kafkalite.log.cleaner.job.CleanerPool` on the machine's own files."""

    def __init__(self, life: Life, fs: FileSystem) -> None:
        self._life = life
        self._fs = fs

    def start(self, number: int, report: Callable[[Report], None], ended: Callable[[str], None]) -> SimCleaner:  # noqa: ARG002
        """A new worker, which never ends by itself."""
        return SimCleaner(self._life, self._fs, report)


class SimCleaner:
    """One compactor. A job writes all its segments at one moment, and its reports come one after the other.

    If the process dies before the last report, only a part of the job's files is on the disk.
    """

    def __init__(self, life: Life, fs: FileSystem, report: Callable[[Report], None]) -> None:
        self._life = life
        self._fs = fs
        self._report = report
        self._rng: random.Random = life.world.rng(f"compactor {life.name}")
        self._jobs: list[CleanJob] = []
        self._timers: list[ScheduledCall] = []
        self._folder = ""
        self._rested = 0.0
        life.at_end.append(self._process_died)

    def send(self, order: Order) -> None:
        """Start a job, or abort the running one."""
        if isinstance(order, CleanJob):
            self._jobs.append(order)
            self._folder = order.folder
            self._plan(0.0, self._clean, order)
            return
        self._forget()
        self._plan(0.0, self._abort, order)

    def close(self) -> None:
        """End the compactor."""
        self._forget()
        self._report = lambda _: None

    def _forget(self) -> None:
        self._jobs.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _plan(self, after: float, call: Callable[..., object], *args: object) -> float:
        after += self._rng.uniform(*_ROUND)
        self._timers.append(self._life.call_later(after, call, *args))
        return after

    def _abort(self, order: Abort) -> None:
        discard_cleaned(self._fs, self._folder)
        self._report(CleaningAborted(order.number))

    def _clean(self, job: CleanJob) -> None:
        self._jobs.clear()
        self._timers.clear()
        self._rested = 0.0
        reports: list[tuple[float, Report]] = []

        def written(report: Cleaned) -> None:
            reports.append((self._rested, report))

        def rest(seconds: float) -> None:
            self._rested += seconds

        cleaner = Cleaner(self._fs, lambda: None, lambda: self._life.world.now + self._rested, rest)
        try:
            reports.append((self._rested, cleaner.clean(job, written)))
        except RoundAborted:
            return
        except OSError as error:
            reports.append((self._rested, CleaningFailed(job.number, str(error), error.errno or 0)))
        except (CorruptRecordError, ApiError) as error:
            reports.append((self._rested, CleaningFailed(job.number, str(error))))
        after = 0.0
        for rested, report in reports:
            after = self._plan(max(after, rested), self._report, report)

    def _process_died(self) -> None:
        for job in self._jobs:
            left = self._rng.randrange(1, 8)

            def check() -> None:
                nonlocal left
                left -= 1
                if not left:
                    raise _Killed

            try:
                Cleaner(self._fs, check, lambda: 0.0, lambda _: None).clean(job, lambda _: None)
            except (_Killed, OSError, CorruptRecordError, ApiError):
                continue
