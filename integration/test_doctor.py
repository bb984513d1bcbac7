"""``kafkalite doctor`` on a live cluster: nothing on a healthy one; planted faults are found, and their mends work."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from integration.conftest import ClusterFactory
from integration.harness.clients import wait_known
from integration.harness.commands import command, process
from integration.harness.raw import RawClient, batch
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.embedded.state import broker_process, read_brokers, read_state
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient

pytestmark = pytest.mark.kafkalite_only
OVERRIDES = {
    "transaction.partition.verification.enable": "false",
    "zookeeper.session.timeout.ms": "30000",
    # Otherwise a new controller moves leaderships back after five seconds.
    "auto.leader.rebalance.enable": "false",
}
LONG_AGO_MS = 1_700_000_000_000
PARTITIONS = 6
OWN_COMMAND = 'kafkalite() { "$PYTHON" -m kafkalite.cli.main "$@"; }; '
STALLS = ("clocks-differ", "zookeeper-slow")
"""Checks that measure time."""
Place = tuple[str, str]
"""Check and place of a finding."""


class Patient:
    """A cluster, its tree, and the findings of the doctor's latest visit."""

    def __init__(self, cluster: LocalCluster, loop: BlockingLoop) -> None:
        self.cluster = cluster
        self.mends: dict[Place, list[str]] = {}
        self._loop = loop
        self._client = KazooZkClient(loop.call_from_thread, cluster.zookeeper, 12000)
        loop.run(self._client.start())

    def close(self) -> None:
        self._loop.run(self._client.close())
        # Also those that a mend has started.
        for broker in read_brokers(self.cluster.directory):
            broker_process(broker).kill()

    def examine(self, *flags: str) -> set[Place]:
        """The places of all findings; the exit code is that of the worst."""
        where = flags or ("--bootstrap-server", self.cluster.bootstrap)
        outcome = command("doctor", *where, "--interval", "1", "--json", code=None)
        found = outcome.json["findings"]
        assert outcome.code == max((2 if each["severity"] == "error" else 1 for each in found), default=0), found
        self.mends = {(each["check"], each["where"]): each["mend"] for each in found}
        return set(self.mends)

    def wait(self, until: Callable[[set[Place]], bool], what: str, *flags: str) -> set[Place]:
        """Examine until the findings are as expected, but for those that the stalls of a busy machine give."""
        seen: list[set[Place]] = []

        def has_come() -> bool:
            seen.append({place for place in self.examine(*flags) if place[0] not in STALLS})
            return until(seen[-1])

        try:
            wait_for(has_come, what, 120)
        except AssertionError:
            raise AssertionError(f"{what}: {sorted(seen[-1])}") from None
        return seen[-1]

    def mend(self, check: str, where: str) -> None:
        """Run the commands that a finding names: ours in this process, others in a shell."""
        for line in self.mends[check, where]:
            words = shlex.split(line, comments=True)
            if words[0] == "kafkalite" and words[1] != "broker":
                command(*words[1:])
            else:
                self.shell(line)

    def mend_files(self, known: Mapping[int, Mapping[str, str]]) -> None:
        """Run the commands of all findings that are mended in the files of brokers, and restart each broker once.

        ``known``: what only the operator knows, by broker and by the words in brackets that stand for it.
        """
        restarts = {}
        for lines in self.mends.values():
            if not lines[0].startswith("sed -i "):
                continue
            edit, restart = lines
            broker_id = int(re.findall(r"/broker-(\d+)/server.properties", edit)[-1])
            restarts[broker_id] = restart
            words = sorted(set(re.findall(r"<[^>]*>", edit)))
            for word in words:
                edit = edit.replace(word, known[broker_id][word])
            self.shell(edit)
        assert sorted(restarts) == self.cluster.broker_ids
        for restart in restarts.values():
            self.shell(restart)

    def shell(self, line: str) -> None:
        """Run a command as an operator types it; what serves in the foreground goes on."""
        environment = {**os.environ, "PYTHON": sys.executable}
        with subprocess.Popen(
            ["bash", "-e", "-c", OWN_COMMAND + line],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as shell:
            if line.startswith("kafkalite broker start"):
                shell.returncode = 0  # The broker ends with the test, and is not waited for.
                return
            while shell.poll() is None:
                # Brokers are children of this process: tail sees them until it has taken note of their end.
                for broker_id in self.cluster.broker_ids:
                    self.cluster.is_alive(broker_id)
                time.sleep(0.05)
            assert shell.returncode == 0, line

    def read(self, path: str) -> Any:
        return json.loads(self._loop.run(self._client.get(path))[0])

    def write(self, path: str, data: bytes) -> None:
        exists = self._loop.run(self._client.exists(path))
        self._loop.run(self._client.set(path, data) if exists else self._client.create(path, data))

    def topic(self, name: str, partitions: int, factor: int, **config: object) -> None:
        """A topic; underscores in the names of configurations stand for dots.

        Waits until each partition is led, and until every broker knows the topic, because commands ask any broker.
        """
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        Confluent().create_topic(self.cluster.bootstrap, name, partitions, factor, settings)
        for partition in range(partitions):
            wait_for(partial(self.read, f"/brokers/topics/{name}/partitions/{partition}/state"), name)
        wait_known(Confluent(), self.cluster, name, partitions)


@pytest.fixture
def patient(make_cluster: ClusterFactory, loop: BlockingLoop) -> Iterator[Patient]:
    """Three brokers, as ``kafkalite cluster start`` starts them, and a topic with three replicas."""
    made = Patient(make_cluster(3, OVERRIDES), loop)
    made.topic("healthy", PARTITIONS, 3, min_insync_replicas=2)
    yield made
    made.close()


@contextmanager
def produced(cluster: LocalCluster, topic: str) -> Iterator[None]:
    """A producer writes to partition 0 of ``topic`` until the end of the block."""
    ended = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        while not ended.wait(0.05):
            producer.produce(topic, b"value", partition=0)
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def plant_in_properties(cluster: LocalCluster) -> dict[int, dict[str, str]]:
    """Restart brokers 2 and 3 with configurations that contradict each other, or the other brokers.

    Returns what the operator knows by which that is mended.
    """
    own, other = cluster.address(2), cluster.address(1)
    [port] = free_ports(1)
    listeners = {
        "listeners": f"PLAINTEXT://{own},EXTRA://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://{own},EXTRA://{other}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
    }
    cluster.restart_broker(2, {**listeners, "zookeeper.session.timeout.ms": "900000"})
    contradictions = {
        "inter.broker.protocol.version": "3.8",
        "group.min.session.timeout.ms": "1900000",
        "min.insync.replicas": "2",
    }
    cluster.restart_broker(3, contradictions)
    known = {
        broker_id: {"<all of EXTRA, PLAINTEXT>": f"PLAINTEXT://{cluster.address(broker_id)},EXTRA://127.0.0.1:{free}"}
        for broker_id, free in zip((1, 3), free_ports(2), strict=True)
    }
    return {**known, 2: {"<the address at which it is reached>": listeners["listeners"]}}


IN_PROPERTIES = {
    ("listener-missing", "broker 1"),
    ("listener-missing", "broker 3"),
    ("session-timeout-limits", "broker 2"),
    ("versions-differ", "broker 3"),
    ("group-session-limits", "broker 3"),
    ("default-min-isr", "broker 3"),
}


def plant_while_running(patient: Patient) -> None:
    """Faults of topics, znodes, transactions, groups and limits."""
    cluster = patient.cluster
    patient.topic("strict", 1, 2, min_insync_replicas=3)
    patient.topic("brief", 1, 3, retention_ms=60000)
    patient.topic("small", 1, 3, retention_bytes=100000)
    # Its own value, because broker 3 would tell its default, which is above the one replica.
    single = ("--topic", "single", "--replica-assignment", 1, "--config", "min.insync.replicas=1")
    command("topics", "--bootstrap-server", cluster.bootstrap, "--create", *single)
    patient.topic("odd", 1, 3)
    patient.write("/config/topics/odd", b'{"version":1,"config":{"retention.ms":"one day"}}')
    patient.write("/config/topics/healthy", b"no JSON")
    patient.write("/controller_epochs", b"")
    registration = patient.read("/brokers/ids/1")
    patient.write("/brokers/ids/1", json.dumps({**registration, "timestamp": str(LONG_AGO_MS)}).encode())
    with RawClient(cluster.address(1)) as client:
        wait_for(lambda: client.leads("single", 1), "the topic is led", 60)
        lost = batch(2, producer=(4_000_000, 3), sequence=0, transactional=True, timestamp=LONG_AGO_MS)
        assert client.produce("single", lost, transactional_id="lost").error == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("brief", 0, 0)], asynchronous=False)
    consumer.close()
    _, hard = resource.prlimit(cluster.pid(1), resource.RLIMIT_NOFILE)
    opened = len(os.listdir(f"/proc/{cluster.pid(1)}/fd"))
    resource.prlimit(cluster.pid(1), resource.RLIMIT_NOFILE, (opened + 90, hard))


