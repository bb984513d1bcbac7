"""Topics whose replicas tests move, and Kafka's tool that moves them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

RECORD = 10_000
"""Bytes of a record."""
_PAYLOAD = os.urandom(RECORD)
"""Bytes that no codec compresses."""


def create(cluster: LocalCluster, prefix: str, *replicas: int) -> str:
    """Create a topic with one partition on ``replicas``."""
    topic = fresh_topic(prefix)
    run_tool(
        KAFKA_3_9,
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", cluster.bootstrap, "--create", "--topic", topic),
        *("--replica-assignment", ":".join(map(str, replicas))),
    )
    return topic


def fill(cluster: LocalCluster, topic: str, size: int) -> None:
    """Produce ``size`` bytes of records to partition 0."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    for _ in range(size // RECORD):
        producer.produce(topic, _PAYLOAD, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def plan(path: Path, topic: str, replicas: list[int], log_dirs: list[str] | None = None) -> Path:
    """Write the JSON file of a reassignment of partition 0."""
    entry: dict[str, object] = {"topic": topic, "partition": 0, "replicas": replicas}
    if log_dirs is not None:
        entry["log_dirs"] = log_dirs
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return path


def reassign(cluster: LocalCluster, action: str, file: Path, *more: str) -> str:
    """Run ReassignPartitionsCommand; returns its output."""
    return run_tool(
        KAFKA_3_9,
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        *("--bootstrap-server", cluster.bootstrap, action, "--reassignment-json-file", str(file), *more),
    ).out


def limit(bootstrap: str, rates: Mapping[str, int], *brokers: int) -> None:
    """Set rates before a tool does, because a broker that has not heard of them yet copies without a limit."""
    configs = [f"{name}={rate}" for name, rate in rates.items()]
    for broker in brokers:
        entity = ("configs", "--bootstrap-server", bootstrap, "--entity-type", "brokers", "--entity-name", broker)
        command(*entity, "--alter", "--add-config", ",".join(configs))
        wait_for(partial(_describes, entity, configs), f"broker {broker} obeys {', '.join(configs)}")


def _describes(entity: Sequence[str | int], configs: Sequence[str]) -> bool:
    described = command(*entity, "--describe").out
    return all(each in described for each in configs)
