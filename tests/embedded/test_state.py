"""``cluster.json``, ``server.properties`` of a local cluster, and the little Metadata codec of the probe."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.embedded import probe
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.probe import ClusterView, _view, ask
from kafkalite.embedded.processes import ServerProcess
from kafkalite.embedded.state import (
    OVERRIDES_FILE,
    BrokerAddress,
    broker_process,
    read_brokers,
    read_overrides,
    read_state,
    stop_cluster,
    write_state,
    zookeeper_port,
)
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.errors import BrokerUnreachableError
from tests.network.test_blocking_client import answer, connection_to


def test_a_written_state_is_read(tmp_path: Path) -> None:
    assert (read_state(tmp_path), read_brokers(tmp_path), zookeeper_port(tmp_path)) == (None, [], 0)
    assert read_overrides(tmp_path) == {}
    brokers = [BrokerAddress(n, "127.0.0.1", 9000 + n, 100 + n, str(tmp_path / f"broker-{n}")) for n in (1, 2)]
    write_state(tmp_path, "127.0.0.1:2181/chroot", brokers)
    state = read_state(tmp_path)
    assert state is not None
    assert state["bootstrap"] == "127.0.0.1:9001,127.0.0.1:9002"
    assert set(state["brokers"][0]) == {"id", "host", "port", "pid", "dir", "metrics"}
    assert read_brokers(tmp_path) == brokers
    assert zookeeper_port(tmp_path) == 2181
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"], "nothing temporary is left"


def test_overrides_are_the_owners_alone(tmp_path: Path) -> None:
    """Because any of them may be a password."""
    cluster = LocalCluster(tmp_path, 0, zookeeper="z:2181", overrides={"ssl.key.password": "planted"})
    cluster.write_state()
    assert read_overrides(tmp_path) == {"ssl.key.password": "planted"}
    assert (tmp_path / OVERRIDES_FILE).stat().st_mode & 0o777 == 0o600
    assert "planted" not in (tmp_path / "cluster.json").read_text()


@pytest.mark.parametrize("others", [{}, {"rack": "a"}], ids=["an earlier version", "a later version"])
def test_the_state_of_another_version_is_read(tmp_path: Path, others: dict[str, str]) -> None:
    broker = {"id": 1, "host": "127.0.0.1", "port": 9001, "pid": 101, "dir": "broker-1"}
    state = {"zookeeper": "127.0.0.1:2181", "bootstrap": "127.0.0.1:9001", "brokers": [broker | others]}
    (tmp_path / "cluster.json").write_text(json.dumps(state))
    assert read_brokers(tmp_path) == [BrokerAddress(1, "127.0.0.1", 9001, 101, "broker-1")]


def test_there_is_nothing_to_stop(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="no cluster in"):
        stop_cluster(tmp_path)


def test_a_stranger_with_the_same_pid_is_not_ours() -> None:
    assert not ServerProcess(os.getpid(), mark="no such words in this command line").is_alive()


def test_server_properties(tmp_path: Path) -> None:
    cluster = LocalCluster(
        tmp_path, 2, port_base=19092, zookeeper="zk:2181/x", overrides={"a": "all", "log.dirs": "elsewhere"}
    )
    assert cluster.broker_ids == [1, 2]
    assert cluster.bootstrap == "127.0.0.1:19092,127.0.0.1:19093"
    assert cluster.zookeeper == "zk:2181/x"
    cluster.override_broker(2, {"a": "second"})
    found = [
        dict(line.split("=", 1) for line in cluster._write_properties(broker_id).read_text().splitlines())
        for broker_id in (1, 2)
    ]
    assert [properties["broker.id"] for properties in found] == ["1", "2"]
    assert [properties["a"] for properties in found] == ["all", "second"]
    assert found[0]["log.dirs"] == "elsewhere"
    assert found[1]["listeners"] == "PLAINTEXT://127.0.0.1:19093"
    assert found[1]["zookeeper.connect"] == "zk:2181/x"


def test_only_the_owner_reads_server_properties(tmp_path: Path) -> None:
    password = {"listener.name.client.plain.sasl.jaas.config": 'x required user_a="planted";'}
    cluster = LocalCluster(tmp_path, 1, port_base=19092, zookeeper="zk:2181/x", overrides=password)
    path = cluster._write_properties(1)
    path.chmod(0o644)
    assert "planted" in cluster._write_properties(1).read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_program_with_an_open_cluster_loads_neither_kazoo_nor_twisted() -> None:
    code = "import sys, kafkalite.embedded.cluster; print({'kazoo', 'twisted'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


def test_before_there_is_a_zookeeper(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1, port_base=19092)
    with pytest.raises(StartupError, match="has not been started"):
        _ = cluster.zookeeper
    with pytest.raises(StartupError, match="no ZooKeeper of its own"):
        _ = cluster.embedded_zookeeper
    assert not cluster.is_alive(1)


def test_the_answer_to_the_probe() -> None:
    brokers = [(1, b"one", 9092, b"rack-a"), (7, b"seven.example", 9093, None)]
    frame = struct.pack(">i", len(brokers))
    for broker_id, host, port, rack in brokers:
        frame += struct.pack(f">ih{len(host)}si", broker_id, len(host), host, port)
        frame += struct.pack(">h", -1) if rack is None else struct.pack(f">h{len(rack)}s", len(rack), rack)
    frame += struct.pack(">ii", 7, 0)
    assert _view(memoryview(frame)) == ClusterView({1: ("one", 9092), 7: ("seven.example", 9093)}, 7)


def test_the_probe_of_a_secured_broker_waits_no_longer_than_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(host: str, port: int, client: ClientConfig) -> None:
        waits = client.connection_timeout_ms, client.request_timeout_ms
        raise BrokerUnreachableError(f"no answer of {client.client_id} from {host}:{port} within {waits}")

    monkeypatch.setattr(probe, "SparkConnection", connect)
    with pytest.raises(OSError, match=r"no answer of a from h:1 within \(500, 500\)"):
        ask("h", 1, timeout=0.5, client=ClientConfig((), client_id="a"))


@pytest.mark.parametrize("incoming", [b"", b"\0\0\0\2no", answer(7, bytes(8)), answer(1, b"cut")])
def test_the_probe_reports_a_port_without_a_broker_as_an_os_error(
    incoming: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BlockingConnection, "open", lambda *_: connection_to(incoming)[0])
    with pytest.raises(OSError):
        ask("127.0.0.1", 9092)


def test_a_broker_that_an_operator_restarted_is_found_by_its_file(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    known = BrokerAddress(1, "127.0.0.1", 9092, 2**22 - 1, str(tmp_path), None)
    assert not broker_process(known).is_alive()
    sleep = "import time; time.sleep(600)"
    with (
        subprocess.Popen([sys.executable, "-c", sleep, "tail", str(config)]) as other,
        subprocess.Popen([sys.executable, "-c", sleep, "broker", "start", "--config", str(config)]) as broker,
    ):
        try:
            while not broker_process(known).is_alive():
                assert broker.poll() is None
            assert broker_process(known).pid == broker.pid
        finally:
            other.kill()
            broker.kill()
