"""Pipelines: each record that is committed as read has one result, also if requests or answers are lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.history.events import Derived, Isolation, OffsetCommitted, Positioned, Read
from kafkalite.testing.simulation.clients.consumer_coordinator import MembershipSettings
from kafkalite.testing.simulation.clients.fetcher import FetchSettings
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.clients.reader import Reader, ReaderSettings
from kafkalite.testing.simulation.clients.transformer import Transformer, TransformerSettings
from tests.testing.simulation.clients.brokers import Brokers, Call, Fault, Wire, lose_answer, lose_request, once

SOURCE, TARGET = "source", "target"
BY_NAME = FetchSettings(version=12)
"""All topics of these brokers have one topic id."""


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    for topic in (SOURCE, TARGET):
        for number in range(2):
            found.create(TopicPartition(topic, number), ((1, 2, 3), (2, 3, 1))[number])
    yield found
    found.finish()


def producer_of(brokers: Brokers, most: int) -> Producer:
    producer = Producer(brokers.host, ProducerSettings("p", (SOURCE,), rate=3.0, most=most))
    brokers.start(producer)
    return producer


def transformer_of(
    brokers: Brokers, name: str, transactional_id: str = "id", instance: str | None = None
) -> tuple[Transformer, list[object]]:
    membership = MembershipSettings("g", (SOURCE,), instance)
    settings = TransformerSettings(name, transactional_id, membership, TARGET, fetch=BY_NAME)
    transformer = Transformer(brokers.host, settings)
    return transformer, brokers.start(transformer)


def results(brokers: Brokers) -> int:
    """Committed results, read by a reader that began now."""
    settings = ReaderSettings("last", (TARGET,), replace(BY_NAME, isolation=Isolation.READ_COMMITTED))
    brokers.start(Reader(brokers.host, settings))
    brokers.run(10)
    return sum(event.reader == "last" for event in brokers.of(Read))


def test_each_record_has_one_result(brokers: Brokers) -> None:
    producer_of(brokers, 150)
    transformer, ended = transformer_of(brokers, "a")
    brokers.run(60)
    assert sum({event.partition: event.offset for event in brokers.of(OffsetCommitted)}.values()) == 150
    assert results(brokers) == 150
    transformer.stop()
    brokers.run(10)
    assert ended == [None]
    assert transformer.transactions > 10
    assert brokers.found() == []
    assert brokers.violations == []


@pytest.mark.parametrize(
    "key", [ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.PRODUCE, ApiKey.OFFSET_FETCH]
)
@pytest.mark.parametrize(
    "fault", [pytest.param(lose_request, id="request lost"), pytest.param(lose_answer, id="answer lost")]
)
def test_a_request_that_is_lost_does_no_harm(brokers: Brokers, key: ApiKey, fault: Fault) -> None:
    producer_of(brokers, 100)
    brokers.faults.append(once(key, fault, 1))
    transformer_of(brokers, "a")
    brokers.run(60)
    assert brokers.count(key) > 2
    assert results(brokers) == 100
    assert brokers.found() == []
    assert brokers.violations == []


def test_two_processes_share_the_work_and_one_is_killed(brokers: Brokers) -> None:
    producer_of(brokers, 300)
    first, _ = transformer_of(brokers, "a", "id-a")
    second, _ = transformer_of(brokers, "b", "id-b")
    brokers.run(12)
    assert first.transactions > 2
    assert second.transactions > 2
    first.kill()
    brokers.run(90)
    assert results(brokers) == 300
    # The uncommitted records were read and transformed again.
    assert len(brokers.of(Derived)) >= 300
    assert brokers.found() == []
    assert brokers.violations == []


def test_a_second_process_takes_the_place_of_the_first(brokers: Brokers) -> None:
    """Same transactional id, same name in the group: the first is fenced in one of its roles."""
    producer_of(brokers, 300)
    first, ended = transformer_of(brokers, "a", instance="one")
    brokers.run(8)
    done = first.transactions
    assert done > 2
    transformer_of(brokers, "b", instance="one")
    brokers.run(90)
    assert first.fenced + len(ended) >= 1
    assert results(brokers) == 300
    assert {event.reader for event in brokers.of(Positioned)} >= {"a.1", "b.1"}
    assert brokers.found() == []
    assert brokers.violations == []


def test_an_undecided_transaction_holds_its_partitions_back_and_no_more(brokers: Brokers) -> None:
    """The successor waits for the offsets, and joins only once."""
    producer_of(brokers, 200)
    staged: list[Call] = []

    def kill(wire: Wire, call: Call) -> bool:
        """The process dies once its offsets are staged."""
        del wire
        if call.key is ApiKey.END_TXN and not staged:
            staged.append(call)
            first.kill()
            return True
        return False

    first, _ = transformer_of(brokers, "a", "id-a")
    brokers.run(4)
    brokers.faults.append(kill)
    brokers.run(1)
    assert staged
    transformer_of(brokers, "b", "id-b")
    brokers.run(60)
    assert results(brokers) == 200
    assert brokers.count(ApiKey.JOIN_GROUP) < 12
    assert brokers.found() == []
    assert brokers.violations == []
