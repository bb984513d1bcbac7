"""The processes of brokers as the doctor finds them: a folder of a ``/proc`` that the test wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalite.cli.doctor_processes import broker_processes, config_beside


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Process 70, which serves the file of broker 1 that its command line names from its own folder."""
    for number in (1, 2):
        folder = tmp_path / "cluster" / f"broker-{number}"
        folder.mkdir(parents=True)
        (folder / "server.properties").write_text(f"broker.id={number}\nzookeeper.connect=z:2181/kafka\n")
    found = tmp_path / "proc" / "70"
    (found / "fd").mkdir(parents=True)
    (found / "cwd").symlink_to(tmp_path / "cluster")
    words = ("python", "-m", "kafkalite.cli.main", "broker", "start", "--config", "broker-1/server.properties")
    (found / "cmdline").write_bytes("".join(f"{word}\0" for word in words).encode())
    (found / "stat").write_text("70 (a (b) c) S 1 2 3")
    (found / "limits").write_text("Max open files            1024                 4096                 files\n")
    (found / "maps").write_text("a\nb\n")
    return found.parent


def test_the_command_starts_the_broker_from_any_folder_and_into_the_same_log(proc: Path, tmp_path: Path) -> None:
    log = tmp_path / "cluster" / "broker-1" / "broker.log"
    log.touch()
    (proc / "70" / "fd" / "2").symlink_to(log)
    config = tmp_path / "cluster" / "broker-1" / "server.properties"
    found = broker_processes("z:2181/kafka", (), proc)[1]
    assert found.command == f"python -m kafkalite.cli.main broker start --config {config}"
    assert (found.config, found.log) == (str(config), str(log))
    assert (found.open_files, found.max_open_files, found.hard_open_files, found.memory_maps) == (1, 1024, 4096, 2)


def test_output_that_goes_to_no_file_is_no_log(proc: Path) -> None:
    os.symlink("/dev/null", proc / "70" / "fd" / "2")
    assert broker_processes("z:2181/kafka", (), proc)[1].log == ""


def test_a_broker_of_another_cluster_is_not_taken(proc: Path) -> None:
    (proc / "70" / "fd" / "2").symlink_to("/dev/null")
    assert broker_processes("z:2181/other", (), proc) == {}


def test_the_file_of_a_broker_that_is_down_lies_beside_those_of_the_others(tmp_path: Path, proc: Path) -> None:  # noqa: ARG001
    known = {1: str(tmp_path / "cluster" / "broker-1" / "server.properties")}
    assert config_beside(2, known) == str(tmp_path / "cluster" / "broker-2" / "server.properties")
    assert config_beside(3, known) == "", "there is no such folder"
    (tmp_path / "cluster" / "broker-2" / "server.properties").write_text("broker.id=5\n")
    assert config_beside(2, known) == "", "the file is that of another broker"
    assert config_beside(2, {}) == ""
