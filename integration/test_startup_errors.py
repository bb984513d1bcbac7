"""A broker that cannot start says why in one line, ends with exit code 1, and leaves no traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kafkalite.embedded.cluster import LocalCluster

pytestmark = pytest.mark.kafkalite_only

TIMEOUT = 60.0


def start(folder: Path, zookeeper: str, properties: Mapping[str, str]) -> list[str]:
    """Start a broker that must not come up; the lines that it wrote."""
    values = {
        "broker.id": "77",
        "log.dirs": str(folder / "data"),
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": "6000",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        **properties,
    }
    config = folder / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    ended = subprocess.run(
        [sys.executable, "-m", "kafkalite.cli.main", "broker", "start", "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout
    assert "Traceback" not in ended.stdout, ended.stdout
    return ended.stdout.splitlines()


def reason(lines: list[str]) -> str:
    """The one line that says why."""
    critical = [line for line in lines if "CRITICAL" in line]
    assert len(critical) == 1, lines
    return critical[0]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("num.partitions", "many", "a whole number"),
        ("num.partitions", "0", "at least 1"),
        ("log.cleanup.policy", "shred", "compact, delete"),
        ("listeners", "somewhere", "NAME://host:port"),
        ("message.max.bytes", "-1", "at least 0"),
        ("auto.create.topics.enable", "perhaps", "true"),
    ],
)
def test_wrong_values(tmp_path: Path, name: str, value: str, allowed: str) -> None:
    """Name, value, and what is allowed; names that nobody knows are only warned of."""
    lines = start(tmp_path, "127.0.0.1:1", {name: value, "no.such.name": "5"})
    assert all(part in reason(lines) for part in (name, value, allowed)), lines
    assert any("WARNING" in line and "no.such.name" in line for line in lines)


def test_zookeeper_that_is_not_there(tmp_path: Path) -> None:
    """Which one, and what to look at."""
    lines = start(tmp_path, "127.0.0.1:1", {"zookeeper.connection.timeout.ms": "1500"})
    assert "cannot reach ZooKeeper at 127.0.0.1:1" in reason(lines)


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    """A file that cannot be read."""
    command = [sys.executable, "-m", "kafkalite.cli.main", "broker", "start", "--config", str(tmp_path / "none")]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False)
    assert ended.returncode == 1
    assert "Cannot read the configuration" in reason(ended.stderr.splitlines())
    assert "Traceback" not in ended.stderr


def test_a_port_in_use(tmp_path: Path, shared_cluster: LocalCluster) -> None:
    """The address, and that something else has it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        lines = start(tmp_path, shared_cluster.zookeeper, {"listeners": f"PLAINTEXT://{address}"})
    assert address in reason(lines)
    assert "in use" in reason(lines)


def test_a_broker_id_in_use(tmp_path: Path, shared_cluster: LocalCluster) -> None:
    """The id of a broker that lives is refused, once it is certain that it does."""
    lines = start(tmp_path, shared_cluster.zookeeper, {"broker.id": "1"})
    assert "broker id 1" in reason(lines).lower() or "broker.id 1" in reason(lines)
    assert shared_cluster.is_alive(1)


def garbage(folder: Path) -> None:
    (folder / "meta.properties").write_bytes(b"\xff\xfe\x00 no properties at all")


def other_id(folder: Path) -> None:
    (folder / "meta.properties").write_text("version=0\nbroker.id=5\n")


def other_cluster(folder: Path) -> None:
    (folder / "meta.properties").write_text("version=0\nbroker.id=77\ncluster.id=somebodyElsesCluster_w\n")


def no_number(folder: Path) -> None:
    (folder / "meta.properties").write_text("version=0\nbroker.id=seven\n")


def other_version(folder: Path) -> None:
    (folder / "meta.properties").write_text("version=9\nbroker.id=77\n")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (garbage, "meta.properties"),
        (other_id, "5"),
        (other_cluster, "somebodyElsesCluster_w"),
        (no_number, "seven"),
        (other_version, "9"),
    ],
)
def test_meta_properties_of_somebody_else(
    tmp_path: Path, shared_cluster: LocalCluster, spoil: Callable[[Path], None], said: str
) -> None:
    """The directory is named, and what is wrong with it."""
    (tmp_path / "data").mkdir()
    spoil(tmp_path / "data")
    why = reason(start(tmp_path, shared_cluster.zookeeper, {}))
    assert said in why
    assert str(tmp_path / "data") in why


def test_a_directory_that_another_broker_has(tmp_path: Path, shared_cluster: LocalCluster) -> None:
    """Which directory, and what to do."""
    taken = str(shared_cluster.broker_dir(2) / "data")
    why = reason(start(tmp_path, shared_cluster.zookeeper, {"log.dirs": taken}))
    assert taken in why
    assert "lock" in why


def test_a_directory_that_is_a_file(tmp_path: Path, shared_cluster: LocalCluster) -> None:
    """No directory is left: the broker does not start."""
    (tmp_path / "data").write_text("not a folder")
    why = reason(start(tmp_path, shared_cluster.zookeeper, {}))
    assert str(tmp_path / "data") in why


def test_all_is_well_after_all_that(shared_cluster: LocalCluster) -> None:
    """None of the refused ones disturbed the brokers that were there."""
    assert all(shared_cluster.is_alive(broker_id) for broker_id in shared_cluster.broker_ids)
    assert os.path.exists(shared_cluster.broker_dir(2) / "data" / ".lock")
