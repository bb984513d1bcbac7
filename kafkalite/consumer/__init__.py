"""A ZooKeeper consumer, as the classic high-level consumer was: groups without a coordinator.

Answers to: ``kafka.consumer`` of Kafka 0.8 to 0.10. It is a client: it knows ZooKeeper and Kafka's protocol, no broker.
Read in this order: ``config``, ``subscription`` (topics of a member), ``assignor`` (partitions of a member),
``registry`` (the znodes), ``rebalancer`` (how the members agree), ``stream`` (from the fetcher to the application),
``fetcher``, ``connector`` (which puts the parts together).

>>> from kafkalite.consumer import ZooKeeperConsumer
>>> with ZooKeeperConsumer("127.0.0.1:2181", "my-group", ["my-topic"], auto_offset_reset="smallest") as consumer:
...     for record in consumer:
...         print(record.topic, record.partition, record.offset, record.value)
"""

from __future__ import annotations

from kafkalite.consumer.config import ConsumerConfig
from kafkalite.consumer.connector import ZooKeeperConsumer
from kafkalite.consumer.errors import ConsumerAuthenticationError, ConsumerClosedError, ConsumerRebalanceFailedError
from kafkalite.consumer.stream import Record
from kafkalite.consumer.subscription import Subscription

__all__ = [
    "ConsumerAuthenticationError",
    "ConsumerClosedError",
    "ConsumerConfig",
    "ConsumerRebalanceFailedError",
    "Record",
    "Subscription",
    "ZooKeeperConsumer",
]
