"""Requests about transactions: who is asked, what is asked again, and what is an answer. Brokers are stand-ins."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.spark.client.errors import KafkaClientError
from kafkalite.spark.client.transactions import (
    NO_TIMEOUT,
    CommittedOffset,
    Described,
    InitializedProducer,
    TransactionClient,
)
from tests.spark.client.stand_ins import BUSY, FINE, LOST, Answer, StandInCluster, error

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Script:
    """Answers in order; ``asked`` is what was asked of whom."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, ApiKey, Any]] = []

    def __call__(self, broker: int, key: ApiKey, request: Any) -> Answer:
        self.asked.append((broker, key, request))
        answer = self.answers.pop(0)
        found: Answer = answer(request) if callable(answer) else answer
        return found

    def keys(self) -> list[tuple[int, ApiKey]]:
        return [(broker, key) for broker, key, _ in self.asked]


def made(producer_id: int, epoch: int) -> Answer:
    return {"throttle_time_ms": 0, "error_code": 0, "producer_id": producer_id, "producer_epoch": epoch}


def refused(code: ErrorCode) -> Answer:
    return {"throttle_time_ms": 0, "error_code": int(code), "producer_id": -1, "producer_epoch": -1}


def cluster_of(script: Script, **places: int) -> StandInCluster:
    cluster = StandInCluster(script)
    cluster.places = {name.replace("_", "-"): number for name, number in places.items()}
    return cluster


def test_a_producer_without_a_transactional_id() -> None:
    script = Script(refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), made(5, 0))
    assert TransactionClient(cluster_of(script)).init_producer(None, 0) == InitializedProducer(None, 5, 0)
    assert script.asked[0][2].transactional_id is None


def test_the_longest_timeout_that_the_broker_allows() -> None:
    configs = messages.DescribeConfigsResponse.DescribeConfigsResult
    config = configs.DescribeConfigsResourceResult(
        version=3,
        name="transaction.max.timeout.ms",
        value="300000",
        read_only=True,
        config_source=5,
        is_sensitive=False,
        synonyms=[],
        config_type=1,
        documentation=None,
    )
    result = configs(version=3, error_code=0, error_message=None, resource_type=4, resource_name="1", configs=[config])
    script = Script(
        refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        {"throttle_time_ms": 0, "results": [result]},
        made(7, 0),
    )
    assert TransactionClient(cluster_of(script, x=2)).init_producer("x", 0) == InitializedProducer("x", 7, 0)
    assert [each[2].transaction_timeout_ms for each in script.asked if each[1] is ApiKey.INIT_PRODUCER_ID] == [
        NO_TIMEOUT,
        300_000,
    ]
    assert script.asked[0][0] == 2


def test_a_timeout_that_is_asked_for_and_refused() -> None:
    script = Script(refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    with pytest.raises(KafkaClientError, match=r"refuses transaction\.timeout\.ms=99"):
        TransactionClient(cluster_of(script)).init_producer("x", 99)


# trap: kafkalite/spark/client/transactions.py: EndTxn is answered before the markers are written, so a reader may still
# miss the records.
def test_ending_waits_for_the_markers() -> None:
    """The first answer says that the end is decided; asked again, the coordinator is busy until readers see it."""
    script = Script(FINE, BUSY, BUSY, FINE)
    producer = InitializedProducer("x", 1, 0)
    assert TransactionClient(cluster_of(script)).end([producer], commit=True) == {producer: ErrorCode.NONE}
    assert [each[2].committed for each in script.asked] == [True] * 4
    assert not script.answers


def test_ends_of_many_and_refusals() -> None:
    producers = [InitializedProducer(name, at, 0) for at, name in enumerate(("x", "y", "z"))]
    script = Script(FINE, error(ErrorCode.INVALID_TXN_STATE), FINE, FINE, FINE)
    found = TransactionClient(cluster_of(script, x=1, y=2, z=2)).end(producers, commit=False)
    assert found == {
        producers[0]: ErrorCode.NONE,
        producers[1]: ErrorCode.INVALID_TXN_STATE,
        producers[2]: ErrorCode.NONE,
    }
    assert [(each[0], each[2].transactional_id) for each in script.asked] == [
        (1, "x"),
        (2, "y"),
        (2, "z"),
        (1, "x"),
        (2, "z"),
    ]


def test_the_client_looks_up_a_coordinator_that_moved_or_died() -> None:
    script = Script(error(ErrorCode.NOT_COORDINATOR), LOST, FINE, FINE)
    cluster = cluster_of(script)
    producer = InitializedProducer("x", 1, 0)
    assert TransactionClient(cluster).end([producer], commit=True)[producer] == ErrorCode.NONE
    assert cluster.looked_up == ["x", "x", "x"]


def test_a_connection_with_an_unread_answer_is_closed() -> None:
    """The client would otherwise take that answer for the answer to its next request."""
    script = Script(FINE, LOST, *[FINE] * 7)
    cluster = cluster_of(script, x=1, y=2, z=2)
    first = cluster.stand_ins[2]
    producers = [InitializedProducer(name, at, 0) for at, name in enumerate(("x", "y", "z"))]
    assert set(TransactionClient(cluster).end(producers, commit=True).values()) == {ErrorCode.NONE}
    assert first.closed
    assert not first.pending


def test_describing() -> None:
    state = messages.DescribeTransactionsResponse.TransactionState

    def answer(request: Any) -> Answer:
        known = {"x": ("Ongoing", 0), "y": ("", int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))}
        return {
            "throttle_time_ms": 0,
            "transaction_states": [
                state(
                    error_code=known[name][1],
                    transactional_id=name,
                    transaction_state=known[name][0],
                    transaction_timeout_ms=0,
                    transaction_start_time_ms=0,
                    producer_id=4,
                    producer_epoch=1,
                    topics=[],
                )
                for name in request.transactional_ids
            ],
        }

    script = Script(answer, answer)
    found = TransactionClient(cluster_of(script, x=1, y=2)).describe(["x", "y"])
    assert found == {"x": Described("Ongoing", 4, 1), "y": None}


