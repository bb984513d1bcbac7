"""The records of a topic, read by librdkafka."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition


def records(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of all records that ``read_committed`` readers see now, each partition in order."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "tests-of-pipelines",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found, unread = [], set(partitions)
        while unread:
            message = consumer.poll(30)
            assert message is not None, f"{topic}: no end of partitions {unread} within 30 s"
            error = message.error()
            if error is None:
                found.append((message.key(), message.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unread.discard(message.partition())
        return found
    finally:
        consumer.close()


def json_records(bootstrap: str, topic: str) -> list[tuple[Any, Any]]:
    """:func:`records` with parsed JSON; a key that is plain text is returned as text."""
    return [(_key(key), None if value is None else json.loads(value)) for key, value in records(bootstrap, topic)]


def _key(key: bytes | None) -> Any:
    text = None if key is None else key.decode()
    return json.loads(text) if text is not None and text.startswith("{") else text
