"""Gives the ZooKeeper session up while the reactor hangs.

Answers to: nothing in Kafka. Reactor shell, beside a thread of its own.

kazoo sends pings from its own thread, so a broker whose reactor hangs would keep its session and its leaderships for
ever. After the session timeout the watchdog ends the session from outside; a reactor that runs again finds a new one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kafkalite.broker.guardian_process import close_session
from kafkalite.common.clock import Clock, Timer

log = logging.getLogger(__name__)
_BEATS = 8
"""Heartbeats, and checks of them, in one session timeout."""
_PAUSE = 0.05
"""Seconds between two attempts to end a session."""


class HangDetector:
    """Decides whether the reactor hangs, by checks of a counter that the reactor increments. Pure.

    Time without checks does not count, because then the whole process was stopped or suspended, not only the reactor.
    """

    def __init__(self, timeout: float, now: float, beats: int = 0) -> None:
        self._timeout = timeout
        self._limit = 3 * timeout / _BEATS
        self._looked = now
        self._beats = beats
        self._silent = 0.0
        self._fired = False

    def look(self, now: float, beats: int) -> bool:
        """Whether to give the session up now; true once in each hang."""
        passed = min(now - self._looked, self._limit)
        self._looked = now
        if beats != self._beats:
            self._beats, self._silent, self._fired = beats, 0.0, False
            return False
        self._silent += passed
        if self._silent < self._timeout or self._fired:
            return False
        self._fired = True
        return True


class Watchdog:
    """Watches the reactor that ``clock`` belongs to. Call :meth:`watch` in each new session.

    ``give_up(hosts, session, password, timeout_ms)`` ends a session, in the watchdog's thread. While it returns
    ``False`` and the reactor hangs, it is called again.
    """

    def __init__(
        self, hosts: str, clock: Clock, give_up: Callable[[str, int, bytes, int], bool] = close_session
    ) -> None:
        self._hosts = hosts
        self._clock = clock
        self._give_up = give_up
        self._session: tuple[int, bytes, int] | None = None
        self._beats = 0
        self.hangs = 0
        """How often the reactor hung for so long that the session was given up."""
        self._timer: Timer | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:
        """From now on, give this session up if the reactor hangs longer than ``timeout_ms``."""
        self._session = (session, password, timeout_ms)
        self._beat()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join(1.0)

    def _interval(self) -> float:
        return self._session[2] / 1000 / _BEATS if self._session else 1.0

    def _beat(self) -> None:
        self._beats += 1
        if self._timer is not None:
            self._timer.cancel()
        if not self._stop.is_set():
            self._timer = self._clock.call_later(self._interval(), self._beat)

    def _run(self) -> None:
        timeout_ms = 0
        detector = HangDetector(0, 0)
        while not self._stop.wait(self._interval()):
            session = self._session
            if session is None:
                continue
            if session[2] != timeout_ms:
                timeout_ms = session[2]
                detector = HangDetector(timeout_ms / 1000, time.monotonic(), self._beats)
            if detector.look(time.monotonic(), self._beats):
                log.error("the reactor hangs for more than %d ms: giving the ZooKeeper session up", timeout_ms)
                self.hangs += 1
                beats = self._beats
                # kazoo's thread may have taken the session back. A reactor that runs again keeps it.
                while not self._give_up(self._hosts, *session) and beats == self._beats:
                    if self._stop.wait(_PAUSE):
                        return
