"""Checks of configurations that contradict each other. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kafkalite.doctor.finding import Finding, Severity
from kafkalite.doctor.health_check import HealthCheck
from kafkalite.doctor.snapshot import Snapshot


def _min_isr(snapshot: Snapshot) -> Iterator[Finding]:
    factors: defaultdict[str, set[int]] = defaultdict(set)
    for state in snapshot.states:
        factors[state.topic].add(len(state.assignment.target))
    for topic, sizes in sorted(factors.items()):
        least, factor = snapshot.topic_integer(topic, "min.insync.replicas", 1), min(sizes)
        if least > factor:
            yield Finding(
                "min-isr-above-replicas",
                Severity.ERROR,
                f"topic {topic}",
                f"min.insync.replicas={least} of topic {topic} is above its replication factor {factor}.",
                "No producer with acks=all can ever write to it.",
                (snapshot.commands.set_topic(topic, f"min.insync.replicas={max(1, factor - 1)}"),),
            )


def _default_min_isr(snapshot: Snapshot) -> Iterator[Finding]:
    for broker_id, broker in snapshot.answering.items():
        least, factor = broker.integer("min.insync.replicas", 1), broker.integer("default.replication.factor", 1)
        if least > factor:
            yield Finding(
                "default-min-isr",
                Severity.WARNING,
                f"broker {broker_id}",
                f"min.insync.replicas={least} of broker {broker_id} is above default.replication.factor={factor}.",
                "Producers with acks=all cannot write to topics that are created without a replication factor.",
                snapshot.commands.set_properties(broker, {"default.replication.factor": least + 1}),
            )


def _retention_time(snapshot: Snapshot) -> Iterator[Finding]:
    for topic in _deleting_topics(snapshot):
        kept = snapshot.topic_integer(topic, "retention.ms", -1)
        rolled = snapshot.topic_integer(topic, "segment.ms", 0)
        if 0 <= kept < rolled:
            yield Finding(
                "retention-below-segment-time",
                Severity.WARNING,
                f"topic {topic}",
                f"retention.ms={kept} of topic {topic} is below its segment.ms={rolled}.",
                "Only whole segments are deleted, so records of a topic with few writes stay until segment.ms is over.",
                (snapshot.commands.set_topic(topic, f"segment.ms={max(1, kept)}"),),
            )


def _retention_size(snapshot: Snapshot) -> Iterator[Finding]:
    for topic in _deleting_topics(snapshot):
        kept = snapshot.topic_integer(topic, "retention.bytes", -1)
        rolled = snapshot.topic_integer(topic, "segment.bytes", 0)
        if 0 <= kept < rolled:
            yield Finding(
                "retention-below-segment-size",
                Severity.WARNING,
                f"topic {topic}",
                f"retention.bytes={kept} of topic {topic} is below its segment.bytes={rolled}.",
                "Only whole segments are deleted, so each partition grows to segment.bytes before any record goes.",
                (snapshot.commands.set_topic(topic, f"segment.bytes={max(1024, kept)}"),),
            )


def _deleting_topics(snapshot: Snapshot) -> Iterator[str]:
    for topic, configs in sorted(snapshot.topic_configs.items()):
        if "delete" in configs.get("cleanup.policy", "delete").split(","):
            yield topic


def _follower_waits(snapshot: Snapshot) -> Iterator[Finding]:
    for broker_id, broker in snapshot.answering.items():
        wait = broker.integer("replica.fetch.wait.max.ms", 500)
        lag = broker.integer("replica.lag.time.max.ms", 30_000)
        if wait >= lag:
            yield Finding(
                "follower-wait-above-lag",
                Severity.ERROR,
                f"broker {broker_id}",
                f"replica.fetch.wait.max.ms={wait} of broker {broker_id} is not below replica.lag.time.max.ms={lag}.",
                "Followers of idle partitions ask too seldom: leaders remove them from the ISR, and take them back.",
                snapshot.commands.set_properties(broker, {"replica.fetch.wait.max.ms": min(500, lag // 2)}),
            )


def _group_sessions(snapshot: Snapshot) -> Iterator[Finding]:
    for broker_id, broker in snapshot.answering.items():
        least = broker.integer("group.min.session.timeout.ms", 6000)
        greatest = broker.integer("group.max.session.timeout.ms", 1_800_000)
        if least > greatest:
            yield Finding(
                "group-session-limits",
                Severity.ERROR,
                f"broker {broker_id}",
                f"group.min.session.timeout.ms={least} of broker {broker_id} is above "
                f"group.max.session.timeout.ms={greatest}.",
                "Every session timeout is refused, so no consumer can join a group that this broker coordinates.",
                snapshot.commands.remove_properties(
                    broker, "group.min.session.timeout.ms", "group.max.session.timeout.ms"
                ),
            )


CHECKS = (
    HealthCheck(
        "min-isr-above-replicas",
        "error",
        "min.insync.replicas of a topic is above its replication factor.",
        "Lower min.insync.replicas, or add replicas.",
        _min_isr,
    ),
    HealthCheck(
        "default-min-isr",
        "warning",
        "min.insync.replicas of a broker is above its default.replication.factor.",
        "Raise default.replication.factor.",
        _default_min_isr,
    ),
    HealthCheck(
        "retention-below-segment-time",
        "warning",
        "retention.ms of a topic with cleanup.policy=delete is below its segment.ms.",
        "Set segment.ms to the retention or below.",
        _retention_time,
    ),
    HealthCheck(
        "retention-below-segment-size",
        "warning",
        "retention.bytes of such a topic is below its segment.bytes.",
        "Set segment.bytes to the retention or below.",
        _retention_size,
    ),
    HealthCheck(
        "follower-wait-above-lag",
        "error",
        "replica.fetch.wait.max.ms of a broker is not below replica.lag.time.max.ms.",
        "Lower the wait.",
        _follower_waits,
    ),
    HealthCheck(
        "group-session-limits",
        "error",
        "group.min.session.timeout.ms of a broker is above group.max.session.timeout.ms.",
        "Remove both, so that the defaults count.",
        _group_sessions,
    ),
)
