"""What each setting buys, at the worst moment: the guarantees of ``docs/delivery.md``, one test each."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from integration.conftest import TEST_OVERRIDES, launcher
from integration.faults.applications import Application
from integration.faults.cluster import create_topic, read_batches, states, wait_in_sync, wait_led_by_others
from integration.faults.reader_application import (
    ALL_DONE,
    AUTOMATIC,
    COMMIT_FIRST,
    COMMITTED,
    DONE,
    HANDED,
    WORK_FIRST,
    ReaderTask,
)
from integration.faults.transformer import BEGUN, PRODUCED, STAGED, Task, result_of
from integration.faults.transformer import COMMITTED as TRANSACTION_COMMITTED
from integration.harness.admin import ask_controller
from integration.harness.clients import fresh_topic
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

DOCUMENT = Path(__file__).parents[1] / "docs" / "delivery.md"
KILLED = -int(signal.SIGKILL)
RECORDS = [f"record-{number}" for number in range(6)]
VICTIM = RECORDS[2]
"""The record during which an application dies."""
FIVE_SECONDS = "5000"


# Producers: what an acknowledgement means


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers that these tests may stop and kill; a follower that is silent for a while stays in its ISR."""
    overrides = {**TEST_OVERRIDES, "replica.lag.time.max.ms": "60000", "auto.leader.rebalance.enable": "false"}
    cluster = LocalCluster(tmp_path_factory.mktemp("delivery"), 3, overrides=overrides, launcher=launcher())
    cluster.start()
    yield cluster
    cluster.close()


class Sender:
    """A producer that sends single records and remembers what it was told of each."""

    def __init__(self, cluster: LocalCluster, topic: str, **settings: object) -> None:
        self.told: dict[str, str | None] = {}
        """Value → error, or ``None``: acknowledged."""
        self.requests = 0
        """To produce, all of them."""
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
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
        """Send, and do not wait."""
        self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
        self._producer.poll(0)

    def acknowledged(self, value: str, timeout: float = 60.0) -> None:
        """Wait for its acknowledgement."""
        assert self.answer(value, timeout) is None

    def answer(self, value: str, timeout: float = 60.0) -> str | None:
        """Wait for what is told of it."""
        wait_for(lambda: self.poll() and value in self.told, f"{value} is answered", timeout, 0.01)
        return self.told[value]

    def poll(self) -> bool:
        """Hear what there is."""
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
        # One record that all of them have.
        first = Sender(cluster, self.topic, acks="all")
        first.send("first")
        first.acknowledged("first")

    def pause_followers(self) -> None:
        """SIGSTOP: nothing reaches them any more."""
        for broker_id in self.followers:
            self.cluster.pause_broker(broker_id)

    def resume_followers(self) -> None:
        """SIGCONT."""
        for broker_id in self.followers:
            self.cluster.resume_broker(broker_id)

    def kill_leader(self) -> None:
        """``kill -9``, and wait for the next one. Followers that were paused go on."""
        self.cluster.kill_broker(self.leader)
        self.resume_followers()
        wait_led_by_others(self.cluster, self.topic, 1, self.leader, 60)

    def on_leader(self) -> int:
        """Batches in the leader's log, whoever has them besides."""
        return len(read_batches(self.cluster.broker_dir(self.leader) / "data" / f"{self.topic}-0"))

    def all_back(self) -> None:
        """All brokers run and are in sync."""
        for broker_id in self.cluster.broker_ids:
            if self.cluster.is_alive(broker_id):
                self.cluster.resume_broker(broker_id)
            else:
                self.cluster.start_broker(broker_id, wait=False)
        self.cluster.wait_ready()
        wait_in_sync(self.cluster, self.topic, 1)