BY_COMMAND = {
    ("min-isr-above-replicas", "topic strict"),
    ("retention-below-segment-time", "topic brief"),
    ("retention-below-segment-size", "topic small"),
    ("one-replica", "topic single"),
    ("znode-schema", "znode /config/topics/odd"),
    ("znode-schema", "znode /config/topics/healthy"),
    ("znode-schema", "znode /controller_epochs"),
    ("transaction-hangs", "partition single-0"),
    ("open-files", "broker 1"),
    ("leaders-unbalanced", "broker 3"),
}


@pytest.mark.full
def test_planted_faults_are_found_and_mended(patient: Patient) -> None:
    """Twenty-five faults on one cluster, which has no finding before and none at the end."""
    cluster = patient.cluster
    patient.wait(lambda found: found == set(), "nothing is wrong")

    known = plant_in_properties(cluster)
    plant_while_running(patient)
    duplicate = ("listener-duplicate", f"listener {cluster.address(1)}")
    expected = {*IN_PROPERTIES, *BY_COMMAND, duplicate, ("group-abandoned", "group readers")}
    with produced(cluster, "brief"):
        found = patient.wait(lambda found: expected <= found, "the planted faults are found")
    assert ("clocks-differ", "broker 1") in patient.mends
    # The restarts moved the leaderships of brokers 2 and 3; nothing else was planted.
    assert {check for check, _ in found - expected} <= {"leaders-unbalanced"}

    for place in BY_COMMAND:
        patient.mend(*place)
    # The first command of this one starts a consumer.
    patient.mends["group-abandoned", "group readers"].pop(0)
    patient.mend("group-abandoned", "group readers")
    patient.mend_files(known)
    wait_for(lambda: all_in_sync(patient), "all replicas are in sync", 60)
    patient.wait(lambda found: {check for check, _ in found} <= {"leaders-unbalanced"}, "the mends have worked")

    # The processes are those that the mends started.
    cluster = patient.cluster = LocalCluster.running(cluster.directory)
    assert all(cluster.is_alive(broker_id) for broker_id in cluster.broker_ids)
    controller = patient.read("/controller")["brokerid"]
    stopped, killed = (broker_id for broker_id in cluster.broker_ids if broker_id != controller)
    patient.topic("alone", 1, 1)
    command("reassign", "--bootstrap-server", cluster.bootstrap, *plan_for(cluster, "alone", [killed]))
    wait_for(lambda: patient.read("/brokers/topics/alone/partitions/0/state")["leader"] == killed, "it has moved", 60)
    cluster.kill_broker(killed)
    cluster.pause_broker(stopped)
    [gone] = free_ports(1)
    expected = {
        ("broker-down", f"broker {killed}"),
        ("under-replicated", f"broker {killed}"),
        ("partition-offline", "alone-0"),
        ("one-replica", "topic alone"),
        ("zookeeper-server-down", f"ZooKeeper server 127.0.0.1:{gone}"),
        ("not-examined", "groups and transactions"),
    }
    flags = ("--zookeeper", f"127.0.0.1:{gone},{cluster.zookeeper}")
    found = patient.wait(lambda found: expected <= found, "the planted faults are found", *flags)
    # On a machine that stalls, the session of the stopped broker may have ended.
    [place] = found & {(check, f"broker {stopped}") for check in ("broker-silent", "broker-down")}
    patient.mend(*place)
    patient.mend("broker-down", f"broker {killed}")
    wait_for(lambda: all_in_sync(patient), "all replicas are in sync", 60)
    for check, where in patient.wait(lambda found: ("one-replica", "topic alone") in found, "one replica is too few"):
        if check in ("leaders-unbalanced", "one-replica"):
            patient.mend(check, where)
    patient.wait(lambda found: found == set(), "nothing is wrong")
    assert ("zookeeper-unreachable", "ZooKeeper 127.0.0.1:1") in patient.examine("--zookeeper", "127.0.0.1:1")


