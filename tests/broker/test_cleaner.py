"""The compactor's process: the orders that it gets, its reports, and its end. Here are only pipes, no process."""

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
    CleanerLimits,
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
    return CleanJob(
        number, str(folder), segments, 0, 2, (), {}, 9, 1000, 1000, 100, 5, CleanerLimits(1000, 0.9, 1000, float("inf"))
    )


# -- the process


def test_a_round_writes_compacted_files_and_reports_them(tmp_path: Path, pipes: Pipes) -> None:
    pipes.send(encode(job(tmp_path)))
    cleaned, done = pipes.work()
    assert isinstance(cleaned, Cleaned)
    assert cleaned.replaces == (0, 1)
    assert isinstance(done, CleaningDone)
    assert (done.number, done.end_offset, done.stats.records_read, done.stats.records_written) == (1, 2, 2, 1)
    assert {path.name for path in tmp_path.glob("*.cleaned")} == {
        f"00000000000000000000{suffix}.cleaned" for suffix in cleaned.files
    }


def test_an_abort_that_is_queued_behind_a_round_aborts_it(tmp_path: Path, pipes: Pipes) -> None:
    pipes.send(encode(job(tmp_path)) + encode(Abort(1)) + encode(job(tmp_path, 2)))
    assert [type(report) for report in pipes.work()] == [CleaningAborted, Cleaned, CleaningDone]


def test_an_abort_during_the_next_round_aborts_that_round(tmp_path: Path, pipes: Pipes) -> None:
    pipes.send(encode(job(tmp_path)))
    orders = pipes.orders
    assert orders.next() == job(tmp_path)
    pipes.send(encode(job(tmp_path)) + encode(Abort(3)))
    assert pipes.work()[-1] == CleaningAborted(3)
    assert not list(tmp_path.glob("*.cleaned"))


@pytest.mark.parametrize(("size", "errno"), [(None, 2), (10, 0)])
def test_a_failure_is_reported_and_leaves_no_files(tmp_path: Path, pipes: Pipes, size: int | None, errno: int) -> None:
    order = job(tmp_path, size=size)
    if errno:
        (tmp_path / "00000000000000000001.log").unlink()
    pipes.send(encode(order))
    (failed,) = pipes.work()
    assert isinstance(failed, CleaningFailed)
    assert (failed.number, failed.errno) == (1, errno)
    assert not list(tmp_path.glob("*.cleaned"))


# trap: kafkalite/broker/cleaner_process.py: The cleaner process outlives its broker.
def test_the_compactor_ends_with_its_broker_in_the_middle_of_a_round(pipes: Pipes) -> None:
    pipes.orders.check()
    pipes.hang_up()
    with pytest.raises(SystemExit):
        pipes.orders.check()


def test_an_abort_ends_the_pause_of_a_throttled_round(pipes: Pipes) -> None:
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
def test_the_compactor_imports_no_reactor_no_zookeeper_and_no_codecs() -> None:
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


class CleanerProcessFixture:
    """The broker's side of a compactor, and what it reported."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.ended: list[str] = []
        self.process = CleanerProcess(self.reports.append, self.ended.append)
        self.transport = self.process.transport = Transport()


def test_reports_arrive_in_pieces() -> None:
    fixture = CleanerProcessFixture()
    expected: list[Report] = [Cleaned(1, 0, 5, (0, 1), (".log",)), CleaningDone(1, 2), CleaningFailed(2, "why", 5)]
    for byte in b"".join(encode(report) for report in expected):
        fixture.process.childDataReceived(1, bytes((byte,)))
    assert fixture.reports == expected


def test_output_that_is_no_report_is_ignored() -> None:
    fixture = CleanerProcessFixture()
    fixture.process.childDataReceived(1, b"hello\n" + encode(CleaningAborted(3)))
    assert fixture.reports == [CleaningAborted(3)]


def test_orders_are_written_to_the_compactors_standard_input() -> None:
    fixture = CleanerProcessFixture()
    fixture.process.send(Abort(5))
    assert fixture.transport.written == encode(Abort(5))
    assert fixture.process.pid == 77


@pytest.mark.parametrize("gone", [False, True])
def test_a_closed_compactor_reports_nothing_more(gone: bool) -> None:
    fixture = CleanerProcessFixture()
    fixture.transport.gone = gone
    fixture.process.close()
    fixture.process.childDataReceived(1, encode(CleaningAborted(3)))
    fixture.process.processEnded(killed())
    assert (fixture.reports, fixture.ended) == ([], [])
    assert fixture.transport.signals == ([] if gone else ["KILL"])


def test_the_death_of_a_compactor_is_reported_once() -> None:
    fixture = CleanerProcessFixture()
    fixture.process.processEnded(killed())
    fixture.process.processEnded(killed())
    assert len(fixture.ended) == 1
    assert "signal 9" in fixture.ended[0]


def test_no_other_child_process_holds_the_compactors_pipes() -> None:
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
