"""One suite of tests for every client library, with one adapter for each library."""

from __future__ import annotations

import abc
import uuid
from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from integration.harness.records import CODECS, FIRST_TIMESTAMP, Item, Read, assert_same, make_items
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster


def fresh_topic(prefix: str) -> str:
    """A topic name that no test has used before."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


class ClientAdapter(abc.ABC):
    """The calls of one client library that the suite needs. The suite assigns partitions to consumers explicitly."""

    headers = True
    codecs: Sequence[str] = CODECS

    @abc.abstractmethod
    def produce(self, bootstrap: str, topic: str, items: Sequence[Item], *, codec: str = "none") -> None:
        """Send ``items`` with acks=all and wait for every acknowledgement."""

    @abc.abstractmethod
    def consume(self, bootstrap: str, topic: str, starts: Mapping[int, int], count: int) -> list[Read]:
        """Read ``count`` records from the given offsets of partitions."""

    @abc.abstractmethod
    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        """First offset at or after ``timestamp``; ``None`` if there is no such offset."""

    @abc.abstractmethod
    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        """The high watermark."""

    @abc.abstractmethod
    def create_topic(self, bootstrap: str, topic: str, partitions: int, factor: int, config: Mapping[str, str]) -> None:
        """Create a topic."""

    @abc.abstractmethod
    def add_partitions(self, bootstrap: str, topic: str, total: int) -> None:
        """Raise the number of partitions to ``total``."""

    @abc.abstractmethod
    def delete_topic(self, bootstrap: str, topic: str) -> None:
        """Delete a topic."""

    @abc.abstractmethod
    def topics(self, bootstrap: str) -> dict[str, int]:
        """Topic → number of partitions."""

    @abc.abstractmethod
    def topic_config(self, bootstrap: str, topic: str) -> dict[str, str]:
        """All configurations of a topic."""

    @abc.abstractmethod
    def set_topic_config(self, bootstrap: str, topic: str, name: str, value: str) -> None:
        """Set one configuration of a topic, leaving the others."""


def wait_known(adapter: ClientAdapter, cluster: LocalCluster, topic: str, partitions: int) -> None:
    """Wait until every broker has ``topic`` with that many partitions in its metadata: a client asks any broker."""

    def is_known(address: str) -> bool:
        return adapter.topics(address).get(topic) == partitions

    for broker_id in cluster.broker_ids:
        wait_for(partial(is_known, cluster.address(broker_id)), f"broker {broker_id} knows {partitions} of {topic}")


class ClientSuite:
    """The tests; a subclass sets ``adapter``."""

    adapter: ClientAdapter
    PARTITIONS = 3
    COUNT = 1500

    def topic(self, cluster: LocalCluster, prefix: str) -> str:
        """A fresh topic with replication factor 3, or with as many replicas as the cluster has brokers."""
        topic = fresh_topic(prefix)
        factor = min(3, len(cluster.broker_ids))
        self.adapter.create_topic(cluster.bootstrap, topic, self.PARTITIONS, factor, {})
        wait_for(lambda: self.adapter.topics(cluster.bootstrap).get(topic) == self.PARTITIONS, f"{topic} is there")
        return topic

    @pytest.mark.parametrize("codec", CODECS)
    def test_round_trip(self, shared_cluster: LocalCluster, codec: str) -> None:
        """Consumers read the keys, headers, nulls, timestamps and partitions that were sent, in order."""
        if codec not in self.adapter.codecs:
            pytest.skip(f"the client has no {codec}")
        topic = self.topic(shared_cluster, f"trip-{codec}")
        items = make_items(1, self.COUNT, self.PARTITIONS, headers=self.adapter.headers)
        self.adapter.produce(shared_cluster.bootstrap, topic, items, codec=codec)
        starts = dict.fromkeys(range(self.PARTITIONS), 0)
        assert_same(items, self.adapter.consume(shared_cluster.bootstrap, topic, starts, len(items)))
        for partition in range(self.PARTITIONS):
            expected = sum(1 for item in items if item.partition == partition)
            assert self.adapter.end_offset(shared_cluster.bootstrap, topic, partition) == expected

    def test_seek(self, shared_cluster: LocalCluster) -> None:
        """A consumer that starts in the middle reads exactly the records from there to the end."""
        topic = self.topic(shared_cluster, "seek")
        items = [item._replace(partition=1) for item in make_items(2, 500, 1, headers=self.adapter.headers)]
        self.adapter.produce(shared_cluster.bootstrap, topic, items)
        for start in (0, 1, 250, 499):
            read = self.adapter.consume(shared_cluster.bootstrap, topic, {1: start}, len(items) - start)
            assert read[0].offset == start
            assert_same(items[start:], read)

    def test_timestamp_look_up(self, shared_cluster: LocalCluster) -> None:
        """The first offset at or after a time; none after the last."""
        topic = self.topic(shared_cluster, "time")
        items = [item._replace(partition=0) for item in make_items(3, 400, 1, headers=self.adapter.headers)]
        for chunk in range(0, 400, 100):
            self.adapter.produce(shared_cluster.bootstrap, topic, items[chunk : chunk + 100])
        for number in (0, 1, 99, 100, 257, 399):
            found = self.adapter.offset_for_time(shared_cluster.bootstrap, topic, 0, FIRST_TIMESTAMP + number)
            assert found == number
        assert self.adapter.offset_for_time(shared_cluster.bootstrap, topic, 0, FIRST_TIMESTAMP - 5000) == 0
        assert self.adapter.offset_for_time(shared_cluster.bootstrap, topic, 0, FIRST_TIMESTAMP + 400) is None

    def test_bootstrap_from_each_broker_alone(self, shared_cluster: LocalCluster) -> None:
        """A client that knows one broker finds all brokers."""
        topic = self.topic(shared_cluster, "boot")
        sent: list[Item] = []
        for broker_id in shared_cluster.broker_ids:
            items = make_items(broker_id, 90, self.PARTITIONS, headers=self.adapter.headers)
            self.adapter.produce(shared_cluster.address(broker_id), topic, items)
            sent += items
        for broker_id in shared_cluster.broker_ids:
            starts = dict.fromkeys(range(self.PARTITIONS), 0)
            assert_same(sent, self.adapter.consume(shared_cluster.address(broker_id), topic, starts, len(sent)))

    def test_topic_administration(self, shared_cluster: LocalCluster) -> None:
        """Create with configurations, describe, alter, add partitions, delete."""
        bootstrap = shared_cluster.bootstrap
        topic = fresh_topic("admin")
        self.adapter.create_topic(bootstrap, topic, 2, 1, {"retention.ms": "1234567", "cleanup.policy": "compact"})
        wait_for(lambda: self.adapter.topics(bootstrap).get(topic) == 2, "the topic is there")
        config = wait_for(lambda: self.adapter.topic_config(bootstrap, topic), "the configuration is there")
        assert config["retention.ms"] == "1234567"
        assert config["cleanup.policy"] == "compact"
        assert config["min.insync.replicas"] == "1"
        self.adapter.set_topic_config(bootstrap, topic, "segment.bytes", "1048576")
        wait_for(lambda: self.adapter.topic_config(bootstrap, topic).get("segment.bytes") == "1048576", "segment.bytes")
        assert self.adapter.topic_config(bootstrap, topic)["retention.ms"] == "1234567"
        self.adapter.add_partitions(bootstrap, topic, 5)
        wait_for(lambda: self.adapter.topics(bootstrap).get(topic) == 5, "five partitions")
        self.adapter.delete_topic(bootstrap, topic)
        wait_for(lambda: topic not in self.adapter.topics(bootstrap), "the topic has gone")
