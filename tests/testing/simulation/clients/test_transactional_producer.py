"""Transactional producers: what is committed is there in full, what is aborted is seen by no reader, fences hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.history.events import Aborted, Acked, Committed, Initialized, Isolation, Read
from kafkalite.testing.simulation.clients.fetcher import FetchSettings
from kafkalite.testing.simulation.clients.reader import Reader, ReaderSettings
from kafkalite.testing.simulation.clients.sender import SenderSettings
from kafkalite.testing.simulation.clients.transactional_producer import TransactionalProducer, TransactionalSettings
from tests.testing.simulation.clients.brokers import Brokers, Fault, lose_answer, lose_request, once, swallow

TOPIC = "t"
PARTITIONS = (TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1))


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    for number, tp in enumerate(PARTITIONS):
        found.create(tp, ((1, 2, 3), (2, 3, 1))[number])
    yield found
    found.finish()


def producer_of(brokers: Brokers, **changes: object) -> tuple[TransactionalProducer, list[object]]:
    values: dict[str, object] = {"name": "tx", "transactional_id": "id", "topics": (TOPIC,), "rate": 5.0, "most": 12}
    producer = TransactionalProducer(brokers.host, TransactionalSettings(**(values | changes)))  # type: ignore[arg-type]
    return producer, brokers.start(producer)


def readers_of(brokers: Brokers) -> None:
    for isolation in Isolation:
        settings = ReaderSettings(isolation.value, (TOPIC,), FetchSettings(isolation=isolation))
        brokers.start(Reader(brokers.host, settings))


def test_committed_transactions_are_read_and_aborted_ones_are_not(brokers: Brokers) -> None:
    producer, ended = producer_of(brokers, aborted=0.4)
    readers_of(brokers)
    brokers.run(40)
    assert ended == [None]
    done, dropped = brokers.of(Committed), brokers.of(Aborted)
    assert len(done) + len(dropped) == 12
    assert producer.committed == len(done) > 2
    assert len(dropped) > 1
    read = {isolation: {e.record for e in brokers.of(Read) if e.isolation is isolation} for isolation in Isolation}
    assert read[Isolation.READ_COMMITTED] < read[Isolation.READ_UNCOMMITTED]
    assert len({event.epoch for event in brokers.of(Initialized)}) == 1
    assert brokers.found() == []
    assert brokers.violations == []


@pytest.mark.parametrize(
    "key",
    [ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN, ApiKey.FIND_COORDINATOR],
)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lose_request, id="request lost"),
        pytest.param(lose_answer, id="answer lost"),
        pytest.param(swallow, id="no answer"),
    ],
)
def test_a_request_that_is_lost_is_made_again(brokers: Brokers, key: ApiKey, fault: Fault) -> None:
    brokers.faults.append(once(key, fault, 2 if key in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN) else 0))
    producer, ended = producer_of(brokers, aborted=0.0)
    readers_of(brokers)
    brokers.run(60)
    assert ended == [None]
    assert producer.committed == 12
    assert brokers.found() == []
    assert brokers.violations == []
    # After a request that may arrive late the next transaction has another epoch.
    epochs = {event.epoch for event in brokers.of(Initialized)}
    assert (len(epochs) > 1) is (key in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN))


def test_a_late_batch_aborts_the_transaction(brokers: Brokers) -> None:
    for after in range(6):
        brokers.faults.append(once(ApiKey.PRODUCE, swallow, after))
    sender = SenderSettings(delivery_timeout=2.0, request_timeout=1.5)
    producer, ended = producer_of(brokers, aborted=0.0, sender=sender)
    readers_of(brokers)
    brokers.run(60)
    assert ended == [None]
    assert len(brokers.of(Aborted)) >= 1
    assert producer.committed == 12 - len(brokers.of(Aborted))
    assert len({event.epoch for event in brokers.of(Initialized)}) > 1
    assert brokers.found() == []
    assert brokers.violations == []


def test_a_second_instance_fences_the_first(brokers: Brokers) -> None:
    first, first_ended = producer_of(brokers, most=1000, lives=1)
    readers_of(brokers)
    brokers.run(5)
    acknowledged = first.acknowledged
    assert acknowledged > 0
    second, _ = producer_of(brokers, name="usurper", lives=1)
    brokers.run(30)
    assert first_ended == [None]
    assert first.fenced == 1
    assert second.fenced == 0
    assert second.committed > 3
    assert [event.record.producer for event in brokers.of(Acked)][-1] == "usurper.1"
    assert brokers.found() == []
    assert brokers.violations == []


def test_a_fenced_producer_lives_again_under_another_name(brokers: Brokers) -> None:
    first, _ = producer_of(brokers, most=1000, lives=2)
    brokers.run(5)
    producer_of(brokers, name="usurper", lives=1)
    brokers.run(30)
    assert first.fenced == 1
    assert {event.producer for event in brokers.of(Initialized)} == {"tx.1", "tx.2", "usurper.1"}
    assert brokers.found() == []
    assert brokers.violations == []


def test_a_killed_producer_leaves_its_transaction_to_the_next(brokers: Brokers) -> None:
    first, ended = producer_of(brokers, most=1000, pause=1.0)
    readers_of(brokers)
    brokers.run(4.2)
    first.kill()
    brokers.run(1)
    assert ended == [None]
    second, _ = producer_of(brokers, name="next")
    brokers.run(60)
    assert second.committed > 3
    assert brokers.found() == []
    assert brokers.violations == []
