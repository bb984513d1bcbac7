"""The demo's judgement, and what it takes for a group at work."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.cli import demo, demo_pipeline
from kafkalite.cli.demo import Scene, judge
from kafkalite.cli.demo_group import all_read, shared_by
from kafkalite.cli.flight_reader import ENTRY, entry
from kafkalite.cli.flights import PARTITIONS, Ledger
from kafkalite.cli.groups_view import GroupView, MemberView
from kafkalite.cli.main import build_parser
from kafkalite.common.errors import StartupError
from kafkalite.common.types import TopicPartition
from kafkalite.embedded import cluster, dashboard

ROWS = 30


def ledger(offsets: range) -> Ledger:
    """These offsets of every partition."""
    made = Ledger()
    for partition in range(PARTITIONS):
        for offset in offsets:
            made.add(partition, offset, b"key", b"%d" % offset)
    return made


def scene(*, committed: int = 3) -> Any:
    """One reader died over offsets 0 to 3, 3 of which were committed; its successor read on from there."""
    made = Scene.__new__(Scene)
    made.rows = ROWS
    made.writer = SimpleNamespace(ledger=ledger(range(ROWS // PARTITIONS)), failed=[])  # type: ignore[assignment]
    made.dead = [SimpleNamespace(ledger=ledger(range(4)), disorder=0)]  # type: ignore[list-item]
    made.readers = [SimpleNamespace(ledger=ledger(range(3, 5)), disorder=0)]  # type: ignore[list-item]
    made.committed = dict.fromkeys(range(PARTITIONS), committed)
    return made


def test_nothing_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(scene())
    said = capsys.readouterr().out
    assert "every acknowledged record was read" in said and "read twice   6:" in said


def lose(made: Any) -> None:
    del made.readers[0].ledger.partitions[2][4]


def change(made: Any) -> None:
    made.readers[0].ledger.partitions[2][4] = 1


def invent(made: Any) -> None:
    made.readers[0].ledger.partitions[2][99] = 1


def disorder(made: Any) -> None:
    made.readers[0].disorder = 1


def refuse(made: Any) -> None:
    made.writer.failed.append("no")


def repeat_what_was_committed(made: Any) -> None:
    made.committed[2] = 4


def repeat_what_no_dead_reader_read(made: Any) -> None:
    made.readers.append(SimpleNamespace(ledger=ledger(range(4, 5)), disorder=0))


@pytest.mark.parametrize(
    "harm", [lose, change, invent, disorder, refuse, repeat_what_was_committed, repeat_what_no_dead_reader_read]
)
def test_what_it_finds_out(harm: Callable[[Any], None], capsys: pytest.CaptureFixture[str]) -> None:
    made = scene()
    harm(made)
    assert not judge(made)
    assert "FAILED" in capsys.readouterr().out


def test_a_readers_word() -> None:
    record = SimpleNamespace(partition=lambda: 5, offset=lambda: 7, key=lambda: None, value=lambda: b"v")
    assert ENTRY.unpack(entry(record)) == (5, 7, zlib.crc32(b"v"))


def group(state: str, *members: tuple[str, range], offsets: int = PARTITIONS, end: int = 9) -> GroupView:
    everything = [TopicPartition("flights", partition) for partition in range(PARTITIONS)]
    return GroupView(
        "g",
        state,
        members=tuple(
            MemberView(f"{n}-1", "", n, partitions=tuple(everything[p] for p in parts)) for n, parts in members
        ),
        committed=dict.fromkeys(everything[:offsets], 9),
        ends=dict.fromkeys(everything, end),
    )


@pytest.mark.parametrize(
    ("seen", "shared"),
    [
        (group("Stable", ("a", range(3)), ("b", range(3, 6))), True),
        (group("PreparingRebalance", ("a", range(3)), ("b", range(3, 6))), False),
        (group("Stable", ("a", range(3)), ("b", range(3, 5))), False),
        (group("Stable", ("a", range(6))), False),
        (group("Stable", ("a", range(2)), ("b", range(2, 4)), ("c", range(4, 6))), False),
    ],
)
def test_members_that_share_the_topic(seen: GroupView, shared: bool) -> None:
    assert shared_by(["b", "a"])(seen) is shared


@pytest.mark.parametrize(
    ("seen", "done"), [(group("Stable"), True), (group("Stable", end=10), False), (group("Stable", offsets=5), False)]
)
def test_no_lag(seen: GroupView, done: bool) -> None:
    assert all_read(seen) is done


class FakeProcess:
    """A cluster or a dashboard of which only its steps are seen."""

    address = bootstrap = zookeeper = "http://127.0.0.1:8080/"
    directory = Path()

    def __init__(self, name: str, steps: list[str]) -> None:
        self._name = name
        self._steps = steps

    def start(self, *_: object) -> FakeProcess:
        self._steps.append(f"{self._name} starts")
        return self

    def stop(self) -> None:
        self._steps.append(f"{self._name} stops")


def told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *flags: str, verdicts: tuple[bool, bool] = (True, True)
) -> list[str]:
    """What the demo does and says, in its order, if this is found of the readers and of Spark's results."""
    steps: list[str] = []

    def interrupted(_: threading.Event, timeout: float | None = None) -> None:  # noqa: ARG001
        steps.append("waits")
        raise KeyboardInterrupt

    def plays(_: object, rows: int) -> None:
        steps.extend([f"{rows} flights", "plays"])

    monkeypatch.setattr(cluster, "LocalCluster", lambda *_, **__: FakeProcess("cluster", steps))
    monkeypatch.setattr(dashboard, "DashboardProcess", FakeProcess("page", steps))
    monkeypatch.setattr(demo, "play", plays)
    monkeypatch.setattr(demo, "count_rows", lambda: 5)
    monkeypatch.setattr(demo, "judge", lambda _: verdicts[0])
    monkeypatch.setattr(demo_pipeline, "DelaysJob", lambda *_: nullcontext())
    monkeypatch.setattr(demo_pipeline, "judge", lambda *_: verdicts[1])
    monkeypatch.setattr(demo, "say", lambda text, **_: steps.append(text))
    monkeypatch.setattr(threading.Event, "wait", interrupted)
    code = demo.run(build_parser("demo").parse_args(["demo", "--dir", str(tmp_path), *flags]))
    assert code == (0 if all(verdicts) else 1)
    return steps


