"""Logs in a temporary folder, batches by the line, and a file system that fails on demand."""

from __future__ import annotations

import errno
import os
import random
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import FilePool, FileSystem
from kafkalite.log.log import Log, LogServices
from kafkalite.log.log_config import LogConfig, LogManagerConfig, log_manager_config
from kafkalite.log.log_loader import LogLoader
from kafkalite.record.batch import iter_headers
from kafkalite.record.records import Record, encode_batch
from kafkalite.testing.clock import ManualClock

TP = TopicPartition("flights", 0)
PRODUCER_EXPIRATION_MS = 86_400_000


def manager_config(values: Mapping[str, Any] = MappingProxyType({})) -> LogManagerConfig:
    """Kafka's defaults, and ``values`` by broker key."""
    return log_manager_config({**BROKER_CONFIGS.defaults(), **values})


class InlineOwner:
    """The owner of a log without a manager: it flushes and deletes at once. ``failures``: failed directories."""

    def __init__(self, fs: FileSystem, failures: list[str] | None = None) -> None:
        self._fs = fs
        self._failures = [] if failures is None else failures

    def directory_failed(self, log_dir: str, error: OSError) -> None:  # noqa: ARG002
        self._failures.append(log_dir)

    def flush_later(self, log: Log) -> None:
        log.flush(log.segments.active.base_offset)

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:  # noqa: ARG002
        for path in paths:
            self._fs.remove(path)

    def before_truncation(self, log: Log, first: int, end: int) -> None:
        """There are no checkpoints."""


class LazyOwner(InlineOwner):
    """Flushes nothing unless a test does."""

    def flush_later(self, log: Log) -> None:
        """Not now."""


class FaultyFileSystem(FileSystem):
    """The real file system, until ``fail`` names a method: its calls then raise, a write after ``torn`` bytes."""

    def __init__(self) -> None:
        self.fail: dict[str, int] = {}
        self.only = ""
        self.torn = 0
        self.synced: list[int] = []
        self._paths: dict[int, str] = {}

    def _check(self, method: str, path: str = "") -> None:
        number = self.fail.get(method)
        if number is not None and self.only in path:
            raise OSError(number, os.strerror(number))

    def open(self, path: str, create: bool = False) -> int:
        self._check("open", path)
        fd = super().open(path, create)
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        # The number is soon another file's, and not all of them are opened here.
        self._paths.pop(fd, None)
        super().close(fd)

    def pwrite(self, fd: int, data: Any, position: int) -> None:
        path = self._paths.get(fd, "")
        if "pwrite" in self.fail and self.only in path:
            os.pwrite(fd, memoryview(data)[: self.torn], position)
        self._check("pwrite", path)
        super().pwrite(fd, data, position)

    def pread(self, fd: int, count: int, position: int) -> bytes:
        self._check("pread", self._paths.get(fd, ""))
        return super().pread(fd, count, position)

    def truncate(self, fd: int, size: int) -> None:
        self._check("truncate", self._paths.get(fd, ""))
        super().truncate(fd, size)

    def fsync(self, fd: int) -> None:
        self._check("fsync", self._paths.get(fd, ""))
        self.synced.append(fd)
        super().fsync(fd)

    def write_file(self, path: str, data: bytes, sync: bool = True) -> None:
        self._check("write_file", path)
        super().write_file(path, data, sync)

    def make_dir(self, path: str) -> None:
        self._check("make_dir", path)
        super().make_dir(path)

    def list_dir(self, path: str) -> list[str]:
        self._check("list_dir", path)
        return super().list_dir(path)


FULL = errno.ENOSPC
BROKEN = errno.EIO


class LogFixture:
    """One log in ``root/flights-0`` with everything around it."""

    def __init__(self, root: str, **settings: Any) -> None:
        self.root = root
        self.path = f"{root}/flights-0"
        self.clock = ManualClock()
        self.fs = FaultyFileSystem()
        self.config = LogConfig(**settings)
        self.failures: list[str] = []
        self.pool_limit = 64

    def loader(self) -> LogLoader:
        services = LogServices(self.fs, self.clock, PRODUCER_EXPIRATION_MS, FilePool(self.pool_limit), random.Random(1))
        return LogLoader(TP, self.path, self.root, self.config, services, InlineOwner(self.fs, self.failures))

    def create(self) -> Log:
        os.mkdir(self.path)
        return self.loader().create()

    def load(self, clean: bool = False, recovery_point: int = 0, start: int = 0) -> Log:
        return self.loader().load(clean, recovery_point, start)

    def names(self, suffix: str = "") -> list[str]:
        return sorted(name for name in os.listdir(self.path) if name.endswith(suffix))


NOW = ManualClock().time_ms()


def batch(
    count: int = 1,
    *,
    base: int = 0,
    size: int = 10,
    timestamp: int = NOW,
    pid: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    leader_epoch: int = 0,
    transactional: bool = False,
) -> memoryview:
    """A batch of ``count`` records, writable as the network hands them in."""
    records = [Record(base + n, timestamp, b"k%d" % n, b"v" * size) for n in range(count)]
    return memoryview(
        bytearray(
            encode_batch(
                records,
                base_offset=base,
                producer_id=pid,
                producer_epoch=epoch if pid >= 0 else -1,
                base_sequence=sequence,
                leader_epoch=leader_epoch,
                is_transactional=transactional,
            )
        )
    )


def marker(pid: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, base: int = 0) -> memoryview:
    """The control batch that ends a transaction."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch)
    return memoryview(
        bytearray(
            encode_batch(
                [Record(base, NOW, key, value)],
                base_offset=base,
                producer_id=pid,
                producer_epoch=epoch,
                is_transactional=True,
                is_control=True,
                leader_epoch=0,
            )
        )
    )


def fill(log: Log, batches: Sequence[memoryview], leader_epoch: int = 0) -> None:
    """Append each as a leader; everything is then below the high watermark."""
    for one in batches:
        log.append_as_leader(one, leader_epoch, NOW)
    log.update_high_watermark(log.log_end_offset)


def read_all(log: Log, start: int | None = None, max_bytes: int = 1 << 20) -> bytes:
    """Everything from ``start`` (default: log start) to the end, fetch by fetch."""
    data = bytearray()
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        info = log.read(offset, max_bytes, log.log_end_offset, True)
        assert info.records is not None
        chunk = info.records.read()
        for position, header in iter_headers(chunk, allow_partial_tail=True):
            data += chunk[position : position + header.size]
            offset = header.next_offset
    return bytes(data)
