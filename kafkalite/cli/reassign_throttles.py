"""The throttles of ``kafkalite reassign`` (KIP-73): set at the start of a reassignment, removed by ``--verify``.

Answers to: ``ReassignPartitionsCommand.{modifyReassignmentThrottle,modifyLogDirThrottle,clearAllThrottles}``.
Reactor shell (client library); the choice of throttled replicas is a pure function.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.cli.configs import change_configs
from kafkalite.common.types import TopicPartition

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SET, DELETE = 0, 1


class Throttles(NamedTuple):
    """The throttles of a reassignment: the settings of topics, and the brokers whose rates are set."""

    topics: dict[str, dict[str, str]]
    brokers: set[int]


def throttles_of(
    target: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
    moves: Mapping[TopicPartition, Mapping[str, Sequence[int]]],
) -> Throttles:
    """The replicas that send (the current ones) and that fetch (the new ones), also of ``moves`` in progress. Pure."""
    sources: dict[TopicPartition, set[int]] = {}
    destinations: dict[TopicPartition, set[int]] = {}
    for tp, move in moves.items():
        sources[tp] = set(move["replicas"]) - set(move["adding_replicas"])
        destinations[tp] = set(move["adding_replicas"])
    for tp, replicas in target.items():
        sources.setdefault(tp, set(current[tp]))
        destinations[tp] = set(replicas) - sources[tp]
    topics: dict[str, dict[str, str]] = {}
    for name, throttled in ((LEADER_REPLICAS, sources), (FOLLOWER_REPLICAS, destinations)):
        for topic in sorted({tp.topic for tp in throttled}):
            pairs = [(tp.partition, broker) for tp in throttled if tp.topic == topic for broker in throttled[tp]]
            if pairs:
                text = ",".join(f"{partition}:{broker}" for partition, broker in sorted(pairs))
                topics.setdefault(topic, {})[name] = text
    return Throttles(topics, {broker for each in (sources, destinations) for ids in each.values() for broker in ids})


def set_throttles(admin: KafkaAdminClient, throttles: Throttles, rate: int) -> None:
    """Limit the reassignment to ``rate`` bytes per second at each broker."""
    for topic, settings in throttles.topics.items():
        change_configs(admin, "TOPIC", topic, [(name, SET, value) for name, value in settings.items()])
    set_rates(admin, throttles.brokers, (LEADER_RATE, FOLLOWER_RATE), rate)


def set_rates(admin: KafkaAdminClient, brokers: Iterable[int], names: Collection[str], rate: int) -> None:
    """Set rates, in bytes per second, of some brokers."""
    for broker in sorted(brokers):
        change_configs(admin, "BROKER", str(broker), [(name, SET, str(rate)) for name in names])


def clear_throttles(admin: KafkaAdminClient, target: Collection[TopicPartition]) -> None:
    """Remove all throttles: of every broker, because it is not known which ones took part, and of the topics."""
    brokers = sorted(broker["broker_id"] for broker in admin.describe_cluster()["brokers"])
    print(f"Clearing broker-level throttles on broker{plural(brokers)} {','.join(map(str, brokers))}")
    for broker in brokers:
        rates = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
        change_configs(admin, "BROKER", str(broker), [(name, DELETE, None) for name in rates])
    topics = sorted({tp.topic for tp in target})
    print(f"Clearing topic-level throttles on topic{plural(topics)} {','.join(topics)}")
    for topic in topics:
        change_configs(admin, "TOPIC", topic, [(name, DELETE, None) for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)])


def plural(things: Collection[object]) -> str:
    """``s`` for more than one."""
    return "s" if len(things) > 1 else ""
