"""The compose files: an ensemble and three brokers, open and secured; brokers beside an existing ZooKeeper."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.exceptions import NoAuthError

from integration.blocks import blocks_of
from integration.conftest import SOAK
from integration.containers.compose import Compose
from integration.containers.daemon import DockerError, docker
from integration.containers.steady_load import SteadyLoad
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from kafkalite.embedded.processes import free_ports

BROKERS = ("broker-1", "broker-2", "broker-3")
SERVERS = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
PARTITIONS = 6
LONGEST_GAP = 15.0
"""Seconds for which a partition may be without acknowledgements, also on a machine that stalls for seconds. An idle one
takes less than one, and a broker whose session must expire first takes 18."""
SECONDS = 10.0 if SOAK else 3.0
"""Seconds for which requests to ZooKeeper are counted."""
FEW = 5.0
"""Requests a second: heartbeats, and the last requests of the start."""
READY = 300.0


class Brokers:
    """The three brokers of a compose file, and the ports at which this machine reaches them."""

    def __init__(self, ports: list[int], compose: Compose) -> None:
        self.compose = compose
        self.bootstrap = ",".join(f"localhost:{port}" for port in ports)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def wait_until_healthy(self) -> None:
        """Wait until all brokers are healthy."""
        for service in BROKERS:
            wait_for(partial(self.compose.healthy, service), f"{service} is healthy", timeout=READY)

    def create(self, topic: str, **configs: str) -> None:
        """Create a topic with the cluster's default number of replicas."""
        [created] = self.admin.create_topics([NewTopic(topic, PARTITIONS, -1, config=configs)]).values()
        created.result(60)
        self.wait_in_sync(topic)

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every replica of ``topic`` is in sync."""

        def in_sync() -> bool:
            partitions = self.admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
            return [len(partition.isrs) for partition in partitions] == [len(BROKERS)] * PARTITIONS

        wait_for(in_sync, f"the replicas of {topic} are in sync", timeout=READY)


@pytest.fixture
def ports() -> list[int]:
    """Ports of the brokers on this machine."""
    return free_ports(len(BROKERS), "0.0.0.0")


@pytest.fixture
def environment(broker_image: str, zookeeper_image: str, ports: list[int]) -> dict[str, str]:
    """The environment variables of both compose files."""
    numbered = {f"BROKER_{number}_PORT": str(port) for number, port in enumerate(ports, 1)}
    return {"KAFKALITE_IMAGE": broker_image, "ZOOKEEPER_IMAGE": zookeeper_image, **numbered}


@pytest.fixture
def cluster(environment: dict[str, str], ports: list[int]) -> Iterator[Brokers]:
    """The cluster of ``compose.yaml``."""
    with Compose("compose.yaml", environment) as compose:
        compose("up", "--detach", "--no-build")
        brokers = Brokers(ports, compose)
        brokers.wait_until_healthy()
        yield brokers


def shown(heading: str) -> list[str]:
    """The shell scripts of docs/deploy.md below a heading."""
    return [block.text for block in blocks_of("docs/deploy.md", __file__, heading)]


def slowness() -> float:
    """How many times slower this machine is now than an idle one."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def ask(compose: Compose, word: str) -> list[str]:
    """The lines of each server's answer to a four-letter word."""
    script = f"exec 3<>/dev/tcp/127.0.0.1/2181 && echo {word} >&3 && cat <&3"
    return [line for server in SERVERS for line in compose.run(server, "bash", "-c", script).splitlines()]


def requests(compose: Compose) -> int:
    """Requests of all open sessions, with their heartbeats, but without four-letter words."""
    return sum(int(found[1]) for line in ask(compose, "cons") if (found := re.search(r"recved=(\d+).*sid=0x", line)))


def report(compose: Compose, what: str) -> float:
    """Print ZooKeeper's load over some seconds; returns the requests a second."""
    before, began = requests(compose), time.monotonic()
    time.sleep(SECONDS)
    rate = (requests(compose) - before) / (time.monotonic() - began)
    figures: dict[str, int] = {}
    for name, _, value in (line.partition("\t") for line in ask(compose, "mntr")):
        if value.isdigit():
            figures[name] = figures.get(name, 0) + int(value)
    print(
        f"ZooKeeper, {what}: {figures['zk_znode_count'] // len(SERVERS)} znodes, {figures['zk_watch_count']} watches, "
        f"{figures['zk_approximate_data_size'] // len(SERVERS)} bytes, {rate:.1f} requests/s",
        flush=True,
    )
    return rate