def test_the_page_is_named_before_the_play_and_at_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = told(monkeypatch, tmp_path)
    named = [number for number, step in enumerate(steps) if "at http://127.0.0.1:8080/" in step and "page" in step]
    assert steps.index("   watch it live at http://127.0.0.1:8080/") < steps.index("plays") < named[-1]
    assert named[-1] < steps.index("page stops") < steps.index("cluster stops")
    assert "waits" not in steps


def interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """Let the pipeline be a script of the shell."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))


def test_a_pipeline_that_fails_ends_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    interpreter(monkeypatch, tmp_path, "echo no broker >&2; exit 1")
    with demo_pipeline.DelaysJob("b:1", tmp_path) as job, pytest.raises(StartupError, match="failed: no broker"):
        job.wait()


def test_a_demo_that_fails_ends_the_pipeline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    interpreter(monkeypatch, tmp_path, "exec sleep 600")
    with pytest.raises(RuntimeError), demo_pipeline.DelaysJob("b:1", tmp_path) as job:
        raise RuntimeError
    assert job._process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("records", "rows"), [("0", 5), ("2", 2), ("9", 5)])
def test_no_more_flights_are_expected_than_there_are(
    records: str, rows: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert f"{rows} flights" in told(monkeypatch, tmp_path, "--records", records)


@pytest.mark.parametrize("verdicts", [(True, False), (False, True)])
def test_both_parts_count(verdicts: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "cluster stops" in told(monkeypatch, tmp_path, verdicts=verdicts)


def test_cluster_and_page_stay_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = told(monkeypatch, tmp_path, "--stay")
    order = ["plays", "   cluster and dashboard go on at http://127.0.0.1:8080/ until Ctrl-C", "waits", "page stops"]
    places = [steps.index(each) for each in order]
    assert all(before < after for before, after in itertools.pairwise(places))
