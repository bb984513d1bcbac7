"""The exactly-once sink: what writes, prepares, decides and commits is killed (-9); each row is seen once.

``make soak`` runs it, or ``KAFKALITE_SOAK=1``; ``KAFKALITE_SEED`` repeats the plan of an earlier run.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from integration.conftest import AGAINST_KAFKA, SOAK, ClusterFactory
from integration.harness.records import FIRST_TIMESTAMP, Item
from integration.harness.wait import wait_for
from integration.spark.killing import AFTER, BEFORE, COMMIT, KILL_DRIVER, PREPARE, WRITE, KillingDataSource, ask
from integration.spark.topics import new_topic, produce
from integration.spark.victim import Victim
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.spark.attempts import PREFIX
from kafkalite.spark.client.cluster import Cluster
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.transactions import Transactions

POINTS = ((WRITE,), (PREPARE,), (BEFORE, AFTER), (COMMIT,))
ROWS = 120
PARTITIONS = 2


class Round(NamedTuple):
    """A query is killed at ``point`` of batch ``batch``; its retry divides the rows into ``tasks``; a broker dies with
    it, if one is named; and the whole driver, JVM and all, if ``driver`` says so."""

    number: int
    point: str
    batch: int
    tasks: int
    broker: int
    driver: bool


def make_plan(seed: int, each: int, brokers: int) -> list[Round]:
    """``each`` kills at every point, in any order; with ``brokers`` one of them, and the driver, in three of ten."""
    chance = random.Random(seed)
    points = [names[number % len(names)] for names in POINTS for number in range(each)]
    chance.shuffle(points)
    return [
        Round(
            number,
            point,
            chance.randrange(2),
            chance.choice((PARTITIONS, 3, 5)),
            chance.randrange(1, brokers + 1) if brokers and chance.random() < 0.3 else 0,
            bool(brokers) and chance.random() < 0.3,
        )
        for number, point in enumerate(points, 1)
    ]


def read_committed(cluster: LocalCluster, topic: str) -> list[int]:
    """All values that readers with ``read_committed`` see, up to the last stable offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    values: list[int] = []
    at_end: set[int] = set()
    deadline = time.monotonic() + 30
    while len(at_end) < PARTITIONS and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            at_end.add(message.partition())
        else:
            values.append(int(message.value()))
    consumer.close()
    assert len(at_end) == PARTITIONS
    return values


@pytest.fixture(scope="module")
def killing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with tasks that get their rows in several pieces."""
    spark.dataSource.register(KillingDataSource)
    pieces = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(pieces)
    spark.conf.set(pieces, "10")
    yield spark
    spark.conf.set(pieces, before)


def open_transactions(cluster: LocalCluster) -> list[str]:
    """Of all queries."""
    with Cluster(ClientConfig.from_kafka({"bootstrap.servers": cluster.bootstrap})) as client:
        return Transactions(client).open_transactions(f"{PREFIX}.")


def run_alone(victim: Victim) -> bool:
    """Whether a driver of its own came to its end."""
    where = (victim.bootstrap, victim.source, victim.target, str(victim.folder), str(victim.rows), str(PARTITIONS))
    command = [sys.executable, "-m", "integration.spark.victim", *where]
    log = victim.folder / "driver.log"
    with log.open("w") as output:
        environment = {**os.environ, KILL_DRIVER: "1"}
        done = subprocess.run(command, env=environment, stdout=output, stderr=output, timeout=180, check=False)
    return done.returncode == 0


def carry_out(spark: SparkSession, cluster: LocalCluster, plan: list[Round], folder: Path, replicas: int) -> None:
    """Every round with a query of its own: killed, started again, and counted."""
    source = new_topic(cluster, "rows", PARTITIONS, replicas=replicas)
    numbers = range(ROWS)
    produce(cluster, source, [Item(n % PARTITIONS, FIRST_TIMESTAMP, b"%d" % n, b"%d" % n, ()) for n in numbers])
    for each in plan:
        target = new_topic(cluster, "once", PARTITIONS, replicas=replicas)
        (folder / str(each.number)).mkdir()
        victim = Victim(spark, cluster.bootstrap, source, target, folder / str(each.number), ROWS // (each.batch + 1))
        ask(victim.file, each.batch, each.point)
        ended = run_alone(victim) if each.driver else victim.run(PARTITIONS)
        assert not ended, f"{each}: nobody was killed"
        assert not victim.file.exists()
        if each.broker:
            cluster.kill_broker(each.broker)
        runs = 0
        while not victim.run(each.tasks):
            runs += 1
            assert runs < 5, f"{each}: the query does not recover"
        seen = read_committed(cluster, target)
        doubled = {row: count for row, count in Counter(seen).items() if count > 1}
        assert sorted(seen) == list(numbers), f"{each}: twice {doubled}, missing {sorted(set(numbers) - set(seen))}"
        if each.broker:
            cluster.start_broker(each.broker)
        wait_for(lambda: not open_transactions(cluster), "no transaction is open")


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
@pytest.mark.timeout(600)
def test_kills_of_everything(killing: SparkSession, shared_cluster: LocalCluster, tmp_path: Path) -> None:
    """Two kills at each point; some retries divide the rows otherwise."""
    seed = int(os.environ.get("KAFKALITE_SEED", random.randrange(1 << 32)))
    print(f"KAFKALITE_SEED={seed}")
    carry_out(killing, shared_cluster, make_plan(seed, 2, 0), tmp_path, 1)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
@pytest.mark.timeout(3600)
def test_many_kills_and_brokers_too(killing: SparkSession, make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Ten at each point, brokers and whole drivers with every third, transactions without a timeout."""
    seed = int(os.environ.get("KAFKALITE_SEED", random.randrange(1 << 32)))
    print(f"KAFKALITE_SEED={seed}")
    two_phase = {} if AGAINST_KAFKA else {"transaction.two.phase.commit.enable": "true"}
    cluster = make_cluster(3, {"offsets.topic.replication.factor": "3", **two_phase})
    (tmp_path / "rounds").mkdir()
    carry_out(killing, cluster, make_plan(seed, 10, 3), tmp_path / "rounds", 3)
