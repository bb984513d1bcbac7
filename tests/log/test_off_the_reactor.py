"""What takes its time (recovery, fsync, checkpoints) is done by the executor, never in the caller's thread."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest.mock import patch

import pytest

from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import FileSystem
from kafkalite.log.log_manager import LogManager
from kafkalite.testing.clock import ManualClock

from .fixtures import NOW, batch, manager_config

T = TypeVar("T")
TP = TopicPartition("t", 0)


class Bench:
    """An executor whose one worker works when it is told to."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        self.is_working = False

    def run(self, call: Callable[..., T], *args: Any) -> Awaitable[T]:
        done: Future[T] = Future()

        def call_as_worker() -> T:
            self.is_working = True
            try:
                return call(*args)
            finally:
                self.is_working = False

        def work() -> None:
            try:
                result = call_as_worker()
            except Exception as error:
                done.errback(error)
            else:
                done.callback(result)

        self.waiting.append(work)
        return cast("Awaitable[T]", done)

    def work(self) -> int:
        """Do all that waits, and what that leads to; returns how much it was."""
        count = 0
        while self.waiting:
            self.waiting.popleft()()
            count += 1
        return count


class Watched(FileSystem):
    """Notes who calls ``fsync``."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench
        self.off = 0
        self.on = 0

    def fsync(self, fd: int) -> None:
        if self._bench.is_working:
            self.off += 1
        else:
            self.on += 1
        super().fsync(fd)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def fs(bench: Bench) -> Watched:
    return Watched(bench)


def manager(path: Path, fs: Watched, clock: ManualClock, bench: Bench, **values: Any) -> LogManager:
    made = LogManager(
        [str(path)], manager_config(values), fs, clock, bench, 1, "cluster", on_dir_failure=lambda _: None
    )
    starting = deferred(made.start())
    assert not bool(starting.called), "logs are loaded, and recovered, elsewhere"
    bench.work()
    assert bool(starting.called)
    return made


# trap: kafkalite/log/log_manager.py: Recovery holds up the reactor: it runs in threads.
def test_recovery(tmp_path: Path, fs: Watched, bench: Bench) -> None:
    clock = ManualClock()
    first = manager(tmp_path, fs, clock, bench)
    first.get_or_create(TP, None, True).append_as_leader(batch(3), 0, NOW)
    first.logs[TP].mark_broken()
    first._release_dirs()
    again = manager(tmp_path, fs, clock, bench)
    assert again.logs[TP].log_end_offset == 3


# trap: kafkalite/log/background_work.py: fsync and checkpoints hold up the reactor: they run in threads, except with
# `flush.messages=1`.
def test_flushing_and_checkpoints(tmp_path: Path, fs: Watched, bench: Bench) -> None:
    clock = ManualClock()
    made = manager(
        tmp_path,
        fs,
        clock,
        bench,
        **{"log.flush.interval.messages": 2, "log.flush.offset.checkpoint.interval.ms": 1000},
    )
    log = made.get_or_create(TP, None, True)
    fs.on = 0
    for _ in range(4):
        log.append_as_leader(batch(1), 0, NOW)
    assert bench.waiting and not fs.on
    bench.work()
    assert log.recovery_point >= 2
    clock.advance(1.5)
    assert not (tmp_path / "recovery-point-offset-checkpoint").exists()
    bench.work()
    assert (tmp_path / "recovery-point-offset-checkpoint").exists()
    assert fs.off and not fs.on


def test_flushing_to_the_end(tmp_path: Path, fs: Watched, bench: Bench) -> None:
    """All that was there at the call is synced, in one step, though records are appended meanwhile."""
    made = manager(tmp_path, fs, ManualClock(), bench)
    log = made.get_or_create(TP, None, True)
    log.append_as_leader(batch(3), 0, NOW)
    fs.on = 0
    flushing = deferred(made.flush_to_end(log))
    log.append_as_leader(batch(1), 0, NOW)
    assert not bool(flushing.called)
    bench.waiting.popleft()()
    assert flushing.result is True
    assert (log.recovery_point, log.log_end_offset) == (3, 4)
    assert fs.off and not fs.on


def test_flushing_to_the_end_of_a_log_whose_disk_fails(tmp_path: Path, fs: Watched, bench: Bench) -> None:
    clock = ManualClock()
    made = manager(tmp_path, fs, clock, bench)
    log = made.get_or_create(TP, None, True)
    log.append_as_leader(batch(3), 0, NOW)
    with patch.object(fs, "fsync", side_effect=OSError(errno.EIO, "Input/output error")):
        flushing = deferred(made.flush_to_end(log))
        bench.work()
    assert flushing.result is False
    clock.advance(0.1)
    assert made.offline_dirs == {str(tmp_path)}
