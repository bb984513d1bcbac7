"""Transactions on a real cluster: visibility for readers, fencing, and the death of coordinators."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from integration.conftest import AGAINST_KAFKA, TEST_OVERRIDES, launcher
from integration.faults.cluster import create_topic
from integration.faults.groups import TRANSACTION, find_coordinator
from integration.harness.clients import fresh_topic
from integration.harness.raw import RawClient
from integration.harness.transactions import (
    RawProducer,
    Session,
    ask_leader,
    leader_of,
    stable_end,
)
from integration.harness.wait import wait_for
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request

NONE = ErrorCode.NONE
UNCOMMITTED = 0
FOR_EVER = (1 << 31) - 1
OVERRIDES = {
    **TEST_OVERRIDES,
    "zookeeper.session.timeout.ms": "5000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
    **({} if AGAINST_KAFKA else {"transaction.two.phase.commit.enable": "true"}),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with a short interval for aborting timed-out transactions."""
    made = LocalCluster(tmp_path_factory.mktemp("transactions"), 3, overrides=OVERRIDES, launcher=launcher())
    made.start()
    yield made
    made.close()


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """A topic of three partitions with three different leaders."""
    name = fresh_topic("transactions")
    create_topic(cluster, name, 3)
    return name


def producer_of(cluster: LocalCluster, transactional_id: str) -> Producer:
    """librdkafka's producer with a begun transaction."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(30)
    return producer


def read_all(cluster: LocalCluster, topic: str, isolation: str, partitions: int = 3) -> list[str]:
    """All values that a reader with this isolation level can read now, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": fresh_topic("readers"),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[str] = []
    ends: set[int] = set()
    with contextlib.closing(consumer):
        deadline = time.monotonic() + 20
        while len(ends) < partitions:
            assert time.monotonic() < deadline, f"read only {found}"
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message.value().decode())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ends.add(message.partition())
    return sorted(found)


def wait_stable(cluster: LocalCluster, topic: str, end: int, partition: int = 0) -> None:
    """Wait until the last stable offset is ``end``."""
    wait_for(lambda: stable_end(cluster, topic, partition) == end, f"{topic} is stable up to {end}")


def wait_ended(cluster: LocalCluster, topic: str, least: int, partition: int = 0) -> None:
    """Wait until no transaction is open in a log of at least ``least`` records; two coordinators may each have written
    a marker."""

    def ended() -> bool:
        stable = stable_end(cluster, topic, partition)
        return stable_end(cluster, topic, partition, UNCOMMITTED) == stable >= least

    wait_for(ended, f"{topic} is stable at {least} or beyond")


# Visibility


def test_read_committed_readers_see_only_committed_records(cluster: LocalCluster, topic: str) -> None:
    producer = producer_of(cluster, f"{topic}-tx")
    expected = []
    for number in range(6):
        producer.begin_transaction()
        values = [f"{number}-{index}" for index in range(9)]
        for index, value in enumerate(values):
            producer.produce(topic, value, partition=index % 3)
        if number % 2:
            producer.flush(10)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            expected += values
    wait_for(lambda: stable_end(cluster, topic) == 24, "markers are written")
    assert read_all(cluster, topic, "read_committed") == sorted(expected)
    assert len(read_all(cluster, topic, "read_uncommitted")) == 6 * 9


def test_an_open_transaction_holds_readers_back(cluster: LocalCluster, topic: str) -> None:
    first, second = RawProducer(cluster, f"{topic}-1"), RawProducer(cluster, f"{topic}-2")
    assert first.init() is NONE and second.init() is NONE
    assert first.add(topic, 0) is NONE and first.send(topic, 3) is NONE
    second.transaction(topic, 2, commit=True)
    wait_for(lambda: stable_end(cluster, topic, isolation=UNCOMMITTED) == 6, "the second one's marker is written")
    assert stable_end(cluster, topic) == 0
    assert read_all(cluster, topic, "read_committed") == []
    assert len(read_all(cluster, topic, "read_uncommitted")) == 5
    assert first.end(commit=False) is NONE
    wait_stable(cluster, topic, 7)
    assert len(read_all(cluster, topic, "read_committed")) == 2


