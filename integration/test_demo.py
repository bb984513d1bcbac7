"""``kafkalite demo``, as ``make demo`` runs it, with fewer flights: what it prints, and what it leaves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kafkalite.cli.flights import PARTITIONS, flights

pytestmark = pytest.mark.kafkalite_only
RECORDS = 10_000
SHOWN = re.compile(r"watch it live at (\S+)")


def processes_of(directory: Path) -> list[psutil.Process]:
    """The processes that have this directory for their temporary files, the guardians of dead brokers among them."""
    found = psutil.process_iter(["environ"])
    return [each for each in found if (each.info["environ"] or {}).get("TMPDIR") == str(directory)]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The folder of temporary files; processes that use it end with the test."""
    yield tmp_path
    for left in processes_of(tmp_path):
        left.kill()


def table(text: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table behind ``heading``, by their first columns."""
    lines = (line.strip() for line in text.partition(heading)[2].splitlines())
    rows = [re.split(r" {2,}", line) for line in lines if line.startswith("flights-")]
    return {row[0]: row[1:] for row in rows[:PARTITIONS]}


def test_readers_and_brokers_die_and_the_demo_finds_every_record(directory: Path) -> None:
    command = [sys.executable, "-m", "kafkalite.cli.main", "demo", "--records", str(RECORDS)]
    text, page = "", ""
    with subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            text += line
            if found := SHOWN.search(line):
                with urllib.request.urlopen(found[1], timeout=30) as answer:
                    page = answer.read().decode()
    assert demo.returncode == 0, text
    assert "<html" in page
    assert re.findall(r"^(\d)\. ", text, re.MULTILINE) == ["1", "2", "3", "4", "5"]

    topics = [f"flights-{partition}" for partition in range(PARTITIONS)]
    before = table(text, "as it stands in ZooKeeper\n")
    assert list(before) == topics
    assert all(set("123") <= set(isr) for _, _, isr, _ in before.values())
    killed = re.search(r"kill -9: broker (\d), leader of (.+) and coordinator of the group", text)
    assert killed, text
    assert killed[2].split(", ") == [name for name, (leader, *_) in before.items() if leader == killed[1]]
    after = table(text[killed.end() :], "as it stands in ZooKeeper\n")
    assert list(after) == topics
    assert not any(killed[1] in leader + isr for leader, _, isr, _ in after.values())
    coordinator = re.search(r"the group's coordinator is broker (\d) now", text)
    assert coordinator and coordinator[1] != killed[1]
    dead = re.search(r"kill -9: reader (\w+)", text)
    assert dead
    read = table(text[killed.end() :], "all sent: 10,000 acknowledged")
    assert [int(row[-2]) for row in read.values()] == [0] * PARTITIONS
    assert dead[1] not in {row[-1] for row in read.values()}

    acknowledged = re.search(r"acknowledged 10,000 of 10,000, (checksum \w{8})\n", text)
    assert acknowledged and f"read         10,000, {acknowledged[1]}\n" in text
    assert "every acknowledged record was read, unchanged and in order" in text
    assert "FAILED" not in text
    columns = [value.decode().split(",") for _, value in flights(RECORDS)]
    days = {(row[-1][:10], row[12]) for row in columns}
    assert f"all {len(days):,} results are what the file gives without Spark and without brokers" in text

    _, left = psutil.wait_procs(processes_of(directory), timeout=5)
    assert not left
    assert not list(directory.glob("kafkalite-demo-*"))
