"""Where the threads of a load note what they do and see: one list of events, in the order in which it became known."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from pathlib import Path

from kafkalite.testing.history.events import Event, RecordId

SIZE = 64


class Recorder:
    """The events so far, and a few numbers that tell how it goes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.acknowledged = 0
        self.refused: Counter[str] = Counter()
        """``broker partition error`` → how often that broker refused a record that was sent to it directly."""
        self.failure = ""
        """What one of the threads died of."""
        self._lock = threading.Lock()

    def note(self, *events: Event) -> None:
        """What is announced, before it is done; what is reported, afterwards."""
        self.events.extend(events)

    def acked(self, event: Event) -> None:
        """A record was acknowledged."""
        with self._lock:
            self.events.append(event)
            self.acknowledged += 1

    def refuse(self, broker: int, partition: str, error: str) -> None:
        """A broker would not take a record."""
        with self._lock:
            self.refused[f"{broker} {partition} {error}"] += 1

    def save(self, path: Path) -> None:
        """For another process; it is there at once and in full."""
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(pickle.dumps(self.events))
        unfinished.rename(path)


def load(path: Path) -> list[Event]:
    """What :meth:`Recorder.save` has written."""
    events: list[Event] = pickle.loads(path.read_bytes())
    return events


def encode(record: RecordId) -> bytes:
    """The value of a record, from which :func:`decode` knows it again."""
    return f"{record.producer}|{record.number}|".encode().ljust(SIZE, b".")


def decode(value: bytes | None) -> RecordId | None:
    """Whose record this is; ``None`` for one that nobody sent."""
    parts = (value or b"").split(b"|")
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    return RecordId(parts[0].decode(errors="replace"), int(parts[1]))