@pytest.mark.full
@pytest.mark.timeout(2400)
def test_an_upgrade_under_load_then_a_backup_and_its_restore(cluster: Brokers, tmp_path: Path) -> None:
    compose = cluster.compose
    wait_for(lambda: report(compose, "three idle brokers") < FEW, "the requests of the start have ended", 120)
    cluster.create("orders")
    for number, service in enumerate(BROKERS, 1):
        inside = compose.run(service, "kafkalite", "topics", "--bootstrap-server", f"{service}:19092", "--describe")
        assert "Topic: orders" in inside
        assert f"rack-{number}" in compose.run(service, "cat", "/run/kafkalite/server.properties")
    with SteadyLoad(cluster.bootstrap, "orders", PARTITIONS) as load:
        load.wait_for_more(1000)
        wait_for(lambda: report(compose, "a producer of 300 records/s, no group") < FEW, "few requests", 120)
        read_in_group(compose, "orders", "readers")
        report(compose, "the same, and a group of one member")
        load.forget_gaps()
        load.wait_for_more(1000)
        idle = load.forget_gaps()
        [upgrade] = shown("Upgrades")
        compose.shell(upgrade, tmp_path)
        load.wait_for_more(300)
        restarted, slow = load.forget_gaps(), slowness()
    print(
        f"longest gaps of the partitions, undisturbed: {', '.join(f'{gap:.3f}' for gap in idle)} s; "
        f"rolling restart: {', '.join(f'{gap:.3f}' for gap in restarted)} s; machine {slow:.1f} times overbooked",
        flush=True,
    )
    assert not load.errors
    assert load.acknowledged == load.sent
    assert max(restarted) < LONGEST_GAP * slow
    assert count(cluster.bootstrap, "orders", "before") == load.sent
    report(compose, "no more load, a group has been")

    backup, restore = shown("Backup and restore")
    compose.shell(backup, tmp_path)
    compose.shell(restore, tmp_path)
    cluster.wait_until_healthy()
    assert count(cluster.bootstrap, "orders", "after") == load.sent
    # The restored offsets of the group are at the end, too.
    assert count(cluster.bootstrap, "orders", "before") == 0


def read_in_group(compose: Compose, topic: str, group: str) -> None:
    """Start a consumer of ``topic`` in the first broker's container; returns after its first commit."""
    where = ("--bootstrap-server", "broker-1:19092", "--group", group)
    docker("exec", "--detach", compose.container("broker-1"), "kafkalite", "consume", "--topic", topic, *where)
    describe = ("broker-1", "kafkalite", "groups", "--describe", *where)
    wait_for(lambda: topic in compose.run(*describe), "the group has committed", timeout=READY)


def count(bootstrap: str, topic: str, group: str) -> int:
    """Number of records of ``topic`` that are new to ``group``, whose consumer commits every second."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found, ended = 0, set[int]()
    deadline = time.monotonic() + READY
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error():
            ended.add(message.partition() or 0)
        elif message is not None:
            found += 1
    consumer.close()
    return found


@pytest.mark.full
def test_the_secured_cluster_admits_its_users_only(
    environment: dict[str, str], ports: list[int], tmp_path: Path
) -> None:
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with Compose("compose.secured.yaml", environment) as compose:
        start, use = shown("Secured")
        compose.shell(start, tmp_path)
        Brokers(ports, compose).wait_until_healthy()
        compose.shell(use, tmp_path)

        file = tmp_path / "login" / "client.properties"
        client = {"log_level": 0, "bootstrap.servers": f"localhost:{ports[0]}"}
        login = dict(line.split("=", 1) for line in file.read_text().splitlines())
        consumer = Consumer({**client, **login, "group.id": "kitchen", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        [record] = consumer.consume(1, READY)
        consumer.close()
        assert record.value() == b"one coffee"
        [topic] = AdminClient({**client, **login}).list_topics(timeout=60).topics.values()
        assert {len(partition.replicas) for partition in topic.partitions.values()} == {len(BROKERS)}

        errors: list[KafkaError] = []
        refused = Producer({**client, **login, "sasl.password": "wrong", "error_cb": errors.append})

        def is_refused() -> bool:
            refused.poll(0.1)
            return KafkaError._AUTHENTICATION in [error.code() for error in errors]

        wait_for(is_refused, "the wrong password is refused", timeout=READY)
        other = "exec 3<>/dev/tcp/zookeeper-2/{} && echo srvr >&3 && cat <&3"
        with pytest.raises(DockerError, match="refused"):
            compose.run("zookeeper-1", "bash", "-c", other.format(2181))
        assert "Mode" not in compose.run("zookeeper-1", "timeout", "5", "bash", "-c", other.format(2182) + " || true")


def test_beside_an_existing_zookeeper_and_away_again(
    environment: dict[str, str], ports: list[int], zookeeper_image: str, network: str
) -> None:
    [port] = free_ports(1, "0.0.0.0")
    theirs = docker("run", "--detach", "--network", network, "--publish", f"{port}:2181", zookeeper_image)
    gateway = docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", network)
    address = f"{gateway}:{port}"
    environment |= {
        "ZOOKEEPER_CONNECT": f"{address}/apps/kafkalite",
        "ZOOKEEPER_AUTH": "kafkalite:secret",
        "ZOOKEEPER_SET_ACL": "true",
    }
    with Compose("compose.existing-zookeeper.yaml", environment) as compose:
        compose("up", "--detach")
        brokers = Brokers(ports, compose)
        brokers.wait_until_healthy()
        brokers.create("orders")
        with Tree(address) as tree:
            assert tree.names("/") == ["apps", "zookeeper"]
            assert tree.names("/apps") == ["kafkalite"]
            with pytest.raises(NoAuthError):
                tree.zk.set("/apps/kafkalite/brokers/topics/orders", b"{}")
    [away] = shown("How to leave again")
    answers = away.partition("<<END\n")[2].removesuffix("END\n")
    cli = ("exec", "--interactive", theirs, "zkCli.sh", "-server", "127.0.0.1:2181")
    refused = docker(*cli, stdin=answers.partition("\n")[2], check=False, both=True)
    assert "Insufficient permission" in refused, "without the password no client can delete it"
    with Tree(address) as tree:
        assert tree.names("/apps") == ["kafkalite"]
        docker(*cli, stdin=answers)
        assert tree.names("/apps") == []