def test_consume_transform_produce(cluster: LocalCluster, topic: str) -> None:
    target, group = fresh_topic("results"), fresh_topic("transformers")
    create_topic(cluster, target, 3)
    feeder = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(30):
        feeder.produce(topic, f"{number:02}", partition=number % 3)
    feeder.flush(10)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "isolation.level": "read_committed"})
    producer = producer_of(cluster, f"{topic}-tx")
    consumer.subscribe([topic])
    partitions = [TopicPartition(topic, number) for number in range(3)]
    done, aborted = 0, False
    with contextlib.closing(consumer):
        deadline = time.monotonic() + 30
        while done < 30:
            assert time.monotonic() < deadline
            batch = consumer.consume(10, 0.5)
            if not batch:
                continue
            producer.begin_transaction()
            for message in batch:
                assert message.error() is None, message.error()
                producer.produce(target, message.value() + b"!", partition=message.partition())
            before = [found.offset for found in consumer.committed(partitions, 10)]
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30
            )
            if not aborted:
                producer.abort_transaction(30)
                aborted = True
                # The aborted offsets are unchanged, and the records are read again.
                assert [found.offset for found in consumer.committed(partitions, 10)] == before
                for message in batch:
                    consumer.seek(TopicPartition(topic, message.partition(), 0))
                continue
            producer.commit_transaction(30)
            done += len(batch)
            after = [max(found.offset, 0) for found in consumer.committed(partitions, 10)]
            assert sum(after) == done
    assert read_all(cluster, target, "read_committed") == [f"{number:02}!" for number in range(30)]


# Fencing


def test_a_successor_fences(cluster: LocalCluster, topic: str) -> None:
    name = f"{topic}-tx"
    zombie = producer_of(cluster, name)
    zombie.begin_transaction()
    zombie.produce(topic, "lost", partition=0)
    zombie.flush(10)
    successor = producer_of(cluster, name)
    successor.begin_transaction()
    successor.produce(topic, "kept", partition=0)
    successor.commit_transaction(30)
    with pytest.raises(KafkaException) as refused:
        zombie.produce(topic, "late", partition=1)
        zombie.commit_transaction(30)
    assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH), refused.value
    wait_stable(cluster, topic, 4)
    assert read_all(cluster, topic, "read_committed") == ["kept"]


