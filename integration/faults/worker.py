"""Base of a workload's threads: their shared history, and their start, failure and end."""

from __future__ import annotations

import threading
import time

from integration.faults.history import EpochTrail, History, Identity

FLUSH_TIMEOUT = 120.0


class Record:
    """The history of the clients and of the epochs, with the lock that protects both."""

    def __init__(self, producers: int, partitions: int) -> None:
        self.lock = threading.Lock()
        self.history = History(producers, partitions)
        self.epochs = EpochTrail()
        self.last_ack = time.monotonic()
        self.longest_gap = 0.0
        """The longest time in seconds between two acknowledgements of any producers since :meth:`begin_gap`."""

    def acknowledged(self, identity: Identity, offset: int | None) -> None:
        """Add a delivery report."""
        now = time.monotonic()
        with self.lock:
            self.history.acked(identity, offset)
            self.longest_gap = max(self.longest_gap, now - self.last_ack)
            self.last_ack = now

    def begin_gap(self) -> None:
        """Measure gaps from now on."""
        with self.lock:
            self.last_ack, self.longest_gap = time.monotonic(), 0.0


class Worker(threading.Thread):
    """A thread that repeats :meth:`step` until it is stopped, and keeps the exception that ended it."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """Repeat :meth:`step`, then :meth:`finish`."""
        try:
            while not self._stopping.is_set():
                self.step()
        except BaseException as error:
            self.failure = error
        finally:
            self.finish()

    def step(self) -> None:
        """A little work."""
        raise NotImplementedError

    def finish(self) -> None:
        """Clean up, on the thread."""

    def stop(self) -> None:
        """End the thread; raises the exception that ended it earlier."""
        self._stopping.set()
        self.join(FLUSH_TIMEOUT)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.failure is not None:
            raise self.failure
