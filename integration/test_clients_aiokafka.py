"""aiokafka against the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from integration.harness.clients import ClientAdapter, ClientSuite
from integration.harness.records import Item, Read

TIMEOUT = 60.0
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in a new event loop."""
    return asyncio.run(asyncio.wait_for(work, 2 * TIMEOUT))


class AioKafka(ClientAdapter):
    """The adapter."""

    def produce(self, bootstrap: str, topic: str, items: Sequence[Item], *, codec: str = "none") -> None:
        async def work() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks="all",
                enable_idempotence=True,
                linger_ms=5,
                compression_type=None if codec == "none" else codec,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        item.value,
                        item.key,
                        item.partition,
                        item.timestamp,
                        list(item.headers),
                    )
                    for item in items
                ]
                await asyncio.gather(*futures)
            finally:
                await producer.stop()

        run(work())

    def consume(self, bootstrap: str, topic: str, starts: Mapping[int, int], count: int) -> list[Read]:
        async def work() -> list[Read]:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
            await consumer.start()
            read: list[Read] = []
            try:
                consumer.assign([TopicPartition(topic, partition) for partition in starts])
                for partition, offset in starts.items():
                    consumer.seek(TopicPartition(topic, partition), offset)
                while len(read) < count:
                    for records in (await consumer.getmany(timeout_ms=1000)).values():
                        read += [
                            Read(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records
                        ]
            finally:
                await consumer.stop()
            return read

        return run(work())

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        async def work() -> int | None:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
            await consumer.start()
            try:
                tp = TopicPartition(topic, partition)
                found = (await consumer.offsets_for_times({tp: timestamp}))[tp]
                return found.offset if found is not None and found.offset >= 0 else None
            finally:
                await consumer.stop()

        return run(work())

    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        async def work() -> int:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
            await consumer.start()
            try:
                tp = TopicPartition(topic, partition)
                return int((await consumer.end_offsets([tp]))[tp])
            finally:
                await consumer.stop()

        return run(work())

    def create_topic(self, bootstrap: str, topic: str, partitions: int, factor: int, config: Mapping[str, str]) -> None:
        new = NewTopic(topic, partitions, factor, topic_configs=dict(config))
        answer = self._admin(bootstrap, lambda admin: admin.create_topics([new]))
        assert all(error[1] == 0 for error in answer.topic_errors), answer

    def add_partitions(self, bootstrap: str, topic: str, total: int) -> None:
        self._admin(bootstrap, lambda admin: admin.create_partitions({topic: NewPartitions(total)}))

    def delete_topic(self, bootstrap: str, topic: str) -> None:
        self._admin(bootstrap, lambda admin: admin.delete_topics([topic]))

    def topics(self, bootstrap: str) -> dict[str, int]:
        described = self._admin(bootstrap, lambda admin: admin.describe_topics(None))
        return {topic["topic"]: len(topic["partitions"]) for topic in described}

    def topic_config(self, bootstrap: str, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        [answer] = self._admin(bootstrap, lambda admin: admin.describe_configs([resource]))
        [described] = answer.resources
        return {entry[0]: entry[1] for entry in described[4]}

    def set_topic_config(self, bootstrap: str, topic: str, name: str, value: str) -> None:
        # Send all configurations, because aiokafka has AlterConfigs only, which resets the others.
        before = self._dynamic(bootstrap, topic)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {**before, name: value})
        self._admin(bootstrap, lambda admin: admin.alter_configs([resource]))

    def _dynamic(self, bootstrap: str, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        [answer] = self._admin(bootstrap, lambda admin: admin.describe_configs([resource]))
        [described] = answer.resources
        # name, value, read only, source (1: dynamic topic configuration) …
        return {entry[0]: entry[1] for entry in described[4] if entry[3] == 1}

    def _admin(self, bootstrap: str, call: Any) -> Any:
        async def work() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                return await call(admin)
            finally:
                await admin.close()

        return run(work())


class TestAioKafka(ClientSuite):
    """With aiokafka's defaults, and idempotent."""

    adapter = AioKafka()