def test_a_fenced_producer_is_told_so_in_its_versions_words(cluster: LocalCluster, topic: str) -> None:
    zombie, successor = RawProducer(cluster, f"{topic}-tx"), RawProducer(cluster, f"{topic}-tx")
    assert zombie.init() is NONE
    assert zombie.add(topic, 0) is NONE and zombie.send(topic) is NONE
    assert successor.init(again=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert successor.init() is NONE
    assert successor.session == Session(zombie.session.producer_id, zombie.session.epoch + 2)
    old, new = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
    assert [zombie.add(topic, 1, version=version) for version in range(4)] == [old, old, new, new]
    assert [zombie.offsets("g", version=version) for version in range(5)] == [old, old, new, new, new]
    assert [zombie.end(version=version) for version in range(5)] == [old, old, new, new, new]
    assert [zombie.init(version, expected=zombie.session) for version in (3, 4, 5)] == [old, new, new]
    # The leaders refuse the zombie, too, because the marker had a greater epoch.
    assert zombie.send(topic) is old


def test_a_producer_that_continues_after_an_error_keeps_its_id(cluster: LocalCluster, topic: str) -> None:
    producer = RawProducer(cluster, f"{topic}-tx")
    assert producer.init() is NONE
    before = producer.session
    producer.transaction(topic, 1, commit=True)
    assert producer.init(expected=before) is NONE
    assert producer.session == Session(before.producer_id, before.epoch + 1)
    # A repeated request gets the same answer, because the first answer may have been lost.
    assert producer.init(expected=before) is NONE
    assert producer.session == Session(before.producer_id, before.epoch + 1)
    producer.transaction(topic, 1, commit=True)


# Batches outside a transaction


def test_batches_outside_their_transaction_are_refused(cluster: LocalCluster, topic: str) -> None:
    producer = RawProducer(cluster, f"{topic}-tx")
    assert producer.init() is NONE
    refused = ErrorCode.INVALID_TXN_STATE
    assert producer.send(topic) is refused
    assert producer.add(topic, 0) is NONE
    assert producer.send(topic, partition=1) is refused
    assert producer.send(topic, 2) is NONE
    assert producer.send(topic, transactional=False) is refused
    assert producer.end() is NONE
    wait_stable(cluster, topic, 3)
    assert producer.send(topic) is refused
    assert producer.add(topic, 1) is NONE
    assert producer.send(topic) is refused
    assert producer.send(topic, partition=1) is NONE
    assert producer.end() is NONE
    stranger = RawProducer(cluster, f"{topic}-nobody")
    stranger.session = Session(producer.session.producer_id + 100_000, 0)
    assert stranger.send(topic) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stable_end(cluster, topic, isolation=UNCOMMITTED) == 3


def test_the_coordinator_verifies_partitions_for_leaders(cluster: LocalCluster, topic: str) -> None:
    producer = RawProducer(cluster, f"{topic}-tx")
    assert producer.init() is NONE and producer.add(topic, 0) is NONE
    kind = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction

    def asked(version: int, session: Session, verify_only: bool, *partitions: int) -> list[ErrorCode]:
        transaction = kind(
            transactional_id=producer.transactional_id,
            producer_id=session.producer_id,
            producer_epoch=session.epoch,
            verify_only=verify_only,
            topics=[kind.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        with RawClient(cluster.address(producer.coordinator())) as client:
            answer = client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[transaction])
        assert answer.error_code == NONE
        (result,) = answer.results_by_transaction
        found = {
            p.partition_index: p.partition_error_code for t in result.topic_results for p in t.results_by_partition
        }
        return [ErrorCode(found[number]) for number in partitions]

    assert asked(4, producer.session, True, 0) == [NONE]
    assert asked(5, producer.session, True, 1) == [ErrorCode.TRANSACTION_ABORTABLE]
    older = Session(producer.session.producer_id, producer.session.epoch + 1)
    assert asked(4, older, True, 0) == [ErrorCode.PRODUCER_FENCED]
    assert asked(4, producer.session, False, 0, 1) == [NONE, NONE]
    assert asked(5, producer.session, True, 0, 1) == [NONE, NONE]
    assert asked(4, producer.session, False, 2, 7) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert producer.end(commit=False) is NONE


# Markers


def write_marker(
    cluster: LocalCluster, topic: str, session: Session, coordinator_epoch: int, version: int = 1
) -> ErrorCode:
    """The answer of partition 0's leader to an abort marker."""
    kind = messages.WriteTxnMarkersRequest.WritableTxnMarker
    marker = kind(
        producer_id=session.producer_id,
        producer_epoch=session.epoch,
        transaction_result=False,
        coordinator_epoch=coordinator_epoch,
        topics=[kind.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )
    with ask_leader(cluster, topic) as client:
        answer = client.ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])
    (found,) = answer.markers
    assert found.producer_id == session.producer_id
    return ErrorCode(found.topics[0].partitions[0].error_code)


def test_markers_of_overtaken_coordinators_and_producers_are_refused(cluster: LocalCluster, topic: str) -> None:
    producer = RawProducer(cluster, f"{topic}-tx")
    assert producer.init() is NONE
    assert producer.init() is NONE
    producer.transaction(topic, 1, commit=True)
    wait_stable(cluster, topic, 2)
    me = producer.session
    assert producer.add(topic, 0) is NONE and producer.send(topic) is NONE
    assert write_marker(cluster, topic, me, -1) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert write_marker(cluster, topic, Session(me.producer_id, me.epoch - 1), 9) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable_end(cluster, topic) == 2
    # A newer coordinator epoch is accepted, because tools end hanging transactions this way.
    for version in (0, 1):
        assert write_marker(cluster, topic, me, 9, version) is NONE
    wait_stable(cluster, topic, 5)


# Timeouts

SHORT_MS = 4000
"""Longer than a machine stalls, because the transaction may not be aborted before its record is written."""


def test_an_abandoned_transaction_is_aborted(cluster: LocalCluster, topic: str) -> None:
    producer = RawProducer(cluster, f"{topic}-tx", timeout_ms=SHORT_MS)
    assert producer.init() is NONE and producer.add(topic, 0) is NONE and producer.send(topic) is NONE
    wait_stable(cluster, topic, 2)
    assert producer.end() is ErrorCode.PRODUCER_FENCED
    assert producer.send(topic) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert read_all(cluster, topic, "read_committed") == []
    # The producer must start a new session.
    assert producer.init() is NONE
    producer.transaction(topic, 1, commit=True)


@pytest.mark.kafkalite_only
def test_a_prepared_transaction_has_no_timeout(cluster: LocalCluster, topic: str) -> None:
    engine = RawProducer(cluster, f"{topic}-tx", timeout_ms=FOR_EVER)
    assert engine.init() is NONE
    assert engine.add(topic, 0) is NONE and engine.send(topic, 2) is NONE
    # The engine has ended. A second transaction with a short timeout shows when the cluster has aborted timed-out ones.
    other = RawProducer(cluster, f"{topic}-short", timeout_ms=SHORT_MS)
    assert other.init() is NONE and other.add(topic, 1) is NONE and other.send(topic, partition=1) is NONE
    wait_stable(cluster, topic, 2, partition=1)
    described = describe(cluster, engine)
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", FOR_EVER)
    assert engine.transactional_id in listed(cluster, ["Ongoing"])
    # Another process that knows producer id and epoch ends the transaction.
    successor = RawProducer(cluster, engine.transactional_id)
    successor.session = engine.session
    assert successor.end() is NONE
    wait_stable(cluster, topic, 3)
    assert len(read_all(cluster, topic, "read_committed")) == 2


@pytest.mark.kafkalite_only
def test_an_administrator_ends_a_prepared_transaction(cluster: LocalCluster, topic: str) -> None:
    engine = RawProducer(cluster, f"{topic}-tx", timeout_ms=FOR_EVER)
    assert engine.init() is NONE
    assert engine.add(topic, 0) is NONE and engine.send(topic, 2) is NONE
    administrator = RawProducer(cluster, engine.transactional_id)
    assert administrator.init() is NONE
    wait_stable(cluster, topic, 3)
    assert engine.end() is ErrorCode.PRODUCER_FENCED
    assert read_all(cluster, topic, "read_committed") == []


def test_timeouts_are_bounded(cluster: LocalCluster, topic: str) -> None:
    for timeout_ms in (0, 900_001):
        producer = RawProducer(cluster, f"{topic}-tx", timeout_ms=timeout_ms)
        assert producer.init() is ErrorCode.INVALID_TRANSACTION_TIMEOUT


# Tools


def describe(cluster: LocalCluster, producer: RawProducer) -> Any:
    """The transaction as its coordinator describes it."""
    with RawClient(cluster.address(producer.coordinator())) as client:
        answer = client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[producer.transactional_id])
    (found,) = answer.transaction_states
    return found


