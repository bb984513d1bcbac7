"""Readers see each row of the exactly-once sink once though its writing and committing processes are killed (-9).

``KAFKALITE_SEED`` repeats the plan of an earlier run. ``make test`` has one kill at each point,
``make test-all`` two, ``make soak`` ten.
"""

from __future__ import annotations

import os
import random
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
from integration.spark.killing import AFTER, BEFORE, COMMIT, JVM, PREPARE, PROCESS, WAIT, WRITE, KillingDataSource, ask
from integration.spark.topics import new_topic, produce
from integration.spark.victim import ATTEMPTS, Victim, came_to_its_end, driver, hit, run
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.spark.attempts import PREFIX
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.transactions import TransactionClient

DRIVER, PROCESSES, EXECUTORS = "a driver", "Python processes", "executors"
ROWS = 120
PARTITIONS = 2
BROKERS = 3
TIMEOUT = 300


class Kill(NamedTuple):
    """A death at ``point`` of batch ``batch`` of a query."""

    point: str
    batch: int


class Round(NamedTuple):
    """Four queries run at once, and each is killed at its point: either their driver dies, or only the process at that
    point. A ``broker``, if there is one, dies with them. The retries divide the rows into ``tasks``."""

    number: int
    dies: str
    kills: tuple[Kill, ...]
    tasks: int
    broker: int


def make_plan(seed: int, rounds: int) -> list[Round]:
    """Rounds with a kill at each point; a broker dies with every driver, and with some of the other processes."""
    rng = random.Random(seed)
    plan = []
    for number in range(rounds):
        dies = (DRIVER, PROCESSES, DRIVER, EXECUTORS)[number % 4]
        points = (WRITE, PREPARE, rng.choice((BEFORE, AFTER)), COMMIT)
        kills = tuple(Kill(point, rng.randrange(2)) for point in points)
        broker = rng.randrange(1, BROKERS + 1)
        tasks = rng.choice((PARTITIONS, 3, 5))
        plan.append(Round(number, dies, kills, tasks, broker if dies == DRIVER or rng.random() < 0.3 else 0))
    return plan


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
    """The session, with small Arrow batches, so that a task gets its rows in several."""
    spark.dataSource.register(KillingDataSource)
    pieces = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(pieces)
    spark.conf.set(pieces, "10")
    yield spark
    spark.conf.set(pieces, before)


def open_transactions(cluster: LocalCluster) -> list[str]:
    """The open transactions of all queries."""
    with ClusterConnections(ClientConfig.from_kafka({"bootstrap.servers": cluster.bootstrap})) as client:
        return TransactionClient(client).open_transactions(f"{PREFIX}.")


class Rounds:
    """Runs a plan on a cluster; killed queries are restarted in the session ``spark``."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, folder: Path) -> None:
        self._spark = spark
        self._cluster = cluster
        self._folder = folder
        self._source = new_topic(cluster, "rows", PARTITIONS, replicas=BROKERS)
        texts = [b"%d" % number for number in range(ROWS)]
        produce(cluster, self._source, [Item(n % PARTITIONS, FIRST_TIMESTAMP, t, t, ()) for n, t in enumerate(texts)])

    def carry_out(self, each: Round) -> None:
        """Kill four queries, restart them until they are complete, and count their rows."""
        folder = self._folder / str(each.number)
        folder.mkdir()
        victims = [self._victim(folder, kill) for kill in each.kills]
        for victim, kill in zip(victims, each.kills, strict=True):
            ask(victim.file, kill.batch, kill.point, self._how(each, kill))
        self._kill(each, folder, victims)
        if each.broker:
            self._cluster.kill_broker(each.broker)
        runs, left = 0, victims
        while left := run(self._spark, self._cluster.bootstrap, left, each.tasks):
            runs += 1
            assert runs < ATTEMPTS, f"{each}: the queries do not recover"
        for victim, kill in zip(victims, each.kills, strict=True):
            self._count(victim, f"{each}, {kill}")
        if each.broker:
            self._cluster.start_broker(each.broker)
        wait_for(lambda: not open_transactions(self._cluster), "no transaction is open")

    def _victim(self, folder: Path, kill: Kill) -> Victim:
        own = folder / kill.point
        own.mkdir()
        target = new_topic(self._cluster, "once", PARTITIONS, replicas=BROKERS)
        return Victim(self._source, target, str(own), ROWS // (kill.batch + 1))

    def _how(self, each: Round, kill: Kill) -> str:
        if each.dies == DRIVER:
            return WAIT
        return JVM if each.dies == EXECUTORS and kill.point in (WRITE, PREPARE) else PROCESS

    def _kill(self, each: Round, folder: Path, victims: list[Victim]) -> None:
        bootstrap = self._cluster.bootstrap
        if each.dies == PROCESSES:
            for query in hit(self._spark, bootstrap, victims, PARTITIONS):
                came_to_its_end(query)
            return
        # Eight slots, because each task that waits for its driver's death needs one.
        master = "local[8]" if each.dies == DRIVER else "local-cluster[2,4,512]"
        with driver(bootstrap, folder, master, PARTITIONS, victims) as process:
            if each.dies == EXECUTORS:
                assert process.wait(TIMEOUT) == 0
                return

            def ready() -> bool:
                assert process.poll() is None, (folder / "driver.log").read_text()[-2000:]
                return all(victim.was_hit for victim in victims)

            wait_for(ready, "each query is where it is to die", TIMEOUT)

    def _count(self, victim: Victim, what: str) -> None:
        seen = read_committed(self._cluster, victim.target)
        doubled = {row: count for row, count in Counter(seen).items() if count > 1}
        missing = sorted(set(range(ROWS)) - set(seen))
        assert sorted(seen) == list(range(ROWS)), f"{what}: twice {doubled}, missing {missing}"


@pytest.fixture
def rounds(killing: SparkSession, make_cluster: ClusterFactory, tmp_path: Path) -> Rounds:
    """Rounds on three brokers; transactions have no timeout if the broker allows that."""
    two_phase = {} if AGAINST_KAFKA else {"transaction.two.phase.commit.enable": "true"}
    replicated = {"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3"}
    cluster = make_cluster(BROKERS, replicated | two_phase)
    (tmp_path / "rounds").mkdir()
    return Rounds(killing, cluster, tmp_path / "rounds")


def seed() -> int:
    """Seed of the plan, which is printed."""
    found = int(os.environ.get("KAFKALITE_SEED", random.randrange(1 << 32)))
    print(f"KAFKALITE_SEED={found}")
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "dies", [pytest.param(DRIVER, marks=pytest.mark.full), PROCESSES], ids=lambda dies: dies.replace(" ", "-")
)
def test_each_row_is_seen_once_after_a_kill_at_each_point(rounds: Rounds, dies: str) -> None:
    """A driver dies together with a broker, or only the processes that work for four queries die."""
    for each in make_plan(seed(), 2):
        if each.dies == dies:
            rounds.carry_out(each)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
@pytest.mark.timeout(3600)
def test_each_row_is_seen_once_after_many_kills(rounds: Rounds) -> None:
    """Ten kills at each point; in some, whole executors die and Spark repeats their tasks."""
    for each in make_plan(seed(), 10):
        rounds.carry_out(each)
