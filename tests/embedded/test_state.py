"""``cluster.json``, ``server.properties`` of a local cluster, and the little Metadata codec of the probe."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.probe import ClusterView, _decode
from kafkalite.embedded.processes import ServerProcess
from kafkalite.embedded.state import (
    BrokerAddress,
    read_brokers,
    read_state,
    stop_cluster,
    write_state,
    zookeeper_port,
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert (read_state(tmp_path), read_brokers(tmp_path), zookeeper_port(tmp_path)) == (None, [], 0)
    brokers = [BrokerAddress(n, "127.0.0.1", 9000 + n, 100 + n, str(tmp_path / f"broker-{n}")) for n in (1, 2)]
    write_state(tmp_path, "127.0.0.1:2181/chroot", brokers)
    state = read_state(tmp_path)
    assert state is not None
    assert state["bootstrap"] == "127.0.0.1:9001,127.0.0.1:9002"
    assert set(state["brokers"][0]) == {"id", "host", "port", "pid", "dir"}
    assert read_brokers(tmp_path) == brokers
    assert zookeeper_port(tmp_path) == 2181
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"], "nothing temporary is left"


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
    assert found[1]["listeners"] == "PLAINTEXT://127.0.0.1:19093,CONTROLPLANE://127.0.0.1:19095"
    assert found[1]["zookeeper.connect"] == "zk:2181/x"


def test_before_there_is_a_zookeeper(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1, port_base=19092)
    with pytest.raises(StartupError, match="has not been started"):
        _ = cluster.zookeeper
    with pytest.raises(StartupError, match="no ZooKeeper of its own"):
        _ = cluster.embedded_zookeeper
    assert not cluster.is_alive(1)


def test_the_answer_to_the_probe() -> None:
    brokers = [(1, b"one", 9092, b"rack-a"), (7, b"seven.example", 9093, None)]
    frame = struct.pack(">ii", 1, len(brokers))
    for broker_id, host, port, rack in brokers:
        frame += struct.pack(f">ih{len(host)}si", broker_id, len(host), host, port)
        frame += struct.pack(">h", -1) if rack is None else struct.pack(f">h{len(rack)}s", len(rack), rack)
    frame += struct.pack(">ii", 7, 0)
    assert _decode(frame) == ClusterView({1: ("one", 9092), 7: ("seven.example", 9093)}, 7)