def listed(
    cluster: LocalCluster, states: Sequence[str] = (), producer_ids: Sequence[int] = (), duration_ms: int = -1
) -> dict[str, tuple[int, str]]:
    """Transactional id → producer id and state, of all brokers."""
    found = {}
    for broker_id in cluster.broker_ids:
        with RawClient(cluster.address(broker_id)) as client:
            answer = client.ask(
                ApiKey.LIST_TRANSACTIONS,
                1,
                state_filters=list(states),
                producer_id_filters=list(producer_ids),
                duration_filter=duration_ms,
            )
        assert answer.error_code == NONE
        found.update({t.transactional_id: (t.producer_id, t.transaction_state) for t in answer.transaction_states})
    return found


def test_tools_see_a_transaction(cluster: LocalCluster, topic: str) -> None:
    producer = RawProducer(cluster, f"{topic}-tx")
    assert producer.init() is NONE
    began = int(time.time() * 1000)
    assert producer.add(topic, 2, 0) is NONE and producer.send(topic, 4) is NONE
    found = describe(cluster, producer)
    described = time.time() * 1000
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (NONE, "Ongoing", 60_000)
    assert Session(found.producer_id, found.producer_epoch) == producer.session
    assert [(t.topic, sorted(t.partitions)) for t in found.topics] == [(topic, [0, 2])]
    assert began <= found.transaction_start_time_ms <= described
    name, producer_id = producer.transactional_id, producer.session.producer_id
    assert listed(cluster)[name] == (producer_id, "Ongoing")
    assert set(listed(cluster, ["Ongoing"], [producer_id])) == {name}
    assert name not in listed(cluster, ["CompleteCommit"]) and name not in listed(cluster, [], [producer_id + 10_000])
    assert name not in listed(cluster, [], [], 60_000) and name in listed(cluster, ["Ongoing"], [], 0)
    (state,) = producers(cluster, topic)
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer_id, 0, 3)
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, 0)
    assert producer.end() is NONE
    wait_stable(cluster, topic, 5)
    wait_for(lambda: describe(cluster, producer).transaction_state == "CompleteCommit", "all markers are written")
    assert not describe(cluster, producer).topics
    (state,) = producers(cluster, topic)
    assert state.current_txn_start_offset == -1 and state.coordinator_epoch >= 0
    stranger = RawProducer(cluster, f"{topic}-nobody")
    assert describe(cluster, stranger).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def producers(cluster: LocalCluster, topic: str) -> list[Any]:
    """The producers of partition 0 in its leader's answer."""
    kind = messages.DescribeProducersRequest.TopicRequest
    with ask_leader(cluster, topic) as client:
        answer = client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[kind(name=topic, partition_indexes=[0])])
    (found,) = answer.topics[0].partitions
    assert found.error_code == NONE
    return list(found.active_producers)


