"""What the threads of a workload share: the record of all that they learn, and how they begin, fail and end."""

from __future__ import annotations

import threading
import time

from integration.faults.history import EpochTrail, History, Identity

FLUSH_TIMEOUT = 120.0


class Record:
    """What is known so far: the history of the clients and the epochs, with the lock under which to touch them."""

    def __init__(self, producers: int, partitions: int) -> None:
        self.lock = threading.Lock()
        self.history = History(producers, partitions)
        self.epochs = EpochTrail()
        self.last_ack = time.monotonic()
        self.longest_gap = 0.0
        """Seconds between two acknowledgements, of any producers, since it was last set to 0."""

    def acknowledged(self, identity: Identity, offset: int | None) -> None:
        """One delivery report."""
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
    """A thread that does one step after the other until it is stopped, and remembers what it died of."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """The thread."""
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
        """The end, on the thread."""

    def stop(self) -> None:
        """End it; raises what it died of."""
        self._stopping.set()
        self.join(FLUSH_TIMEOUT)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.failure is not None:
            raise self.failure
