"""The parts of one history: settings, topics, clients and faults, drawn from one seed.

Answers to: nothing in Kafka; swarm testing (Groce and others, 2012). Pure.

Weights are drawn for every history, because a history with few kinds of faults finds more than one with a little of
each. Every step has its own random source, so that removing a step changes no other step.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafkalite.testing.simulation.scenarios import SCENARIOS
from kafkalite.testing.simulation.workload import CLIENTS

ACTIVE: Final = 10.0
"""Virtual seconds of disorder."""
HEALING: Final = 20.0
"""Virtual seconds within which a healed cluster must converge."""


class Step(NamedTuple):
    """One disorder: ``scenario`` begins at second ``at``; ``stream`` names its random source."""

    at: float
    scenario: str
    stream: int


class ClientStep(NamedTuple):
    """One client of ``kind`` begins at second ``at``; ``stream`` names its random source, and the client."""

    at: float
    kind: str
    stream: int


class TopicPlan(NamedTuple):
    """A topic that is created before the clients start."""

    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Plan:
    """One history. ``settings`` are lines of every broker's ``server.properties``."""

    seed: int
    brokers: int
    settings: Mapping[str, str]
    topics: tuple[TopicPlan, ...]
    steps: tuple[Step, ...]
    clients: tuple[ClientStep, ...]

    def keep(self, steps: Collection[int], clients: Collection[int]) -> Plan:
        """The same history with only the steps and clients at these indices."""
        return replace(
            self,
            steps=tuple(step for index, step in enumerate(self.steps) if index in steps),
            clients=tuple(client for index, client in enumerate(self.clients) if index in clients),
        )


def draw_plan(seed: int) -> Plan:
    """The history of ``seed``."""
    rng = random.Random(f"plan {seed}")
    return Plan(
        seed=seed,
        brokers=rng.choice((3, 3, 3, 4)),
        settings=_settings(rng),
        topics=_topics(rng),
        steps=_steps(rng, seed),
        clients=_clients(rng),
    )


def _settings(rng: random.Random) -> dict[str, str]:
    """Small sizes and intervals, so that segments roll, followers lag and sessions end many times in seconds."""

    def between(low: int, high: int) -> str:
        return str(rng.randint(low, high))

    settings = {
        "min.insync.replicas": "2",
        "default.replication.factor": "3",
        "auto.create.topics.enable": "false",
        "log.segment.bytes": between(3_000, 20_000),
        "log.index.interval.bytes": rng.choice(("0", "200", "4096")),
        "log.segment.delete.delay.ms": between(200, 3_000),
        "log.flush.offset.checkpoint.interval.ms": between(200, 3_000),
        "log.flush.start.offset.checkpoint.interval.ms": between(200, 3_000),
        "log.retention.check.interval.ms": between(500, 3_000),
        "log.cleaner.backoff.ms": between(200, 1_500),
        "log.cleaner.min.cleanable.ratio": rng.choice(("0.01", "0.3")),
        # Longer than the disorder, because a replica that lags longer than the retention of tombstones keeps old keys.
        "log.cleaner.delete.retention.ms": rng.choice(("15000", "86400000")),
        "replica.high.watermark.checkpoint.interval.ms": between(200, 3_000),
        "replica.lag.time.max.ms": between(1_200, 3_000),
        "replica.fetch.wait.max.ms": between(50, 500),
        "replica.fetch.backoff.ms": between(50, 500),
        "replica.fetch.max.bytes": rng.choice(("500", "5000", "1048576")),
        "replica.socket.timeout.ms": between(1_500, 5_000),
        "num.replica.fetchers": between(1, 2),
        "zookeeper.session.timeout.ms": between(3_000, 6_000),
        "zookeeper.connection.timeout.ms": "30000",
        "controller.socket.timeout.ms": between(1_500, 6_000),
        "controlled.shutdown.retry.backoff.ms": between(100, 1_000),
        "request.timeout.ms": between(1_500, 5_000),
        "auto.leader.rebalance.enable": rng.choice(("true", "false")),
        "leader.imbalance.check.interval.seconds": between(2, 6),
        "leader.imbalance.per.broker.percentage": "0",
        "group.initial.rebalance.delay.ms": rng.choice(("0", "100", "500")),
        "group.min.session.timeout.ms": "500",
        "offsets.retention.check.interval.ms": between(1_000, 5_000),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": between(300, 1_500),
        "max.incremental.fetch.session.cache.slots": rng.choice(("2", "1000")),
        "background.threads": between(1, 4),
    }
    if rng.random() < 0.3:
        settings["log.flush.interval.messages"] = rng.choice(("1", "20"))
    return settings


def _topics(rng: random.Random) -> tuple[TopicPlan, ...]:
    plans = [TopicPlan("orders", rng.randint(1, 4)), TopicPlan("results", rng.randint(1, 3))]
    compacted = (("cleanup.policy", "compact"), ("segment.bytes", str(rng.randint(2_500, 6_000))))
    plans.append(TopicPlan("balances", rng.randint(1, 2), compacted))
    return tuple(plans)


def _steps(rng: random.Random, seed: int) -> tuple[Step, ...]:
    """Random steps, and early one composed scenario by turns, because a hundred seeds may not draw each of them."""
    needs = {need for scenario in SCENARIOS.values() for need in scenario.needs}
    switched_on = {need for need in sorted(needs) if rng.random() < 0.7}
    weights = {
        name: (rng.random() ** 3) * (1.0 if scenario.single else 1.5)
        for name, scenario in SCENARIOS.items()
        if scenario.needs <= switched_on and rng.random() < 0.5
    }
    if not weights:
        weights = {"kill_a_leader": 1.0}
    names = rng.choices(list(weights), list(weights.values()), k=rng.randint(2, 8))
    drawn = [(round(rng.uniform(0.3, ACTIVE - 1.5), 3), name) for name in names]
    composed = [name for name, scenario in SCENARIOS.items() if not scenario.single]
    in_turn = round(rng.uniform(0.3, ACTIVE / 3), 3), composed[seed % len(composed)]
    return tuple(Step(at, name, index) for index, (at, name) in enumerate(sorted([in_turn, *drawn])))


def _clients(rng: random.Random) -> tuple[ClientStep, ...]:
    """Some clients of each kind of this history; producers and readers are in every history."""
    found: list[ClientStep] = []
    for kind, spec in CLIENTS.items():
        if not spec.always and rng.random() < 0.4:
            continue
        for _ in range(rng.randint(1, spec.most)):
            found.append(ClientStep(round(rng.uniform(0, spec.latest), 3), kind, len(found)))
    return tuple(found)
