"""The compactor's process: what it is told, what it says, and when it ends. No process here, only pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import error
from twisted.python.failure import Failure

from kafkalite.broker.cleaner import CleanerProcess, CleanerProcesses
from kafkalite.broker.cleaner_process import Orders, work
from kafkalite.log.cleaner.cleaner import RoundAborted
from kafkalite.log.cleaner.job import (
    Abort,
    Cleaned,
    CleanerConfig,
    CleaningAborted,
    CleaningDone,
    CleaningFailed,
    CleanJob,
    Order,
    Report,
    SegmentInfo,
    decode,
    encode,
)
from kafkalite.record.records import Record, encode_batch


class Ending(Orders):
    """Orders that end once all that were sent are carried out."""

    def next(self) -> Order:
        if not self._lines and not self._poll.poll(0):
            raise SystemExit
        return super().next()


class Pipes:
    """Both pipes of a compactor."""

    def __init__(self) -> None:
        self.inside, self.to = os.pipe()
        self.back, self.out = os.pipe()
        self.orders = Ending(self.inside)

    def send(self, data: bytes) -> None:
        os.write(self.to, data)

    def hang_up(self) -> None:
        if self.to >= 0:
            os.close(self.to)
            self.to = -1

    def work(self) -> list[Report]:
        """Everything that was ordered; returns what was reported."""
        with pytest.raises(SystemExit):
            work(self.orders, self.out)
        reports = []
        for line in os.read(self.back, 1 << 16).splitlines():
            report = decode(line)
            assert not isinstance(report, CleanJob | Abort)
            reports.append(report)
        return reports

    def close(self) -> None:
        self.hang_up()
        for fd in (self.inside, self.back, self.out):
            os.close(fd)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    both = Pipes()
    yield both
    both.close()


def job(folder: Path, number: int = 1, size: int | None = None) -> CleanJob:
    """A round over two segments with one record each, both of the same key."""
    sizes = []
    for base in (0, 1):
        data = encode_batch([Record(base, 5, b"k", b"v%d" % base)], leader_epoch=0)
        (folder / f"{base:020d}.log").write_bytes(data)
        sizes.append(len(data) if size is None else size)
    segments = (SegmentInfo(0, sizes[0], 0, 0), SegmentInfo(1, sizes[1], 0, 0))
    return CleanJob(number, str(folder), segments, 0, 2, (), {}, 9, 1000, 1000, 100, 5, CleanerConfig())


# -- the process


def test_a_round(tmp_path: Path, pipes: Pipes) -> None:
    pipes.send(encode(job(tmp_path)))
    cleaned, done = pipes.work()
    assert isinstance(cleaned, Cleaned)
    assert cleaned.replaces == (0, 1)
    assert isinstance(done, CleaningDone)
    assert (done.number, done.end_offset, done.stats.records_read, done.stats.records_written) == (1, 2, 2, 1)
    assert {path.name for path in tmp_path.glob("*.cleaned")} == {
        f"00000000000000000000{suffix}.cleaned" for suffix in cleaned.files
    }


def test_an_order_to_give_up_that_came_with_the_round(tmp_path: Path, pipes: Pipes) -> None:
    pipes.send(encode(job(tmp_path)) + encode(Abort(1)) + encode(job(tmp_path, 2)))
    assert [type(report) for report in pipes.work()] == [CleaningAborted, Cleaned, CleaningDone]


def test_an_order_to_give_up_that_comes_too_late(tmp_path: Path, pipes: Pipes) -> None:
    pipes.send(encode(job(tmp_path)))
    orders = pipes.orders
    assert orders.next() == job(tmp_path)
    pipes.send(encode(job(tmp_path)) + encode(Abort(3)))
    assert pipes.work()[-1] == CleaningAborted(3)
    assert not list(tmp_path.glob("*.cleaned"))


@pytest.mark.parametrize(("size", "errno"), [(None, 2), (10, 0)])
def test_failures_are_told_and_leave_nothing(tmp_path: Path, pipes: Pipes, size: int | None, errno: int) -> None:
    order = job(tmp_path, size=size)
    if errno:
        (tmp_path / "00000000000000000001.log").unlink()
    pipes.send(encode(order))
    (failed,) = pipes.work()
    assert isinstance(failed, CleaningFailed)
    assert (failed.number, failed.errno) == (1, errno)
    assert not list(tmp_path.glob("*.cleaned"))


# trap: kafkalite/broker/cleaner_process.py: The cleaner process outlives its broker.
def test_it_ends_with_its_broker_in_the_middle_of_a_round(pipes: Pipes) -> None:
    pipes.orders.check()
    pipes.hang_up()
    with pytest.raises(SystemExit):
        pipes.orders.check()


def test_a_rest_ends_with_an_order(pipes: Pipes) -> None:
    pipes.orders.current = 4
    pipes.send(encode(Abort(3)) + encode(Abort(4)))
    with pytest.raises(RoundAborted):
        pipes.orders.rest(60)
    assert pipes.orders.next() == Abort(3)


def test_orders_arrive_in_pieces(pipes: Pipes) -> None:
    for byte in encode(Abort(7)):
        pipes.send(bytes((byte,)))
        pipes.orders.check()
    assert pipes.orders.next() == Abort(7)


# trap: kafkalite/broker/cleaner_process.py: Compaction holds up the reactor: it runs in a process of its own, which
# needs little memory.
def test_it_needs_little() -> None:
    """It runs beside every broker that compacts: no reactor, no ZooKeeper, no codecs before they are needed."""
    code = "import sys, kafkalite.broker.cleaner_process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.decode().split()}
    assert loaded.isdisjoint({"twisted", "kazoo", "kafka", "cramjam", "asyncio"})


# -- the broker's end of it


class Transport:
    pid = 77

    def __init__(self) -> None:
        self.written = b""
        self.signals: list[str] = []
        self.gone = False

    def writeToChild(self, fd: int, data: bytes) -> None:  # noqa: N802
        assert fd == 0
        self.written += data

    def signalProcess(self, name: str) -> None:  # noqa: N802
        if self.gone:
            problem: Any = error.ProcessExitedAlready
            raise problem
        self.signals.append(name)


def killed() -> Failure:
    failure: Any = Failure
    reason: Any = error.ProcessTerminated
    made: Failure = failure(reason(signal=9))
    return made


class Told:
    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.ended: list[str] = []
        self.process = CleanerProcess(self.reports.append, self.ended.append)
        self.transport = self.process.transport = Transport()


def test_reports_arrive_in_pieces() -> None:
    told = Told()
    expected: list[Report] = [Cleaned(1, 0, 5, (0, 1), (".log",)), CleaningDone(1, 2), CleaningFailed(2, "why", 5)]
    for byte in b"".join(encode(report) for report in expected):
        told.process.childDataReceived(1, bytes((byte,)))
    assert told.reports == expected


def test_what_is_no_report_is_passed_over() -> None:
    told = Told()
    told.process.childDataReceived(1, b"hello\n" + encode(CleaningAborted(3)))
    assert told.reports == [CleaningAborted(3)]


def test_orders_go_to_its_standard_input() -> None:
    told = Told()
    told.process.send(Abort(5))
    assert told.transport.written == encode(Abort(5))
    assert told.process.pid == 77


@pytest.mark.parametrize("gone", [False, True])
def test_one_that_was_closed_says_nothing_more(gone: bool) -> None:
    told = Told()
    told.transport.gone = gone
    told.process.close()
    told.process.childDataReceived(1, encode(CleaningAborted(3)))
    told.process.processEnded(killed())
    assert (told.reports, told.ended) == ([], [])
    assert told.transport.signals == ([] if gone else ["KILL"])


def test_one_that_dies_says_so_once() -> None:
    told = Told()
    told.process.processEnded(killed())
    told.process.processEnded(killed())
    assert len(told.ended) == 1
    assert "signal 9" in told.ended[0]


def test_no_other_child_holds_its_pipes() -> None:
    """It is begun with its own three descriptors and nothing else, by this interpreter, of this package."""
    seen: dict[str, Any] = {}

    class Reactor:
        def spawnProcess(self, process: CleanerProcess, program: str, args: list[str], **more: object) -> None:  # noqa: N802
            process.transport = Transport()
            seen.update(more, program=program, args=args)

    CleanerProcesses(Reactor()).start(0, lambda _: None, lambda _: None)
    assert seen["program"] == sys.executable
    assert seen["childFDs"] == {0: "w", 1: "r", 2: 2}
    home = Path(__file__).parents[2]
    assert str(home) in seen["env"]["PYTHONPATH"].split(os.pathsep)
