"""State of a cluster under test, read from ZooKeeper and the brokers' files: leaders, ISRs, contents of the logs."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import psutil
from confluent_kafka.admin import NewTopic
from kafka import TopicPartition as LibraryPartition
from kafka.admin import KafkaAdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from integration.faults.history import Batch, compare_replicas
from integration.harness.admin import ask_controller
from integration.harness.logins import zookeeper_security
from integration.harness.wait import PATIENCE, wait_for
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.znodes import read_znodes
from kafkalite.record.batch import CorruptRecordError, iter_headers

PREFERRED = 0


class Cluster(Protocol):
    """A cluster as its clients see it; its brokers may run in processes or in containers."""

    @property
    def bootstrap(self) -> str: ...
    @property
    def zookeeper(self) -> str: ...
    @property
    def broker_ids(self) -> list[int]: ...


def create_topic(cluster: Cluster, topic: str, partitions: int, dead: int = 0) -> None:
    """Create a topic with replicas on all brokers and wait until every partition is led and in sync.

    ``dead``: number of the brokers that are down and therefore cannot be in sync.
    """
    brokers = cluster.broker_ids
    assignment = [brokers[p % len(brokers) :] + brokers[: p % len(brokers)] for p in range(partitions)]
    new = NewTopic(topic, partitions, replica_assignment=assignment)
    ask_controller(cluster.bootstrap, lambda client: client.create_topics([new]), done=["TOPIC_ALREADY_EXISTS"])
    wait_in_sync(cluster, topic, partitions, len(brokers) - dead)


def states(cluster: Cluster, topic: str, partitions: int) -> dict[int, dict[str, Any]]:
    """The partition states in ZooKeeper."""
    paths = {p: f"/brokers/topics/{topic}/partitions/{p}/state" for p in range(partitions)}
    found = read_znodes(cluster.zookeeper, paths.values(), zookeeper_security())
    return {p: json.loads(found[path]) for p, path in paths.items() if path in found}


def wait_in_sync(cluster: Cluster, topic: str, partitions: int, factor: int = 3, timeout: float = PATIENCE) -> None:
    """Wait until every partition is led and has all its replicas in its ISR."""

    def in_sync() -> bool:
        found = states(cluster, topic, partitions)
        if len(found) == partitions and all(s["leader"] >= 0 and len(s["isr"]) == factor for s in found.values()):
            return True
        raise LookupError(f"{found}")

    wait_for(in_sync, f"{topic} is in sync", timeout)


def wait_led_by_others(cluster: Cluster, topic: str, partitions: int, victim: int, timeout: float = PATIENCE) -> None:
    """Wait until every partition has a leader other than ``victim``."""

    def led() -> bool:
        found = states(cluster, topic, partitions)
        if all(state["leader"] not in (-1, victim) for state in found.values()):
            return True
        raise LookupError(f"{found}")

    wait_for(led, f"others than {victim} lead {topic}", timeout)


def controller(cluster: Cluster) -> int:
    """The id of the controller. Raises ``LookupError`` while there is none."""
    data = read_znodes(cluster.zookeeper, ["/controller"], zookeeper_security())["/controller"]
    return int(json.loads(data)["brokerid"])


def move_leader(cluster: Cluster, topic: str, partition: int, leader: int) -> None:
    """Make ``leader`` the preferred replica and have it elected; returns when it leads by its state in ZooKeeper."""
    path = f"/brokers/topics/{topic}"
    replicas = json.loads(read_znodes(cluster.zookeeper, [path])[path])["partitions"][str(partition)]
    order = [leader, *(replica for replica in replicas if replica != leader)]
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","), bootstrap_timeout_ms=30000)
    try:

        def asked() -> bool:
            refused = admin.alter_partition_reassignments({LibraryPartition(topic, partition): order}, timeout_ms=15000)
            if any(refused.values()):
                raise LookupError(f"{refused}")
            return True

        # Repeat, because a dying or a newly elected controller refuses the request for a short time only.
        wait_for(asked, f"the replicas of {topic}-{partition} are to be {order}")

        def elected() -> bool:
            admin.elect_leaders(PREFERRED, {topic: [partition]}, raise_errors=False)
            return bool(states(cluster, topic, partition + 1)[partition]["leader"] == leader)

        wait_for(elected, f"broker {leader} leads {topic}-{partition}")
    finally:
        admin.close()


def delete_znodes(cluster: Cluster, *paths: str) -> None:
    """Delete znodes with their children, as an operator does by ``deleteall``."""
    client = KazooClient(cluster.zookeeper)
    client.start(15)
    try:
        for path in paths:
            with contextlib.suppress(NoNodeError):
                client.delete(path, recursive=True)
    finally:
        client.stop()
        client.close()


def is_registered(cluster: Cluster, broker_id: int) -> bool:
    """Whether the broker's znode exists."""
    return bool(read_znodes(cluster.zookeeper, [f"/brokers/ids/{broker_id}"], zookeeper_security()))


def guardian(cluster: LocalCluster, broker_id: int) -> psutil.Process:
    """The broker's guardian process. Raises ``LookupError`` if there is none."""
    for child in psutil.Process(cluster.pid(broker_id)).children():
        if any("guardian" in word for word in child.cmdline()):
            return child
    raise LookupError(f"broker {broker_id} has no guardian")


def read_batches(partition_dir: Path) -> list[Batch]:
    """All batches of a partition's segments, in order. Raises ``LookupError`` while a batch is only partly written."""
    batches = []
    for segment in sorted(partition_dir.glob("*.log")):
        data = memoryview(segment.read_bytes())
        try:
            headers = list(iter_headers(data))
        except CorruptRecordError as error:
            raise LookupError(f"{segment}: {error}") from error
        for position, header in headers:
            crc = zlib.crc32(data[position : position + header.size])
            batches.append(Batch(header.base_offset, header.last_offset, header.leader_epoch, crc))
    return batches


def compare_logs(cluster: LocalCluster, topic: str, partitions: int, brokers: Iterable[int] | None = None) -> int:
    """Wait until the replicas' logs are equal batch for batch; returns the number of batches.

    No client may produce meanwhile. Raises ``AssertionError`` with the differences if the logs do not become equal.
    """
    total = 0
    for partition in range(partitions):
        name = f"{topic}-{partition}"
        dirs = {b: cluster.broker_dir(b) / "data" / name for b in brokers or cluster.broker_ids}
        breaches: list[str] = []

        def equal(name: str = name, dirs: dict[int, Path] = dirs, breaches: list[str] = breaches) -> bool:
            logs = {broker: read_batches(path) for broker, path in dirs.items()}
            breaches[:] = compare_replicas(name, logs)
            if breaches:
                raise LookupError("\n".join(breaches[:5]))
            return True

        wait_for(equal, f"the replicas of {name} are equal", 60.0, 0.5)
        total += len(read_batches(next(iter(dirs.values()))))
    return total
