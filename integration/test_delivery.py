"""The guarantees of ``docs/delivery.md`` at the worst moment for each, one test each."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from integration.conftest import TEST_OVERRIDES, launcher
from integration.faults.applications import Application
from integration.faults.cluster import create_topic, states
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
from integration.faults.stage import Sender, Stage, values_in
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


# Producers: what an acknowledgement means


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers that these tests stop and kill; a stopped follower stays in the ISR for a while."""
    overrides = {**TEST_OVERRIDES, "replica.lag.time.max.ms": "60000", "auto.leader.rebalance.enable": "false"}
    cluster = LocalCluster(tmp_path_factory.mktemp("delivery"), 3, overrides=overrides, launcher=launcher())
    cluster.start()
    yield cluster
    cluster.close()


@pytest.fixture
def stage(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A fresh topic; after the test all brokers are in sync again."""
    stage = Stage(cluster, re.sub(r"\W+", "-", request.node.name)[5:25])
    yield stage
    stage.all_back()


def test_acks_0_promises_nothing(stage: Stage) -> None:
    """The client reports a sent record as delivered, and a leader that dies before reading the request loses it."""
    sender = Sender(stage.cluster, stage.topic, acks="0")
    sender.send("second")
    wait_for(lambda: stage.on_leader() == 2, "a connection is there")
    stage.cluster.pause_broker(stage.leader)
    sender.send("lost")
    sender.acknowledged("lost")
    stage.kill_leader()
    stage.all_back()
    # The followers may or may not have fetched the second record.
    assert values_in(stage.cluster, stage.topic) in (["first"], ["first", "second"])


def test_acks_1_loses_what_only_the_dead_leader_had(stage: Stage) -> None:
    """The leader acknowledges and dies before a follower has fetched; the record is lost, without any error."""
    sender = Sender(stage.cluster, stage.topic, acks="1")
    # The first record comes before the pause, because a producer's first requests go to any broker.
    sender.send("second")
    sender.acknowledged("second")
    stage.pause_followers()
    # Several records, because the first may answer a fetch that was waiting when its follower was stopped.
    sent = [f"acknowledged-{number}" for number in range(4)]
    for value in sent:
        sender.send(value)
        sender.acknowledged(value)
    stage.kill_leader()
    stage.all_back()
    kept = values_in(stage.cluster, stage.topic)
    assert kept == ["first", "second", *sent][: len(kept)]
    assert kept[-1] != sent[-1]
    print(f"\nacknowledged and lost: {sorted(set(sent) - set(kept))}")


def test_acks_all_outlives_the_leader(stage: Stage) -> None:
    """After the same death the producer repeats the records that the followers lack, because they were not
    acknowledged, and each is in the log once."""
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
    """A client without an answer in time repeats the record, which is then in the log twice unless it is idempotent."""
    sender = Sender(stage.cluster, stage.topic, acks="all", enable_idempotence=idempotent, request_timeout_ms=1000)
    sender.send("second")
    sender.acknowledged("second")
    stage.pause_followers()
    sender.send("again")
    wait_for(lambda: sender.poll() and sender.requests >= 4, "it was sent again", 60)
    stage.resume_followers()
    sender.acknowledged("again")
    copies = Counter(values_in(stage.cluster, stage.topic))
    assert copies["first"] == 1
    assert (copies["again"] == 1) is idempotent
    print(f"\n{copies['again']} in the log of {sender.requests} requests")


def test_too_few_replicas_are_refused(stage: Stage) -> None:
    """With ``min.insync.replicas=2`` a leader that is alone in the ISR refuses acks=all, and accepts acks=1."""
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
    """The leader, once it is alone in the ISR."""
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
    """Run an application that dies at :data:`VICTIM`, then its successor; returns the records that both handled."""
    told = (cluster.bootstrap, topic, f"readers of {topic}", way, str(folder / "done.txt"), RECORDS[-1])
    mortal = ReaderTask(*told, at=at, value=VICTIM, **more)
    Path(mortal.file).touch()
    assert mortal.run() == KILLED
    before = mortal.done()
    assert ReaderTask(*told).run() == ALL_DONE
    print(f"\nkilled when {VICTIM} was {at}: {before}, then {mortal.done()[len(before) :]}")
    return mortal.done()


def test_committing_first_is_at_most_once(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """Killed between commit and work: the record is skipped, and no record is handled twice."""
    done = life_and_death(shared_cluster, filled, tmp_path, COMMIT_FIRST, COMMITTED)
    assert done == [value for value in RECORDS if value != VICTIM]


def test_working_first_is_at_least_once(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """Killed between work and commit: the record is handled again, and no record is skipped."""
    done = life_and_death(shared_cluster, filled, tmp_path, WORK_FIRST, DONE)
    number = RECORDS.index(VICTIM)
    assert done == RECORDS[: number + 1] + RECORDS[number:]


def test_automatic_commits_may_skip(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """The client commits records that it has passed to the application: one killed before its work skips the record."""
    done = life_and_death(shared_cluster, filled, tmp_path, AUTOMATIC, HANDED)
    assert done == [value for value in RECORDS if value != VICTIM]


def test_automatic_commits_may_repeat(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """Killed before the end of the interval: all records since the last commit are handled again."""
    done = life_and_death(shared_cluster, filled, tmp_path, AUTOMATIC, DONE, interval_ms=3_600_000)
    assert done == RECORDS[: RECORDS.index(VICTIM) + 1] + RECORDS


# Both: transactions


def test_transactions_are_exactly_once(shared_cluster: LocalCluster, filled: str, tmp_path: Path) -> None:
    """Killed at each moment of a transaction: ``read_committed`` readers see each result once, others may see it
    twice."""
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
    """``docs/delivery.md`` names all tests of this file, and all tests that it names exist."""
    text = DOCUMENT.read_text()
    here = {name for name, value in globals().items() if name.startswith("test_") and callable(value)}
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named >= here - {"test_every_row_of_the_document_has_its_test"}
    elsewhere = set(re.findall(r"`integration/(\w+\.py)::(test_\w+)`", text))
    elsewhere |= {("test_coordinator_failover.py", name) for name in named - here}
    assert elsewhere
    for file, name in elsewhere:
        assert f"def {name}(" in Path(__file__).with_name(file).read_text(), f"{file}::{name}"
