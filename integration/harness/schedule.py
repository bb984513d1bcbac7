"""The schedule of the tests: which tests share a worker, which start first, which run alone.

``make test`` runs three workers of pytest-xdist. Tests of one group run on one worker, one after the other, because
they share a fixture that starts slowly: a Spark session, a Docker daemon, a cluster of their file. Long groups start
first, so that all workers have work to the end. While a test that measures (``@pytest.mark.alone``) runs, the other
workers wait.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
"""Name of this worker; empty if pytest runs all tests in one process."""
SPARK, CONTAINERS = "spark", "containers"
BY_FIXTURE = {"docker_daemon": CONTAINERS, "stranger_python": CONTAINERS, "spark": SPARK, "database": SPARK}
"""Session fixture → the group of all tests that use it."""
ALONE = "alone"
GROUPS = "groups.json"
"""JSON file in the folder of the run: test → group."""
LATER = ("full", "soak")
"""Markers of tests that ``make test`` leaves out."""
SHORT = "short"
"""Marker of tests that ``make test-all`` leaves out, because it runs their long forms."""
FIRST = (
    # Single groups that take minutes.
    SPARK,
    "integration/test_lint.py",
    "tests/testing/simulation/test_histories.py",
    CONTAINERS,
    # Rounds of kills under load.
    "integration/test_exactly_once.py",
    "integration/test_kill_rounds.py",
    "integration/test_endurance.py",
    "integration/test_coordinator_failover.py",
    "integration/test_course.py",
    # Tests that start Spark processes.
    "integration/pipelines/test_standalone.py",
    "integration/pipelines/test_docs.py",
    "integration/pipelines/test_log_aggregation.py",
    "integration/pipelines/test_metrics.py",
    "integration/pipelines/test_commit_log.py",
    "integration/pipelines/test_cli.py",
    "integration/spark/test_spark_4_1.py",
)
"""Groups that take a minute and more, in the order in which they start."""
UNIT_TESTS = "tests/"


def group_of(item: pytest.Item) -> str:
    """The group of a test: by a fixture in :data:`BY_FIXTURE`, otherwise its class, otherwise its file."""
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    for fixture, group in BY_FIXTURE.items():
        if fixture in fixtures:
            return group
    return item.nodeid.rpartition("::")[0] if item.get_closest_marker(ALONE) is None else ALONE


def rank(group: str) -> int:
    """Position of a group in the order. Unit tests come late, because they are short and so fill the rest of a worker's
    time."""
    if group in FIRST:
        return FIRST.index(group)
    if group.startswith(UNIT_TESTS):
        return len(FIRST) + 1
    return len(FIRST) + 2 if group == ALONE else len(FIRST)


def assign(items: list[pytest.Item], run: Path) -> None:
    """Sort all tests by the order of their groups, and write the group of each for the scheduler.

    ``run`` is the folder of the run. All workers write the same groups.
    """
    items.sort(key=lambda item: rank(group_of(item)))
    partial = run / f"{GROUPS}.{WORKER}"
    partial.write_text(json.dumps({item.nodeid: group_of(item) for item in items}))
    partial.rename(run / GROUPS)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """A worker gets a whole group, and the next group when two tests of the current one are left.

    This replaces xdist's ``loadgroup``, because that appends the group to a test's id, which pytest 9.2 does not allow.
    """

    def __init__(self, config: pytest.Config, log: Producer, run: Path) -> None:
        super().__init__(config, log)
        self._run = run

    @cached_property
    def _groups(self) -> dict[str, str]:
        # Read lazily, because the file is complete only after all workers have collected.
        groups: dict[str, str] = json.loads((self._run / GROUPS).read_text())
        return groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]


def only_full(items: Iterable[pytest.Item]) -> list[str]:
    """The files with no test in ``make test``, because all their tests are marked ``full`` or ``soak``."""
    daily: dict[str, bool] = {}
    for item in items:
        file = item.nodeid.partition("::")[0]
        later = any(item.get_closest_marker(name) for name in LATER)
        daily[file] = daily.get(file, False) or not later
    return [file for file, is_daily in daily.items() if not is_daily]


def short_alone(items: Iterable[pytest.Item]) -> list[str]:
    """The tests marked ``short`` whose file has no test marked ``full``, so that ``make test-all`` would miss them."""
    long = {item.nodeid.partition("::")[0] for item in items if item.get_closest_marker("full")}
    short = [item.nodeid for item in items if item.get_closest_marker(SHORT)]
    return [nodeid for nodeid in short if nodeid.partition("::")[0] not in long]


class Turns:
    """A plugin of each worker: while a test marked ``alone`` runs, the other workers wait between two tests."""

    def __init__(self, folder: Path) -> None:
        self._gate: IO[bytes] = (folder / "gate.lock").open("wb")
        self._machine: IO[bytes] = (folder / "machine.lock").open("wb")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run the test in its turn. The wait does not count for the test's time limit, because this hook wraps it."""
        alone = item.get_closest_marker(ALONE) is not None
        # A waiting ``alone`` test holds the gate, because another worker's next test would otherwise overtake it.
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        try:
            return (yield)
        finally:
            fcntl.flock(self._machine, fcntl.LOCK_UN)
