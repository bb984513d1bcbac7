"""confluent-kafka (librdkafka) against the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from integration.harness.admin import PASSING, admin, ask_controller
from integration.harness.clients import ClientAdapter, ClientSuite
from integration.harness.records import Item, Read
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

TIMEOUT = 60.0
QUIET = {"log_level": 0}
"""No log, because the client would report each stop of a broker."""


class Confluent(ClientAdapter):
    """The adapter."""

    idempotent = True
    acks = "all"

    def produce(self, bootstrap: str, topic: str, items: Sequence[Item], *, codec: str = "none") -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": self.acks,
                "compression.type": codec,
                "enable.idempotence": self.idempotent and self.acks == "all",
                "linger.ms": 5,
                "batch.num.messages": 200,
                **QUIET,
            }
        )
        errors: list[Any] = []
        for item in items:
            producer.produce(
                topic,
                item.value,
                item.key,
                item.partition,
                on_delivery=lambda error, _: errors.append(error) if error else None,
                timestamp=item.timestamp,
                headers=list(item.headers),
            )
            producer.poll(0)
        assert producer.flush(TIMEOUT) == 0
        assert errors == []

    def consume(self, bootstrap: str, topic: str, starts: Mapping[int, int], count: int) -> list[Read]:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **QUIET})
        read: list[Read] = []
        try:
            consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in starts.items()])
            while len(read) < count:
                records = consumer.consume(min(500, count - len(read)), TIMEOUT / 2)
                assert records, f"only {len(read)} of {count} records came"
                for record in records:
                    if record.error() and record.error().name() in PASSING:
                        continue
                    if record.error():
                        raise KafkaException(record.error())
                    headers = tuple((name, value) for name, value in record.headers() or ())
                    read.append(
                        Read(
                            record.partition(),
                            record.offset(),
                            record.timestamp()[1],
                            record.key(),
                            record.value(),
                            headers,
                        )
                    )
        finally:
            consumer.close()
        return read

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", **QUIET})
        [found] = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=TIMEOUT)
        consumer.close()
        return found.offset if found.offset >= 0 else None

    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", **QUIET})
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT)
        consumer.close()
        return int(high)

    def create_topic(self, bootstrap: str, topic: str, partitions: int, factor: int, config: Mapping[str, str]) -> None:
        new = NewTopic(topic, partitions, factor, config=dict(config))
        ask_controller(bootstrap, lambda client: client.create_topics([new]), done=["TOPIC_ALREADY_EXISTS"])

    def add_partitions(self, bootstrap: str, topic: str, total: int) -> None:
        new = NewPartitions(topic, total)
        ask_controller(bootstrap, lambda client: client.create_partitions([new]), done=["INVALID_PARTITIONS"])

    def delete_topic(self, bootstrap: str, topic: str) -> None:
        ask_controller(bootstrap, lambda client: client.delete_topics([topic]), done=["UNKNOWN_TOPIC_OR_PART"])

    def topics(self, bootstrap: str) -> dict[str, int]:
        metadata = admin(bootstrap).list_topics(timeout=TIMEOUT)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def topic_config(self, bootstrap: str, topic: str) -> dict[str, str]:
        [future] = admin(bootstrap).describe_configs([ConfigResource("topic", topic)]).values()
        return {name: entry.value for name, entry in future.result(TIMEOUT).items()}

    def set_topic_config(self, bootstrap: str, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        wait_all(
            admin(bootstrap).incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])])
        )


def wait_all(futures: Mapping[Any, Any]) -> None:
    """Wait for all answers; the first error is raised."""
    for future in futures.values():
        future.result(TIMEOUT)


class TestConfluent(ClientSuite):
    """With idempotence, which is the adapter's default."""

    adapter = Confluent()

    def test_an_offset_beyond_the_end_is_out_of_range(self, shared_cluster: LocalCluster) -> None:
        """The client gets the error if it has no offset reset policy."""
        topic = self.topic(shared_cluster, "range")
        consumer = Consumer(
            {"bootstrap.servers": shared_cluster.bootstrap, "group.id": "none", "auto.offset.reset": "error"}
        )
        consumer.assign([TopicPartition(topic, 0, 1000)])
        record = consumer.poll(TIMEOUT)
        consumer.close()
        assert record is not None and record.error() is not None
        assert record.error().name() == "_AUTO_OFFSET_RESET"

    def test_refused_administration_has_kafkas_error_names(self, shared_cluster: LocalCluster) -> None:
        """The client gets Kafka's error for each refused request."""
        topic = self.topic(shared_cluster, "refused")
        for future, name in (
            (admin(shared_cluster.bootstrap).create_topics([NewTopic(topic, 1, 1)]), "TOPIC_ALREADY_EXISTS"),
            (
                admin(shared_cluster.bootstrap).create_topics([NewTopic("x" + topic, 1, 9)]),
                "INVALID_REPLICATION_FACTOR",
            ),
            (admin(shared_cluster.bootstrap).create_topics([NewTopic("a b", 1, 1)]), "TOPIC_EXCEPTION"),
            (admin(shared_cluster.bootstrap).create_partitions([NewPartitions(topic, 2)]), "INVALID_PARTITIONS"),
            (admin(shared_cluster.bootstrap).delete_topics(["no-" + topic]), "UNKNOWN_TOPIC_OR_PART"),
        ):
            with pytest.raises(KafkaException) as caught:
                wait_all(future)
            assert caught.value.args[0].name() == name


class TestConfluentPlain(ClientSuite):
    """Without idempotence, like old programs."""

    adapter = Confluent()

    def topic(self, cluster: LocalCluster, prefix: str) -> str:
        """A topic of the suite, with records that are sent without idempotence.

        All its leaders serve, because without idempotence a request that a broker refuses, as it does not lead yet, is
        repeated behind those that were sent after it.
        """
        self.adapter = Confluent()
        self.adapter.idempotent = False
        topic = super().topic(cluster, prefix)

        def leaders_serve() -> bool:
            return all(self.adapter.end_offset(cluster.bootstrap, topic, each) == 0 for each in range(self.PARTITIONS))

        wait_for(leaders_serve, f"the leaders of {topic} serve")
        return topic