@pytest.fixture
def stage(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A fresh topic; afterwards all brokers are back."""
    stage = Stage(cluster, re.sub(r"\W+", "-", request.node.name)[5:25])
    yield stage
    stage.all_back()


def values_in(cluster: LocalCluster, topic: str, isolation: str = "read_uncommitted") -> list[str]:
    """All values of partition 0, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
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


def test_acks_0_promises_nothing(stage: Stage) -> None:
    """The client calls a record delivered once it has sent it; a leader that dies before it reads it loses it."""
    sender = Sender(stage.cluster, stage.topic, acks="0")
    sender.send("second")
    wait_for(lambda: stage.on_leader() == 2, "a connection is there")
    stage.cluster.pause_broker(stage.leader)
    sender.send("lost")
    sender.acknowledged("lost")
    stage.kill_leader()
    stage.all_back()
    # whether the followers had the second in time is another matter
    assert values_in(stage.cluster, stage.topic) in (["first"], ["first", "second"])


def test_acks_1_loses_what_only_the_dead_leader_had(stage: Stage) -> None:
    """The leader acknowledges, and dies before a follower has fetched: the record is gone, and nobody is told."""
    sender = Sender(stage.cluster, stage.topic, acks="1")
    stage.pause_followers()
    # The first may still be in the answer to a fetch that was waiting when its sender was stopped.
    sent = [f"acknowledged-{number}" for number in range(4)]
    for value in sent:
        sender.send(value)
        sender.acknowledged(value)
    stage.kill_leader()
    stage.all_back()
    kept = values_in(stage.cluster, stage.topic)
    assert kept == ["first", *sent][: len(kept)]
    assert kept[-1] != sent[-1]
    print(f"\nacknowledged and lost: {sorted(set(sent) - set(kept))}")


def test_acks_all_outlives_the_leader(stage: Stage) -> None:
    """The same death: what was not yet on the followers was not acknowledged either, and is sent again, once."""
    sender = Sender(stage.cluster, stage.topic, acks="all", enable_idempotence=True)
    sender.send("second")
    sender.acknowledged("second")
    stage.pause_followers()
    sent = [f"sent-{number}" for number in range(4)]
    for value in sent:
        sender.send(value)
    wait_for(lambda: sender.poll() and stage.on_leader() > 2, "the leader has some of them")
    assert list(sender.told) == ["second"]
    stage.kill_leader()
    for value in sent:
        sender.acknowledged(value)
    stage.all_back()
    assert values_in(stage.cluster, stage.topic) == ["first", "second", *sent]


@pytest.mark.parametrize("idempotent", [False, True], ids=["at least once", "once"])
def test_a_record_that_is_sent_again(stage: Stage, idempotent: bool) -> None:
    """An answer that does not come in time makes the client send again: twice in the log, unless it is idempotent."""
    sender = Sender(stage.cluster, stage.topic, acks="all", enable_idempotence=idempotent, request_timeout_ms=1000)
    stage.pause_followers()
    sender.send("again")
    wait_for(lambda: sender.poll() and sender.requests >= 4, "it was sent again", 60)
    stage.resume_followers()
    sender.acknowledged("again")
    copies = Counter(values_in(stage.cluster, stage.topic))
    assert copies["first"] == 1
    assert (copies["again"] == 1) is idempotent
    print(f"\n{copies['again']} in the log of {sender.requests - 1} sent")


def test_too_few_replicas_are_refused(stage: Stage) -> None:
    """With ``min.insync.replicas=2`` acks=all refuses what only the leader could keep; acks=1 takes it."""
    entry = ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", stage.topic, incremental_configs=[entry])
    ask_controller(stage.cluster.bootstrap, lambda client: client.incremental_alter_configs([resource]))
    for broker_id in stage.followers:
        stage.cluster.kill_broker(broker_id)
    stage.leader = wait_for(lambda: alone(stage), "the leader is alone", 60)
    careful = Sender(stage.cluster, stage.topic, acks="all", message_timeout_ms=2000)
    careful.send("refused")
    assert careful.answer("refused") is not None
    careless = Sender(stage.cluster, stage.topic, acks="1")
    careless.send("taken")
    careless.acknowledged("taken")
    stage.all_back()
    assert values_in(stage.cluster, stage.topic) == ["first", "taken"]


def alone(stage: Stage) -> int:
    """The leader, once it is all that is left of the ISR."""
    state = states(stage.cluster, stage.topic, 1)[0]
    return int(state["leader"]) if state["isr"] == [state["leader"]] else 0


# Consumers: when they commit


@pytest.fixture
def filled(shared_cluster: LocalCluster) -> str:
    """A topic with :data:`RECORDS`."""
    topic = fresh_topic("delivery")
    create_topic(shared_cluster, topic, 1)
    sender = Sender(shared_cluster, topic, acks="all")
    for value in RECORDS:
        sender.send(value)
    for value in RECORDS:
        sender.acknowledged(value)
    return topic


def life_and_death(cluster: LocalCluster, topic: str, folder: Path, way: str, at: str, **more: Any) -> list[str]:
    """An application that dies over :data:`VICTIM`, then its successor: what they have done together."""
    told = (cluster.bootstrap, topic, f"readers of {topic}", way, str(folder / "done.txt"), RECORDS[-1])
    mortal = ReaderTask(*told, at=at, value=VICTIM, **more)
    Path(mortal.file).touch()
    assert mortal.run() == KILLED
    before = mortal.done()
    assert ReaderTask(*told).run() == ALL_DONE
    print(f"\nkilled when {VICTIM} was {at}: {before}, then {mortal.done()[len(before) :]}")
    return mortal.done()


def test_committing_first_is_at_most_once(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """Killed between its commit and its work: the record is skipped; nothing is done twice."""
    done = life_and_death(shared_cluster, filled, tmp_path, COMMIT_FIRST, COMMITTED)
    assert done == [value for value in RECORDS if value != VICTIM]


def test_working_first_is_at_least_once(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """Killed between its work and its commit: the record is done again; nothing is skipped."""
    done = life_and_death(shared_cluster, filled, tmp_path, WORK_FIRST, DONE)
    number = RECORDS.index(VICTIM)
    assert done == RECORDS[: number + 1] + RECORDS[number:]


def test_automatic_commits_may_skip(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """The client commits what it has handed over, done or not: killed before its work, the record is skipped."""
    done = life_and_death(shared_cluster, filled, tmp_path, AUTOMATIC, HANDED)
    assert done == [value for value in RECORDS if value != VICTIM]


def test_automatic_commits_may_repeat(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """Killed before the next interval has passed: all since the last commit is done again."""
    done = life_and_death(shared_cluster, filled, tmp_path, AUTOMATIC, DONE, interval_ms=3_600_000)
    assert done == RECORDS[: RECORDS.index(VICTIM) + 1] + RECORDS


# Both: transactions


def test_transactions_are_exactly_once(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """Killed at each moment of a transaction: a ``read_committed`` reader sees each result once, another may not."""
    target = fresh_topic("results")
    create_topic(shared_cluster, target, 1)
    task: dict[str, Any] = {
        "bootstrap": shared_cluster.bootstrap,
        "source": filled,
        "target": target,
        "group": f"transformers of {filled}",
        "transactional_id": target,
        "instance": "the only one",
        "batch": 1,
    }
    log = tmp_path / "application.log"
    for moment in (BEGUN, PRODUCED, STAGED, TRANSACTION_COMMITTED):
        mortal = Application(Task(**task, at=moment), log)
        assert mortal.wait_end() == KILLED
    expected = [result_of(0, number, value.encode()).decode() for number, value in enumerate(RECORDS)]
    last = Application(Task(**task), log)
    try:
        last.wait(TRANSACTION_COMMITTED, len(RECORDS) - 1)
    finally:
        last.kill()
    assert values_in(shared_cluster, target, "read_committed") == expected
    dirty = values_in(shared_cluster, target)
    assert Counter(dirty)[expected[0]] > 1, "what was aborted is there for those who ask for it"
    print(f"\n{len(dirty)} results in the log, {len(expected)} of them committed")


# The document


def test_every_row_of_the_document_has_its_test() -> None:
    """The guarantees and the tests that show them are named in ``docs/delivery.md``, all of them."""
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text()))
    here = {name for name, value in globals().items() if name.startswith("test_") and callable(value)}
    assert named >= here - {"test_every_row_of_the_document_has_its_test"}
