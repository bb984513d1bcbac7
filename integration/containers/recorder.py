"""The history of a load: one list of events of all its threads, in the order in which they were recorded."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from pathlib import Path

from kafkalite.testing.history.events import Event, RecordId

SIZE = 64


class Recorder:
    """The events so far, and a few numbers about the progress."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.acknowledged = 0
        self.refused: Counter[str] = Counter()
        """``broker partition error`` → how often that broker refused a probe's record."""
        self.failure = ""
        """The error that ended one of the threads; empty if there is none."""
        self._lock = threading.Lock()

    def note(self, *events: Event) -> None:
        """Record events: an attempt before it is made, a result after it is known."""
        self.events.extend(events)

    def acked(self, event: Event) -> None:
        """A record was acknowledged."""
        with self._lock:
            self.events.append(event)
            self.acknowledged += 1

    def refuse(self, broker: int, partition: str, error: str) -> None:
        """A broker refused a record."""
        with self._lock:
            self.refused[f"{broker} {partition} {error}"] += 1

    def save(self, path: Path) -> None:
        """Write the events for another process, which sees the whole file or none."""
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(pickle.dumps(self.events))
        unfinished.rename(path)


def load(path: Path) -> list[Event]:
    """The events that :meth:`Recorder.save` has written."""
    events: list[Event] = pickle.loads(path.read_bytes())
    return events


def encode(record: RecordId) -> bytes:
    """The value of a record with this id, for :func:`decode`."""
    return f"{record.producer}|{record.number}|".encode().ljust(SIZE, b".")


def decode(value: bytes | None) -> RecordId | None:
    """The id of the record with this value; ``None`` if no client of the load sent the value."""
    parts = (value or b"").split(b"|")
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    return RecordId(parts[0].decode(errors="replace"), int(parts[1]))
