"""One round of compaction: orders to a worker and its reports, both also as lines of text, and what a worker is.

Answers to: ``org.apache.kafka.storage.internals.log.{LogToClean,CleanerStats,LastRecord}`` and the threads of
``kafka.log.LogCleaner``. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Protocol


class SegmentInfo(NamedTuple):
    """A segment as the compactor needs it; sizes in bytes."""

    base_offset: int
    size: int
    index_size: int
    time_index_size: int


class LastRecord(NamedTuple):
    """The last data offset of a producer (-1: its last record is a marker), and its epoch."""

    offset: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """A worker's share of the broker's ``log.cleaner.*``. Sizes in bytes, rates in bytes a second."""

    dedupe_buffer_size: int
    load_factor: float
    io_buffer_size: int
    max_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class CleanJob:
    """One round on one partition.

    ``segments``: everything below ``upper_bound`` (a segment's base offset), oldest first; keys are collected from
    ``first_dirty_offset`` on. ``txn_indexes``: base offsets of all segments that have a transaction index.
    ``last_records``: what is to stay of each producer that is still known. Offsets, bytes, milliseconds.
    """

    number: int
    folder: str
    segments: tuple[SegmentInfo, ...]
    first_dirty_offset: int
    upper_bound: int
    txn_indexes: tuple[int, ...]
    last_records: dict[int, LastRecord]
    now_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    cleaner: CleanerLimits


@dataclass(slots=True)
class CleanerStats:
    """What a round did."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    index_bytes_read: int = 0
    index_records_read: int = 0
    keys: int = 0
    seconds: float = 0.0
    index_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A segment is written, under ``.cleaned`` names and on the disk, that stands for the segments ``replaces``."""

    number: int
    base_offset: int
    size: int
    replaces: tuple[int, ...]
    files: tuple[str, ...]
    """Suffixes of the files that were written: ``.log``, ``.index``, …"""


@dataclass(frozen=True, slots=True)
class CleaningDone:
    """The round is over: everything below ``end_offset`` is clean."""

    number: int
    end_offset: int
    stats: CleanerStats = field(default_factory=CleanerStats)


@dataclass(frozen=True, slots=True)
class CleaningAborted:
    """The round was given up after :class:`Abort`."""

    number: int


@dataclass(frozen=True, slots=True)
class CleaningFailed:
    """The round failed. ``errno`` is that of the disk's error; 0: the partition's bytes cannot be compacted."""

    number: int
    why: str
    errno: int = 0


@dataclass(frozen=True, slots=True)
class Abort:
    """Give the round up."""

    number: int


Order = CleanJob | Abort
Report = Cleaned | CleaningDone | CleaningAborted | CleaningFailed
_KINDS: dict[str, type[Order] | type[Report]] = {
    kind.__name__: kind for kind in (CleanJob, Abort, Cleaned, CleaningDone, CleaningAborted, CleaningFailed)
}


def encode(message: Order | Report) -> bytes:
    """One line."""
    values = asdict(message)
    values["kind"] = type(message).__name__
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Order | Report:
    """The reverse of :func:`encode`. Raises ``ValueError`` for what is none."""
    try:
        values = json.loads(line)
        kind = _KINDS[values.pop("kind")]
        if kind is CleanJob:
            values["segments"] = tuple(SegmentInfo(*each) for each in values["segments"])
            values["txn_indexes"] = tuple(values["txn_indexes"])
            values["last_records"] = {int(pid): LastRecord(*last) for pid, last in values["last_records"].items()}
            values["cleaner"] = CleanerLimits(**values["cleaner"])
        elif kind is Cleaned:
            values["replaces"] = tuple(values["replaces"])
            values["files"] = tuple(values["files"])
        elif kind is CleaningDone:
            values["stats"] = CleanerStats(**values["stats"])
        message: Order | Report = kind(**values)
        return message
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{line[:80]!r} is no message of the compactor") from error


class CleanerWorker(Protocol):
    """One place where rounds run, one after the other, away from the reactor."""

    def send(self, order: Order) -> None:
        """Send an order. A worker that has died ignores it and calls ``ended``."""

    def close(self) -> None:
        """End the worker, also in the middle of a round. ``ended`` is not called any more."""


class CleanerPool(Protocol):
    """Where workers come from (``kafkalite.broker.cleaner``: child processes)."""

    def start(self, number: int, report: Callable[[Report], None], ended: Callable[[str], None]) -> CleanerWorker:
        """A new worker. ``report`` is called with each of its reports in order, ``ended`` with why it died."""
