"""A test of one partition: single records are sent to it while its leader and followers are stopped and killed."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from integration.faults.cluster import create_topic, read_batches, states, wait_in_sync, wait_led_by_others
from integration.harness.clients import fresh_topic
from integration.harness.logins import login
from integration.harness.wait import PATIENCE, wait_for
from kafkalite.embedded.cluster import LocalCluster


class Sender:
    """A producer that sends single records and remembers the result of each."""

    def __init__(self, cluster: LocalCluster, topic: str, **settings: object) -> None:
        self.told: dict[str, str | None] = {}
        """Value → error, or ``None``: acknowledged."""
        self.requests = 0
        """Number of all Produce requests."""
        self._topic = topic
        self._producer = Producer(
            {
                **login(cluster.bootstrap),
                "linger.ms": 0,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.max.ms": 200,
                "statistics.interval.ms": 50,
                "stats_cb": self._count,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def send(self, value: str) -> None:
        """Send a record without waiting."""
        self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
        self._producer.poll(0)

    def acknowledged(self, value: str, timeout: float = PATIENCE) -> None:
        """Wait for the acknowledgement of ``value``."""
        assert self.answer(value, timeout) is None

    def answer(self, value: str, timeout: float = PATIENCE) -> str | None:
        """Wait for the result of ``value``: an error, or ``None``."""
        wait_for(lambda: self.poll() and value in self.told, f"{value} is answered", timeout, 0.01)
        return self.told[value]

    def poll(self) -> bool:
        """Handle the delivery reports that have come."""
        self._producer.poll(0.01)
        return True

    def _delivered(self, error: Any, message: Any) -> None:
        self.told[message.value().decode()] = None if error is None else error.name()

    def _count(self, text: str) -> None:
        self.requests = sum(broker["req"].get("Produce", 0) for broker in json.loads(text)["brokers"].values())


class Stage:
    """One partition, its leader and its followers."""

    def __init__(self, cluster: LocalCluster, prefix: str) -> None:
        self.cluster = cluster
        self.topic = fresh_topic(prefix)
        create_topic(cluster, self.topic, 1)
        self.leader = int(states(cluster, self.topic, 1)[0]["leader"])
        self.followers = [broker_id for broker_id in cluster.broker_ids if broker_id != self.leader]
        # One record that all replicas have.
        first = Sender(cluster, self.topic, acks="all")
        first.send("first")
        first.acknowledged("first")

    def pause_followers(self) -> None:
        """Stop the followers by SIGSTOP."""
        for broker_id in self.followers:
            self.cluster.pause_broker(broker_id)

    def resume_followers(self) -> None:
        """Continue the followers by SIGCONT."""
        for broker_id in self.followers:
            self.cluster.resume_broker(broker_id)

    def kill_leader(self) -> None:
        """Kill the leader by ``kill -9``, continue paused followers, and wait for the next leader."""
        self.cluster.kill_broker(self.leader)
        self.resume_followers()
        wait_led_by_others(self.cluster, self.topic, 1, self.leader, 60)

    def on_leader(self) -> int:
        """Number of batches in the leader's log."""
        return len(read_batches(self.cluster.broker_dir(self.leader) / "data" / f"{self.topic}-0"))

    def all_back(self) -> None:
        """Wait until all brokers run and are in sync."""
        for broker_id in self.cluster.broker_ids:
            if self.cluster.is_alive(broker_id):
                self.cluster.resume_broker(broker_id)
            else:
                self.cluster.start_broker(broker_id, wait=False)
        self.cluster.wait_ready()
        wait_in_sync(self.cluster, self.topic, 1)


def values_in(cluster: LocalCluster, topic: str, isolation: str = "read_uncommitted") -> list[str]:
    """All values of partition 0, in order."""
    consumer = Consumer(
        {
            **login(cluster.bootstrap),
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    try:
        while True:
            message = consumer.poll(30.0)
            assert message is not None, f"{topic} cannot be read"
            if message.error() is None:
                values.append(message.value().decode())
            elif message.error().name() == "_PARTITION_EOF":
                return values
    finally:
        consumer.close()
