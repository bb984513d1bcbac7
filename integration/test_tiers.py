"""The schedule of the tests: the tiers, the workers' turns, the cluster of all workers."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from integration.conftest import TIERS, UNREPLACED
from integration.harness.durations import KEPT, Durations
from integration.harness.schedule import ALONE, Turns
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

PATIENCE = 30.0
MOMENT = 0.2
"""Seconds within which a test that need not wait has surely begun."""


class Worker(threading.Thread):
    """A worker with one test, which runs until :attr:`end` is set."""

    def __init__(self, folder: Path, *, alone: bool) -> None:
        super().__init__(daemon=True)
        self._turns = Turns(folder)
        self._item: Any = SimpleNamespace(get_closest_marker=lambda name: (alone and name == ALONE) or None)
        self.begun = threading.Event()
        self.end = threading.Event()
        self.start()

    def run(self) -> None:
        """Run the test within the plugin's hook."""
        hook: Generator[None, object, object] = self._turns.pytest_runtest_protocol(self._item)
        next(hook)
        self.begun.set()
        assert self.end.wait(PATIENCE)
        with pytest.raises(StopIteration):
            hook.send(None)


def test_every_file_has_a_test_of_make_test(request: pytest.FixtureRequest) -> None:
    """Each file of this run, which is each file of the repository in ``make test`` and ``make test-all``."""
    assert request.config.stash[TIERS] == []


def test_each_short_form_has_a_long_one_in_its_file(request: pytest.FixtureRequest) -> None:
    assert request.config.stash[UNREPLACED] == []


def test_tests_run_side_by_side_but_for_one_that_is_alone(tmp_path: Path) -> None:
    """It waits for the running tests, and the later ones wait for it."""
    first, second = (Worker(tmp_path, alone=False) for _ in range(2))
    assert first.begun.wait(PATIENCE)
    assert second.begun.wait(PATIENCE)
    alone = Worker(tmp_path, alone=True)
    first.end.set()
    assert not alone.begun.wait(MOMENT)
    later = Worker(tmp_path, alone=False)
    assert not later.begun.wait(MOMENT)
    second.end.set()
    assert alone.begun.wait(PATIENCE)
    assert not later.begun.wait(MOMENT)
    alone.end.set()
    assert later.begun.wait(PATIENCE)
    later.end.set()
    for worker in (first, second, alone, later):
        wait_for(lambda: not worker.is_alive(), "the worker ends")  # noqa: B023 (it waits here)


def test_another_worker_finds_the_shared_cluster(shared_cluster: LocalCluster) -> None:
    """With its addresses, its ZooKeeper and its processes."""
    found = LocalCluster.running(shared_cluster.directory)
    for name in ("broker_ids", "bootstrap", "zookeeper", "directory"):
        assert getattr(found, name) == getattr(shared_cluster, name)
    for broker_id in found.broker_ids:
        assert found.pid(broker_id) == shared_cluster.pid(broker_id)
        assert found.is_alive(broker_id)


def test_minutes_are_kept_by_worker_and_by_file(tmp_path: Path) -> None:
    durations = Durations(tmp_path)
    shown: list[str] = []
    reports = [("tests/test_a.py::test_1", 30, "gw0"), ("tests/test_b.py::test_2", 90, "gw1")]
    for nodeid, seconds, worker in [*reports, ("tests/test_a.py::test_1", 3, "gw0")]:
        report: Any = SimpleNamespace(nodeid=nodeid, duration=seconds, worker_id=worker)
        durations.pytest_runtest_logreport(report)
    reporter: Any = SimpleNamespace(section=shown.append, write_line=shown.append)
    durations.pytest_terminal_summary(reporter)
    workers, files = (
        ["  0.55  gw0", "  1.50  gw1"],
        ["  1.50  tests/test_b.py (1 tests)", "  0.55  tests/test_a.py (1 tests)"],
    )
    assert shown[1:] == [*workers, *files]
    assert (tmp_path / KEPT).read_text().splitlines() == [
        "minutes of each worker",
        *workers,
        "minutes of each file",
        *files,
    ]
