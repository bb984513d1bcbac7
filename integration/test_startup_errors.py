"""A broker that cannot start prints the reason in one line, without a traceback, and ends with exit code 1."""

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
    """Start a broker, which must end with an error; returns its output."""
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
    """The only line with the reason."""
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
def test_an_invalid_value_is_reported_with_the_allowed_ones(
    tmp_path: Path, name: str, value: str, allowed: str
) -> None:
    """With the name, too; an unknown name causes only a warning."""
    lines = start(tmp_path, "127.0.0.1:1", {name: value, "no.such.name": "5"})
    assert all(part in reason(lines) for part in (name, value, allowed)), lines
    assert any("WARNING" in line and "no.such.name" in line for line in lines)


def test_an_unreachable_zookeeper_is_reported(tmp_path: Path) -> None:
    """With its address, and what to check."""
    lines = start(tmp_path, "127.0.0.1:1", {"zookeeper.connection.timeout.ms": "1500"})
    assert "cannot reach ZooKeeper at 127.0.0.1:1" in reason(lines)


def test_a_missing_configuration_file_is_reported(tmp_path: Path) -> None:
    """With its path."""
    command = [sys.executable, "-m", "kafkalite.cli.main", "broker", "start", "--config", str(tmp_path / "none")]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False)
    assert ended.returncode == 1
    assert "Cannot read the configuration" in reason(ended.stderr.splitlines())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("name", "protocol"), [("listeners", "PLAINTEXT"), ("metrics.listener", "http")])
def test_a_port_in_use_is_reported(tmp_path: Path, shared_cluster: LocalCluster, name: str, protocol: str) -> None:
    """With the address that another process has."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        lines = start(tmp_path, shared_cluster.zookeeper, {name: f"{protocol}://{address}"})
    assert address in reason(lines)
    assert "in use" in reason(lines)


@pytest.mark.full
def test_a_broker_id_in_use_is_reported(tmp_path: Path, shared_cluster: LocalCluster) -> None:
    """After the session timeout, when the other broker is certainly alive."""
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
def test_bad_meta_properties_are_reported(
    tmp_path: Path, shared_cluster: LocalCluster, spoil: Callable[[Path], None], said: str
) -> None:
    """With the directory and its defect."""
    (tmp_path / "data").mkdir()
    spoil(tmp_path / "data")
    why = reason(start(tmp_path, shared_cluster.zookeeper, {}))
    assert said in why
    assert str(tmp_path / "data") in why


def test_a_directory_of_a_running_broker_is_reported(tmp_path: Path, shared_cluster: LocalCluster) -> None:
    """With the directory, and what to do."""
    taken = str(shared_cluster.broker_dir(2) / "data")
    why = reason(start(tmp_path, shared_cluster.zookeeper, {"log.dirs": taken}))
    assert taken in why
    assert "lock" in why


def test_a_file_as_the_only_directory_is_reported(tmp_path: Path, shared_cluster: LocalCluster) -> None:
    """The broker does not start without a directory."""
    (tmp_path / "data").write_text("not a folder")
    why = reason(start(tmp_path, shared_cluster.zookeeper, {}))
    assert str(tmp_path / "data") in why


def test_the_refused_brokers_disturbed_no_running_broker(shared_cluster: LocalCluster) -> None:
    """All brokers of the cluster are alive and serve."""
    assert all(shared_cluster.is_alive(broker_id) for broker_id in shared_cluster.broker_ids)
    assert os.path.exists(shared_cluster.broker_dir(2) / "data" / ".lock")