# Deaths of coordinators


# Only kafkalite, because in Kafka the decision waits for the paused broker, which has a replica of the state topic.
@pytest.mark.kafkalite_only
@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_outlives_its_coordinator(cluster: LocalCluster, topic: str, commit: bool) -> None:
    producer = RawProducer(cluster, f"{topic}-tx")
    assert producer.init() is NONE
    coordinator = producer.coordinator()
    # Pause the leader of partition ``slow``, which is not the coordinator, so that its marker cannot be written.
    slow = next(p for p in range(3) if leader_of(cluster, topic, p) != coordinator)
    leader = leader_of(cluster, topic, slow)
    assert producer.add(topic, slow) is NONE and producer.send(topic, 2, slow) is NONE
    producer.at = coordinator
    cluster.pause_broker(leader)
    try:
        assert producer.end(commit) is NONE
        assert describe(cluster, producer).transaction_state == ("PrepareCommit" if commit else "PrepareAbort")
        cluster.kill_broker(coordinator)
    finally:
        cluster.resume_broker(leader)
        producer.at = 0
    try:
        wait_ended(cluster, topic, 3, slow)
        successor = producer.coordinator()
        assert successor != coordinator
        wait_for(lambda: describe(cluster, producer).transaction_state.startswith("Complete"), "it is complete")
        # The producer can continue.
        producer.transaction(topic, 1, commit=True, partitions=[slow])
        wait_ended(cluster, topic, 5, slow)
    finally:
        cluster.start_broker(coordinator)
        cluster.wait_ready()


def test_an_open_transaction_outlives_its_coordinator(cluster: LocalCluster, topic: str) -> None:
    producer = producer_of(cluster, f"{topic}-tx")
    producer.begin_transaction()
    for number in range(3):
        producer.produce(topic, f"before-{number}", partition=number)
    producer.flush(10)
    coordinator = RawProducer(cluster, f"{topic}-tx").coordinator()
    cluster.kill_broker(coordinator)
    try:
        for number in range(3):
            producer.produce(topic, f"after-{number}", partition=number)
        producer.commit_transaction(30)
        for number in range(3):
            wait_stable(cluster, topic, 3, number)
    finally:
        cluster.start_broker(coordinator)
        cluster.wait_ready()
    expected = [f"{when}-{number}" for when in ("after", "before") for number in range(3)]
    assert read_all(cluster, topic, "read_committed") == expected


# trap: kafkalite/coordinator/transaction/transaction_state_manager.py: A paused coordinator wakes with a request in its
# socket, and decides a transaction that another owns.
@pytest.mark.kafkalite_only
def test_a_paused_coordinator_that_wakes_up_cannot_decide(cluster: LocalCluster, topic: str) -> None:
    producer = RawProducer(cluster, f"{topic}-tx")
    assert producer.init() is NONE
    zombie = producer.coordinator()
    number = next(p for p in range(3) if leader_of(cluster, topic, p) != zombie)
    assert producer.add(topic, number) is NONE and producer.send(topic, 2, number) is NONE
    producer_id, epoch = producer.session
    request = messages.EndTxnRequest(
        version=2,
        transactional_id=producer.transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=False,
    )
    with RawClient(cluster.address(zombie), 30) as client:
        cluster.pause_broker(zombie)
        try:
            # The first request that the coordinator reads after the pause, before it learns that its session expired.
            client.post(ApiKey.END_TXN, 2, encode_request(ApiKey.END_TXN, 2, request))
            producer.at = find_coordinator(cluster, producer.transactional_id, TRANSACTION, but=zombie, timeout=60)
            assert producer.end() is NONE
        finally:
            cluster.resume_broker(zombie)
        answer = decode_response(ApiKey.END_TXN, 2, client.receive())
    assert answer.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    wait_ended(cluster, topic, 3, number)
    wait_for(lambda: describe(cluster, producer).transaction_state == "CompleteCommit", "it is complete")
    producer.at = 0
    wait_for(lambda: producer.coordinator() != zombie, "all agree on the successor")
    assert len(read_all(cluster, topic, "read_committed")) == 2
