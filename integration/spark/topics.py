"""Topics for the tests of Spark, filled by librdkafka."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from integration.harness.admin import ask_controller
from integration.harness.clients import fresh_topic
from integration.harness.records import Item
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

Row = tuple[bytes | None, bytes | None, str, int, int, int, int, tuple[tuple[str, bytes | None], ...] | None]
"""Key, value, topic, partition, offset, milliseconds, timestamp type, headers."""


def new_topic(cluster: LocalCluster, prefix: str, partitions: int = 1, *, replicas: int = 1, **config: str) -> str:
    """Create a topic and wait until its partitions have leaders."""
    topic = fresh_topic(prefix)
    settings = {name.replace("_", "."): value for name, value in config.items()}
    wanted = NewTopic(topic, partitions, replicas, config=settings)
    ask_controller(cluster.bootstrap, lambda admin: admin.create_topics([wanted]), done=("TOPIC_ALREADY_EXISTS",))
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def led() -> bool:
        found = client.list_topics(topic, timeout=10).topics[topic].partitions
        return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())

    wait_for(led, f"{topic} is led")
    return topic


def produce(
    cluster: LocalCluster, topic: str, items: Sequence[Item], codec: str = "none", *, transaction: str = ""
) -> None:
    """Send ``items``; with ``transaction`` as one transaction that ends by ``commit`` or ``abort``."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": cluster.bootstrap,
        "compression.type": codec,
        # Long, so that a batch ends when it is full or by `flush`, which does not wait for the linger time.
        "linger.ms": 20_000,
        "log_level": 0,
    }
    if transaction:
        settings["transactional.id"] = f"{topic}-{transaction}-{len(items)}"
    producer = Producer(settings)
    # Wait until the client knows all partitions, because a broker may not have heard of new ones yet, and records of a
    # topic that is not looked up wait apart: those that arrive during `flush` are sent at once, each in its own batch.
    needed = {item.partition for item in items}
    wait_for(
        lambda: needed <= producer.list_topics(topic, timeout=60).topics[topic].partitions.keys(),
        f"the partitions {sorted(needed)} of {topic}",
    )
    if transaction:
        producer.init_transactions(60)
        producer.begin_transaction()
    for item in items:
        producer.produce(
            topic, item.value, item.key, item.partition, timestamp=item.timestamp, headers=list(item.headers)
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    if transaction == "commit":
        producer.commit_transaction(60)
    elif transaction:
        producer.abort_transaction(60)


def rows_of(topic: str, items: Sequence[Item], first: int = 0) -> list[Row]:
    """The rows of a query for ``items``, which are the topic's records from offset ``first`` on."""
    ends: dict[int, int] = {}
    rows: list[Row] = []
    for item in items:
        offset = ends.get(item.partition, first)
        ends[item.partition] = offset + 1
        headers = item.headers or None
        rows.append((item.key, item.value, topic, item.partition, offset, item.timestamp, 0, headers))
    return sorted(rows, key=lambda row: row[3:5])
