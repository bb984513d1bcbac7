"""kafka-python against the cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from integration.harness.clients import ClientAdapter, ClientSuite
from integration.harness.records import Item, Read

TIMEOUT = 60.0


class KafkaPython(ClientAdapter):
    """The adapter."""

    def produce(self, bootstrap: str, topic: str, items: Sequence[Item], *, codec: str = "none") -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=5, compression_type=None if codec == "none" else codec
        )
        futures = [
            producer.send(topic, item.value, item.key, list(item.headers), item.partition, item.timestamp)
            for item in items
        ]
        producer.flush(TIMEOUT)
        for future in futures:
            future.get(TIMEOUT)
        producer.close()

    def consume(self, bootstrap: str, topic: str, starts: Mapping[int, int], count: int) -> list[Read]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
        read: list[Read] = []
        try:
            consumer.assign([TopicPartition(topic, partition) for partition in starts])
            for partition, offset in starts.items():
                consumer.seek(TopicPartition(topic, partition), offset)
            deadline = time.monotonic() + TIMEOUT
            while len(read) < count:
                assert time.monotonic() < deadline, f"only {len(read)} of {count} records came"
                for records in consumer.poll(timeout_ms=500).values():
                    read += [
                        Read(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records
                    ]
        finally:
            consumer.close()
        return read

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        tp = TopicPartition(topic, partition)
        found = consumer.offsets_for_times({tp: timestamp})[tp]
        consumer.close()
        return found.offset if found is not None and found.offset >= 0 else None

    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        tp = TopicPartition(topic, partition)
        end = consumer.end_offsets([tp])[tp]
        consumer.close()
        return int(end)

    def create_topic(self, bootstrap: str, topic: str, partitions: int, factor: int, config: Mapping[str, str]) -> None:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(
                {topic: {"num_partitions": partitions, "replication_factor": factor, "configs": dict(config)}}
            )

    def add_partitions(self, bootstrap: str, topic: str, total: int) -> None:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({topic: total})

    def delete_topic(self, bootstrap: str, topic: str) -> None:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics([topic])

    def topics(self, bootstrap: str) -> dict[str, int]:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics(None)}

    def topic_config(self, bootstrap: str, topic: str) -> dict[str, str]:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
            return {name: entry["value"] for name, entry in described["topic"][topic].items()}

    def set_topic_config(self, bootstrap: str, topic: str, name: str, value: str) -> None:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            answer = admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])
            assert answer["topic"][topic] == "OK", answer


class TestKafkaPython(ClientSuite):
    """With kafka-python's defaults, which are idempotent."""

    adapter = KafkaPython()