def test_open_transactions_of_all_brokers() -> None:
    state = messages.ListTransactionsResponse.TransactionState

    def answer(*names: str, code: int = 0) -> Answer:
        listed = [state(transactional_id=name, producer_id=1, transaction_state="Ongoing") for name in names]
        return {"throttle_time_ms": 0, "error_code": code, "unknown_state_filters": [], "transaction_states": listed}

    loading = answer(code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    script = Script(answer("a.1", "b.1"), loading, answer("a.1", "b.1"), answer("a.2"))
    assert TransactionClient(cluster_of(script)).open_transactions("a.") == ["a.1", "a.2"]
    assert script.asked[0][2].state_filters == ["Ongoing"]


def test_partitions_that_are_not_added() -> None:
    topic = messages.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    kind = topic.AddPartitionsToTxnPartitionResult

    def answer(*codes: ErrorCode) -> Answer:
        results = [kind(partition_index=at, partition_error_code=int(code)) for at, code in enumerate(codes)]
        return {
            "throttle_time_ms": 0,
            "results_by_topic_v3_and_below": [topic(name="t", results_by_partition=results)],
        }

    producer = InitializedProducer("x", 3, 1)
    script = Script(
        answer(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS), answer(*[ErrorCode.NONE] * 2)
    )
    TransactionClient(cluster_of(script)).add_partitions(producer, [T1, T0])
    script = Script(answer(ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaClientError, match="TOPIC_AUTHORIZATION_FAILED: x, t-1"):
        TransactionClient(cluster_of(script)).add_partitions(producer, [T0, T1])


def test_offsets_are_committed_in_a_transaction() -> None:
    topic = messages.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    kind = topic.TxnOffsetCommitResponsePartition

    def answer(code: ErrorCode) -> Answer:
        return {
            "throttle_time_ms": 0,
            "topics": [topic(name="t", partitions=[kind(partition_index=1, error_code=int(code))])],
        }

    script = Script(FINE, answer(ErrorCode.NOT_COORDINATOR), answer(ErrorCode.NONE), FINE, FINE)
    cluster = cluster_of(script, x=1, g=2)
    TransactionClient(cluster).commit_offsets(InitializedProducer("x", 3, 1), "g", {T1: CommittedOffset(5, "text")})
    assert script.keys() == [
        (1, ApiKey.ADD_OFFSETS_TO_TXN),
        (2, ApiKey.TXN_OFFSET_COMMIT),
        (2, ApiKey.TXN_OFFSET_COMMIT),
        (1, ApiKey.END_TXN),
        (1, ApiKey.END_TXN),
    ]
    (sent,) = script.asked[1][2].topics[0].partitions
    assert (sent.partition_index, sent.committed_offset, sent.committed_metadata) == (1, 5, "text")
    script = Script(FINE, answer(ErrorCode.NONE), error(ErrorCode.PRODUCER_FENCED))
    with pytest.raises(KafkaClientError, match="PRODUCER_FENCED"):
        TransactionClient(cluster_of(script)).commit_offsets(
            InitializedProducer("x", 3, 1), "g", {T1: CommittedOffset(5, "")}
        )


def test_offsets_that_may_still_change_are_waited_for() -> None:
    topic = messages.OffsetFetchResponse.OffsetFetchResponseTopic
    kind = topic.OffsetFetchResponsePartition

    def answer(offset: int, code: ErrorCode = ErrorCode.NONE) -> Answer:
        found = kind(
            partition_index=1, committed_offset=offset, committed_leader_epoch=-1, metadata="m", error_code=int(code)
        )
        return {"throttle_time_ms": 0, "topics": [topic(name="t", partitions=[found])], "error_code": 0}

    script = Script(answer(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT), answer(6))
    assert TransactionClient(cluster_of(script)).fetch_offsets("g") == {T1: CommittedOffset(6, "m")}
    assert script.asked[0][2].require_stable
    assert script.asked[0][2].topics is None
    assert TransactionClient(cluster_of(Script(answer(-1)))).fetch_offsets("g") == {}