@pytest.mark.parametrize(
    "flags", [(), pytest.param(("--relay-zookeeper",), marks=pytest.mark.full)], ids=["direct", "relayed"]
)
def test_a_fresh_cluster_start_has_no_finding(flags: tuple[str, ...], tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    process("cluster", "start", "--dir", directory, "--brokers", 3, "--detach", *flags)
    try:
        state = read_state(directory)
        assert state is not None
        brokers, zookeeper = ("--bootstrap-server", state["bootstrap"]), ("--zookeeper", state["zookeeper"])
        topic = ("--topic", "orders", "--partitions", 3, "--replication-factor", 3)
        command("topics", *brokers, "--create", *topic)
        found: list[dict[str, Any]] = []

        def nothing(*where: object) -> bool:
            outcome = command("doctor", *where, "--interval", "1", "--json", code=None)
            found[:] = outcome.json["findings"]
            assert outcome.code == 0 or found
            return {each["check"] for each in found} <= set(STALLS)

        try:
            for where in (brokers, zookeeper):
                wait_for(lambda: nothing(*where), "the topic is led and in sync", timeout=60)  # noqa: B023
        except AssertionError:
            raise AssertionError(found) from None
    finally:
        process("cluster", "stop", "--dir", directory)


def states(patient: Patient) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """Replicas and state of each partition."""
    for name in ("healthy", "strict", "brief", "small", "single", "odd"):
        for partition, replicas in patient.read(f"/brokers/topics/{name}")["partitions"].items():
            yield replicas, patient.read(f"/brokers/topics/{name}/partitions/{partition}/state")


def all_in_sync(patient: Patient) -> bool:
    return all(sorted(state["isr"]) == sorted(replicas) for replicas, state in states(patient))


def plan_for(cluster: LocalCluster, topic: str, replicas: list[int]) -> tuple[str, ...]:
    """The flags that move partition 0 of ``topic``."""
    plan = cluster.directory / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}))
    return ("--execute", "--reassignment-json-file", str(plan))
