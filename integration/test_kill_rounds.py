"""Brokers die, hang and restart under load; the history is judged at the end.

Short in `make test`; `make soak` (KAFKALITE_SOAK=1) does at least five rounds of each kind with 100,000 acknowledged records
a round. KAFKALITE_SEED repeats a run, KAFKALITE_ROUNDS sets how many.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest

from integration.conftest import ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.history import (
    EpochWatcher,
    LoadProducer,
    LoadReader,
    judge,
    partition_states,
    read_all,
    wait_in_sync,
)
from integration.harness.segments import assert_replicas_identical
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.probe import ask
from kafkalite.embedded.znodes import ZnodeReader

SOAK = os.environ.get("KAFKALITE_SOAK") == "1"
PARTITIONS = 4
PRODUCERS = 3
REPLICAS = 3
SESSION_TIMEOUT = 3.0
OVERRIDES = {
    "zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT * 1000)),
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "log.segment.bytes": str(8 * 1024 * 1024),
    # Recovery after kill -9 shall have something to do at every round.
    "log.retention.ms": "-1",
}


class Rounds:
    """One cluster, one topic, and what can be done to them."""

    def __init__(self, cluster: LocalCluster, topic: str, chance: random.Random) -> None:
        self.cluster = cluster
        self.topic = topic
        self.chance = chance

    def kinds(self) -> dict[str, Callable[[], str]]:
        """Name → the deed, which says what it did."""
        return {
            "kill leader": lambda: self.kill([self.leader()]),
            "kill controller": lambda: self.kill([self.controller()]),
            "kill leader and another": self.kill_all_but_one,
            "stop leader": lambda: self.stop(self.leader()),
            "stop controller": lambda: self.stop(self.controller()),
            "restart": lambda: self.restart(self.chance.choice(self.cluster.broker_ids)),
        }

    def leader(self) -> int:
        """The leader of some partition."""
        partition = self.chance.randrange(PARTITIONS)

        def look() -> int:
            with ZnodeReader(self.cluster.zookeeper) as reader:
                return max(0, int(partition_states(reader, self.topic, PARTITIONS)[partition]["leader"]))

        return wait_for(look, f"partition {partition} has a leader")

    def controller(self) -> int:
        """The active controller."""
        broker_id = self.chance.choice(self.cluster.broker_ids)
        host, _, port = self.cluster.address(broker_id).rpartition(":")
        return wait_for(lambda: max(0, ask(host, int(port)).controller), "there is a controller")

    def kill(self, victims: list[int]) -> str:
        """``kill -9``, some time without them, and a start."""
        for victim in victims:
            self.cluster.kill_broker(victim)
        time.sleep(self.chance.uniform(0.2, 2.0))
        self.chance.shuffle(victims)
        for victim in victims:
            self.cluster.start_broker(victim, wait=False)
        return f"killed {victims}"

    def kill_all_but_one(self) -> str:
        """N-1 of N replicas, the leader of some partition among them."""
        leader = self.leader()
        others = [broker_id for broker_id in self.cluster.broker_ids if broker_id != leader]
        return self.kill([leader, *self.chance.sample(others, REPLICAS - 2)])

    def stop(self, victim: int) -> str:
        """SIGSTOP until its session has long expired, then SIGCONT."""
        self.cluster.pause_broker(victim)
        time.sleep(SESSION_TIMEOUT + self.chance.uniform(1.0, 2.5))
        self.cluster.resume_broker(victim)
        return f"stopped {victim}"

    def restart(self, victim: int) -> str:
        """SIGTERM and a start."""
        clean = self.cluster.stop_broker(victim, timeout=30)
        self.cluster.start_broker(victim, wait=False)
        return f"restarted {victim}" + ("" if clean else " (it took kill -9)")


def play(cluster: LocalCluster, seed: int, plan: list[str], records_a_round: int, rate: float) -> None:
    """All rounds of ``plan``, then the judgement."""
    topic = fresh_topic("rounds")
    Confluent().create_topic(cluster.bootstrap, topic, PARTITIONS, REPLICAS, {})
    wait_in_sync(cluster.zookeeper, topic, PARTITIONS, REPLICAS)
    rounds = Rounds(cluster, topic, random.Random(seed))
    producers = [LoadProducer(cluster.bootstrap, topic, PARTITIONS, rate) for _ in range(PRODUCERS)]
    reader = LoadReader(cluster.bootstrap, topic, PARTITIONS)
    watcher = EpochWatcher(cluster.zookeeper, topic, PARTITIONS)
    threads = [watcher, reader, *producers]
    for thread in threads:
        thread.start()
    for number, kind in enumerate(plan, 1):
        began = time.monotonic()
        before = sum(producer.acknowledged for producer in producers)
        wait_for(lambda before=before: total(producers) > before + records_a_round // 3, "records are acknowledged", 120)  # type: ignore[misc]
        said = rounds.kinds()[kind]()
        wait_in_sync(cluster.zookeeper, topic, PARTITIONS, REPLICAS)
        wait_for(lambda before=before: total(producers) >= before + records_a_round, "the round has its records", 300)  # type: ignore[misc]
        print(
            f"round {number}/{len(plan)} {kind}: {said}, {total(producers) - before} acknowledged, "
            f"{time.monotonic() - began:.1f} s, controller epoch {watcher.controller_epochs[-1:]}",
            flush=True,
        )
    for producer in producers:
        producer.finish()
    log = read_all(cluster.bootstrap, topic, PARTITIONS)
    wait_for(lambda: [len(seen) for seen in reader.seen] == [len(records) for records in log], "the reader has all", 60)
    reader.finish()
    watcher.finish()
    wrong = judge(log, producers, [reader], {topic: watcher})
    failures = sum(len(producer.failures) for producer in producers)
    gap = max(producer.longest_gap for producer in producers)
    print(
        f"seed {seed}: {total(producers)} acknowledged, {sum(map(len, log))} in the log, {failures} sends failed, "
        f"{watcher.leader_changes} leader changes, controller epochs {watcher.controller_epochs}, longest gap {gap:.1f} s"
    )
    assert not wrong, f"seed {seed}: {len(wrong)} violations, the first: {wrong[:10]}"
    wait_in_sync(cluster.zookeeper, topic, PARTITIONS, REPLICAS)
    cluster.stop()
    assert_replicas_identical(cluster, topic, PARTITIONS)


def total(producers: list[LoadProducer]) -> int:
    """Acknowledged by all of them."""
    return sum(producer.acknowledged for producer in producers)


def make_plan(seed: int, each: int) -> list[str]:
    """Every kind ``each`` times, shuffled."""
    kinds = ["kill leader", "kill controller", "kill leader and another", "stop leader", "stop controller", "restart"]
    plan = kinds * each
    random.Random(seed).shuffle(plan)
    return plan


def chosen_seed() -> int:
    """``KAFKALITE_SEED``, or a new one."""
    seed = int(os.environ.get("KAFKALITE_SEED") or random.SystemRandom().randrange(1 << 31))
    print(f"KAFKALITE_SEED={seed}", flush=True)
    return seed


def test_rounds(make_cluster: ClusterFactory) -> None:
    """One round of each kind."""
    seed = chosen_seed()
    plan = make_plan(seed, 1)[: int(os.environ.get("KAFKALITE_ROUNDS") or 99)]
    play(make_cluster(REPLICAS, OVERRIDES), seed, plan, 6000, 1000.0)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="long: make soak")
def test_soak(make_cluster: ClusterFactory) -> None:
    """Five rounds of each kind, 100,000 acknowledged records a round."""
    seed = chosen_seed()
    plan = make_plan(seed, 5)[: int(os.environ.get("KAFKALITE_ROUNDS") or 99)]
    play(make_cluster(REPLICAS, OVERRIDES), seed, plan, 100_000, 0.0)
