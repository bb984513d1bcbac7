"""The commands of ``kafkalite pipeline``: start in the background, status, restart after a kill, stop; on a cluster."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import SOAK
from integration.harness.commands import Outcome, process
from integration.harness.wait import has_ended, wait_for
from integration.pipelines.reading import records
from integration.spark.topics import new_topic
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.state import all_pipelines

KILLS = 6 if SOAK else 1
SMALL = '[spark]\nmaster = "local[2]"\n"spark.driver.memory" = "512m"\n'
TIMEOUT = 300
"""Seconds that a busy machine may need for work of a few seconds."""


class Writer(threading.Thread):
    """A program that writes lines to a log until it is told to end."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._ended = threading.Event()
        self.lines = 0

    def run(self) -> None:
        """Write some lines at once, then pause."""
        with self._path.open("ab", buffering=0) as file:
            while not self._ended.wait(0.05):
                file.write(b"".join(b"line %d\n" % (self.lines + number) for number in range(5)))
                self.lines += 5

    def end(self) -> None:
        """Stop writing."""
        self._ended.set()
        self.join()


class Commands:
    """``kafkalite pipeline`` with its own folder for state."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "state"

    def __call__(self, *arguments: object, code: int = 0) -> Outcome:
        return process("pipeline", *arguments, "--state", self._state, code=code, timeout=TIMEOUT)

    def status(self, name: str, code: int = 0) -> Any:
        """The output of ``status`` for one pipeline."""
        [status] = self("status", name, "--json", code=code).json
        return status

    def rows(self, name: str) -> int:
        """Number of records that this run has moved."""
        file = self._state / name / "status.json"
        return sum(query["rows"] for query in json.loads(file.read_text())["queries"].values())

    def end(self) -> None:
        """Kill the pipelines that a failed test has left running."""
        for state in all_pipelines(self._state):
            status = state.read()
            if status is not None and state.is_running():
                kill(status.pid)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    """Commands whose pipelines end with the test."""
    commands = Commands(tmp_path)
    yield commands
    commands.end()


def kill(pid: int) -> None:
    """Kill a process (-9), and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: has_ended(pid), "it is dead")


@pytest.mark.timeout(1800)
def test_a_killed_pipeline_continues(shared_cluster: LocalCluster, tmp_path: Path, commands: Commands) -> None:
    """The pipeline copies a growing log to a topic and is killed (-9) meanwhile: the topic has each line once."""
    topic = new_topic(shared_cluster, "log")
    rng = random.Random(11)
    writer = Writer(tmp_path / "app.log")
    file = tmp_path / "log-in.toml"
    file.write_text(
        f"""
        name = "log-in"
        job = "connect"
        trigger.interval = "500 milliseconds"
        kafka."bootstrap.servers" = "{shared_cluster.bootstrap}"
        source = {{ type = "files", path = "{tmp_path}/app.log" }}
        sink = {{ type = "topic", topic = "{topic}", format = "text" }}
        """
        + SMALL
    )
    writer.start()
    for _ in range(KILLS):
        said = commands("run", file, "--background").out
        status = commands.status("log-in")
        assert status["state"] == "running"
        assert f"log-in runs in the background (process {status['pid']})" in said
        wait_for(lambda: commands.rows("log-in"), "records have moved", timeout=TIMEOUT)
        time.sleep(rng.random())  # a random moment of a micro-batch
        kill(status["pid"])
        assert commands.status("log-in", code=1)["state"] == "died"
    assert commands("status", code=1).out.startswith(f"log-in (connect, {file}): died")
    commands("run", file, "--background")
    refused = commands("run", file, code=1)
    assert refused.err.startswith("kafkalite pipeline: pipeline 'log-in' is running (process ")
    assert refused.err.endswith("): kafkalite pipeline stop log-in\n")
    writer.end()
    bootstrap = shared_cluster.bootstrap
    wait_for(lambda: len(records(bootstrap, topic)) >= writer.lines, "all lines", timeout=TIMEOUT, interval=1.0)
    assert commands("stop", "log-in").out == "log-in stopped\n"
    assert commands("stop", "log-in").out == "log-in is not running\n"
    assert commands.status("log-in")["state"] == "stopped"
    found = [value for _, value in records(bootstrap, topic)]
    doubled = [line for line, count in Counter(found).items() if count > 1]
    assert found == [b"line %d" % number for number in range(writer.lines)], f"twice: {doubled[:10]}"
    listed = commands("list", "--json").json
    assert [one["name"] for one in listed["pipelines"]] == ["log-in"]
    assert any(path.endswith("connect-files.toml") for path in listed["examples"])
