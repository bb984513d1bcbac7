"""Rounds of compaction without a process: a pool whose workers work when they are told to."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from kafkalite.common.errors import ApiError
from kafkalite.log.cleaner.cleaner import Cleaner, RoundAborted, remove_cleaned
from kafkalite.log.cleaner.job import (
    Abort,
    Cleaned,
    CleanerLimits,
    CleaningAborted,
    CleaningFailed,
    CleanJob,
    Order,
    Report,
    decode,
    encode,
)
from kafkalite.log.cleaner.log_cleaner_manager import log_to_clean, make_job
from kafkalite.log.file_system import FileSystem
from kafkalite.log.log import Log
from kafkalite.record.batch import CorruptRecordError, iter_headers
from kafkalite.record.records import Record, encode_batch, iter_records
from tests.log.fixtures import NOW, read_all

Update = tuple[str, "str | None"]


class QuickFileSystem(FileSystem):
    """Forces nothing to the disk."""

    def fsync(self, fd: int) -> None:
        pass


class StepPool:
    """A :class:`kafkalite.log.cleaner.job.CleanerPool` of :class:`StepWorker`."""

    def __init__(self, fs: FileSystem | None = None) -> None:
        self.fs = fs or QuickFileSystem()
        self.workers: list[StepWorker] = []

    def start(self, number: int, report: Callable[[Report], None], ended: Callable[[str], None]) -> StepWorker:
        worker = StepWorker(self.fs, number, report, ended)
        self.workers.append(worker)
        return worker

    @property
    def alive(self) -> list[StepWorker]:
        """Those that were not closed."""
        return [worker for worker in self.workers if not worker.closed]

    def work(self) -> None:
        """Carry out all orders, also those that come meanwhile."""
        while any(worker.orders for worker in self.alive):
            for worker in self.alive:
                worker.work()


class StepWorker:
    """Keeps its orders until :meth:`work`; both ways, everything goes through its form on the wire."""

    def __init__(
        self, fs: FileSystem, number: int, report: Callable[[Report], None], ended: Callable[[str], None]
    ) -> None:
        self.fs = fs
        self.number = number
        self.orders: list[Order] = []
        self.closed = False
        self.die = ended
        self._report = report
        self._folder = ""

    def send(self, order: Order) -> None:
        sent = decode(encode(order))
        assert isinstance(sent, CleanJob | Abort)
        assert sent == order
        self.orders.append(sent)

    def close(self) -> None:
        self.closed = True

    def tell(self, report: Report) -> None:
        sent = decode(encode(report))
        assert not isinstance(sent, CleanJob | Abort)
        assert sent == report
        self._report(sent)

    def _check(self) -> None:
        if any(isinstance(order, Abort) for order in self.orders):
            self.orders = [order for order in self.orders if not isinstance(order, Abort)]
            raise RoundAborted

    def work(self) -> None:
        """Carry out the next order, where there is one."""
        if not self.orders:
            return
        order = self.orders.pop(0)
        if isinstance(order, Abort):
            remove_cleaned(self.fs, self._folder)
            self.tell(CleaningAborted(order.number))
            return
        self._folder = order.folder
        try:
            self.tell(Cleaner(self.fs, self._check, lambda: 0.0, _rest).clean(order, self.tell))
        except RoundAborted:
            remove_cleaned(self.fs, self._folder)
            self.tell(CleaningAborted(order.number))
        except OSError as error:
            self.tell(CleaningFailed(order.number, str(error), error.errno or 0))
        except (CorruptRecordError, ApiError) as error:
            self.tell(CleaningFailed(order.number, str(error)))


def _rest(_seconds: float) -> None:
    raise AssertionError("nothing is to be waited for")


def updates(*pairs: Update, timestamp: int = NOW, codec: int = 0) -> memoryview:
    """One batch of keys and values."""
    records = [
        Record(n, timestamp + n, key.encode(), None if value is None else value.encode())
        for n, (key, value) in enumerate(pairs)
    ]
    return memoryview(bytearray(encode_batch(records, codec=codec)))


def contents(log: Log) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of every record that a reader of ``log`` gets, from its start to its end."""
    found = []
    data = read_all(log)
    for position, header in iter_headers(data):
        if not header.is_control:
            for record in iter_records(data, header, position):
                assert record.key is not None
                value = None if record.value is None else record.value.decode()
                found.append((record.offset, record.key.decode(), value))
    return found


def table(found: Sequence[tuple[int, str, str | None]]) -> dict[str, str]:
    """What the records amount to: the last value of every key that has one."""
    last = {key: value for _, key, value in found}
    return {key: value for key, value in last.items() if value is not None}


def limits(
    dedupe_buffer_size: int = 128 << 20,
    load_factor: float = 0.9,
    io_buffer_size: int = 512 << 10,
    max_bytes_per_second: float = float("inf"),
) -> CleanerLimits:
    """What one worker may take."""
    return CleanerLimits(dedupe_buffer_size, load_factor, io_buffer_size, max_bytes_per_second)


_LIMITS = limits()


def clean(
    log: Log,
    checkpoint: int = 0,
    *,
    now_ms: int = NOW,
    config: CleanerLimits = _LIMITS,
    fs: FileSystem | None = None,
) -> int:
    """One round, swapped in; returns up to where the log is clean."""
    job = make_job(log_to_clean(log, checkpoint, now_ms)[0], 1, now_ms, config)

    def swap(cleaned: Cleaned) -> None:
        log.replace_segments(cleaned.base_offset, cleaned.size, cleaned.files, cleaned.replaces)

    return Cleaner(fs or QuickFileSystem(), lambda: None, lambda: 0.0, _rest).clean(job, swap).end_offset


def random_updates(rng: random.Random, count: int, keys: int) -> list[Update]:
    """Updates and, now and then, a tombstone."""
    return [
        (f"key-{rng.randrange(keys)}", None if rng.random() < 0.1 else f"value-{n}" * rng.randrange(1, 5))
        for n in range(count)
    ]
