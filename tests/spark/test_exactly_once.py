"""The sink's shell: what a commit asks of the cluster, and what attempts do that come too late."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.spark import exactly_once
from kafkalite.spark.attempts import Attempt, AttemptDecision, DecisionError, committer_of, group_of, to_chunks
from kafkalite.spark.client.cluster import ClusterConnections, TopicState
from kafkalite.spark.client.errors import KafkaClientError
from kafkalite.spark.client.transactions import CommittedOffset, Described, InitializedProducer
from kafkalite.spark.errors import KafkaWriteError
from kafkalite.spark.exactly_once import AttemptMessage, OpenedAttempt, abort, commit
from kafkalite.spark.sink_options import SinkOptions
from tests.spark.client.stand_ins import CONFIG

QUERY, BATCH = "q", 4
A, B = (Attempt(BATCH, "aa", task, task, 100 + task, 0) for task in range(2))
OLD = Attempt(BATCH, "zz", 0, 0, 90, 0)
OPTIONS = SinkOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t"})
T0 = TopicPartition("t", 0)


class FakeTransactionClient:
    """Stands for ``Transactions``: what a cluster holds, and ``calls`` in order."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.states: dict[str, Described] = {}
        self.refuse_end: ErrorCode = ErrorCode.NONE
        self.decide: AttemptDecision | None = None
        """Another driver's decision, which is recorded when a transaction is opened."""

    def open(self, *attempts: Attempt) -> None:
        for each in attempts:
            self.states[each.name(QUERY)] = Described("Ongoing", each.producer_id, each.producer_epoch)

    def record(self, decision: AttemptDecision) -> None:
        self.offsets = {TopicPartition("t", at): chunk for at, chunk in enumerate(to_chunks(decision))}

    def state(self, attempt: Attempt) -> str:
        return self.states[attempt.name(QUERY)].state

    # Methods of TransactionClient

    def init_producer(self, transactional_id: str, timeout_ms: int) -> InitializedProducer:
        self.calls.append(("init", transactional_id, timeout_ms))
        return InitializedProducer(transactional_id, 1000, 3)

    def add_partitions(self, producer: InitializedProducer, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("add", producer.transactional_id, sorted(partitions)))
        self.states[str(producer.transactional_id)] = Described("Ongoing", 1000, 3)
        if self.decide is not None:
            self.record(self.decide)

    def end(self, producers: Iterable[InitializedProducer], *, commit: bool) -> dict[InitializedProducer, ErrorCode]:
        found = list(producers)
        self.calls.append(("end", commit, [each.transactional_id for each in found]))
        for each in found:
            if not self.refuse_end:
                state = "CompleteCommit" if commit else "CompleteAbort"
                self.states[str(each.transactional_id)] = Described(state, each.producer_id, each.producer_epoch)
        return dict.fromkeys(found, self.refuse_end)

    def fence(self, names: Collection[str]) -> None:
        self.calls.append(("fence", sorted(names)))
        for name in names:
            self.states[name] = Described("Empty", 0, 9)

    def describe(self, names: Collection[str]) -> dict[str, Described | None]:
        self.calls.append(("describe", sorted(names)))
        return {name: self.states.get(name) for name in names}

    def open_transactions(self, prefix: str) -> list[str]:
        return [name for name, state in self.states.items() if state.state == "Ongoing" and name.startswith(prefix)]

    def commit_offsets(
        self, producer: InitializedProducer, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        self.calls.append(("record", producer.transactional_id, group))
        self.offsets.update(offsets)

    def fetch_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        assert group == group_of(QUERY)
        self.calls.append("fetch")
        return self.offsets


class OneTopic(ClusterConnections):
    """Knows one topic with one partition, once the broker that is asked has heard of it."""

    unheard = 0
    """Number of further Metadata answers with UNKNOWN_TOPIC_OR_PARTITION."""

    def refresh(self, names: Any, *, create: bool = False) -> dict[str, TopicState]:
        assert not create
        if OneTopic.unheard:
            OneTopic.unheard -= 1
            return {name: TopicState(name, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names}
        return {name: TopicState(name, {0: 1}) for name in names}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeTransactionClient:
    made = FakeTransactionClient()
    monkeypatch.setattr(OneTopic, "unheard", 0)
    monkeypatch.setattr(exactly_once, "TransactionClient", lambda _cluster: made)
    monkeypatch.setattr(exactly_once, "ClusterConnections", OneTopic)
    return made


def said(*attempts: Attempt | None, skipped: bool = False) -> list[Any]:
    return [AttemptMessage(QUERY, BATCH, each, ["t"] if each else [], 5, skipped=skipped) for each in attempts]


def test_a_commit(cluster: FakeTransactionClient) -> None:
    loser, next_one = A._replace(nonce="bb"), A._replace(batch_id=BATCH + 1)
    cluster.open(A, B, loser, next_one)
    commit(OPTIONS, said(A, None, B))
    names = sorted([A.name(QUERY), B.name(QUERY)])
    assert cluster.calls == [
        ("init", committer_of(QUERY), exactly_once.COMMIT_TIMEOUT_MS),
        "fetch",
        ("describe", names),
        ("record", committer_of(QUERY), group_of(QUERY)),
        ("end", True, names),
        ("fence", [loser.name(QUERY)]),
    ]
    assert cluster.offsets[T0].offset == BATCH
    assert (cluster.state(A), cluster.state(next_one)) == ("CompleteCommit", "Ongoing")


def test_a_commit_that_finds_the_batch_decided(cluster: FakeTransactionClient) -> None:
    cluster.open(OLD, A)
    cluster.record(AttemptDecision(BATCH, (OLD,)))
    commit(OPTIONS, said(A))
    assert cluster.state(OLD) == "CompleteCommit"
    assert cluster.state(A) == "Empty"
    assert not [call for call in cluster.calls if call[0] == "record"]


def test_winners_that_cannot_be_committed_are_looked_at_again(cluster: FakeTransactionClient) -> None:
    cluster.open(A)
    cluster.refuse_end = ErrorCode.INVALID_TXN_STATE
    ends = cluster.end

    def aborted(producers: Iterable[InitializedProducer], *, commit: bool) -> dict[InitializedProducer, ErrorCode]:
        cluster.states[A.name(QUERY)] = Described("CompleteAbort", A.producer_id, A.producer_epoch + 1)
        return ends(producers, commit=commit)

    cluster.end = aborted  # type: ignore[method-assign]
    with pytest.raises(DecisionError, match="before the batch was decided"):
        commit(OPTIONS, said(A))


def test_a_batch_without_rows(cluster: FakeTransactionClient) -> None:
    cluster.open(A)
    commit(OPTIONS, said(None, None))
    assert cluster.state(A) == "Empty"
    assert not cluster.offsets
    commit(OPTIONS, [])


def test_more_winners_than_can_be_remembered(cluster: FakeTransactionClient) -> None:
    many = [Attempt(BATCH, f"{task:012x}", task, 7 * task * task, task * 13 % 7919, 0) for task in range(1500)]
    cluster.open(*many)
    with pytest.raises(KafkaClientError, match="1500 tasks are too many"):
        commit(OPTIONS, said(*many))
    assert {cluster.state(each) for each in many} == {"Ongoing"}


def test_a_decision_waits_for_a_broker_that_has_not_heard_of_the_topic(
    cluster: FakeTransactionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OneTopic, "unheard", 2)
    cluster.open(A, B)
    commit(OPTIONS, said(A, B))
    assert {cluster.state(each) for each in (A, B)} == {"CompleteCommit"}


def test_an_abort(cluster: FakeTransactionClient) -> None:
    earlier = A._replace(batch_id=BATCH - 1)
    cluster.open(A, B, earlier)
    cluster.record(AttemptDecision(BATCH - 1, (earlier,)))
    abort(OPTIONS, [None, *said(A)], None, BATCH)
    assert {cluster.state(each) for each in (A, B)} == {"Empty"}
    assert cluster.calls[0] == ("init", committer_of(QUERY), exactly_once.COMMIT_TIMEOUT_MS)


# trap: kafkalite/spark/exactly_once.py: Spark aborts a batch that was already decided.
def test_an_abort_leaves_what_was_decided(cluster: FakeTransactionClient) -> None:
    """Spark aborts a batch whose commit failed, too: when that had recorded its decision, it stands."""
    cluster.open(A, B)
    cluster.record(AttemptDecision(BATCH, (A, B)))
    abort(OPTIONS, said(A, B), None, BATCH)
    assert {cluster.state(each) for each in (A, B)} == {"Ongoing"}


def test_an_abort_that_knows_no_query(cluster: FakeTransactionClient) -> None:
    cluster.open(A)
    abort(OPTIONS, [None, None], None, BATCH)
    assert not cluster.calls
    assert cluster.state(A) == "Ongoing"


def opened(cluster: FakeTransactionClient) -> OpenedAttempt:  # noqa: ARG001  (it must stand before)
    return OpenedAttempt(OPTIONS, ClusterConnections(CONFIG), QUERY, A._replace(producer_id=-1, producer_epoch=-1))


def test_an_attempt_opens_its_transaction_with_its_first_row(cluster: FakeTransactionClient) -> None:
    attempt = opened(cluster)
    assert not attempt.is_settled()
    producer = attempt.begin([T0])
    assert attempt.attempt == A._replace(producer_id=1000, producer_epoch=3)
    assert producer.transactional_id == A.name(QUERY)
    attempt.begin([TopicPartition("t", 1)])
    assert [call[0] for call in cluster.calls if call != "fetch"] == ["init", "add", "add"]


def test_an_attempt_of_a_decided_batch_has_nothing_to_do(cluster: FakeTransactionClient) -> None:
    cluster.open(OLD)
    cluster.record(AttemptDecision(BATCH, (OLD,)))
    assert opened(cluster).is_settled()
    cluster.states[OLD.name(QUERY)] = Described("CompleteAbort", OLD.producer_id, 1)
    assert not opened(cluster).is_settled(), "what was decided came to nothing"
    cluster.record(AttemptDecision(BATCH + 1, (OLD._replace(batch_id=BATCH + 1),)))
    assert opened(cluster).is_settled()


def test_an_attempt_that_comes_too_late_ends_itself(cluster: FakeTransactionClient) -> None:
    cluster.states[OLD.name(QUERY)] = Described("CompleteCommit", OLD.producer_id, OLD.producer_epoch)
    cluster.decide = AttemptDecision(BATCH, (OLD,))
    attempt = opened(cluster)
    assert not attempt.is_settled()
    with pytest.raises(KafkaWriteError, match="batch 4 was decided without this attempt"):
        attempt.begin([T0])
    attempt.give_up()
    assert cluster.calls[-1] == ("end", False, [A.name(QUERY)])


def test_a_commit_that_was_fenced_records_nothing(cluster: FakeTransactionClient) -> None:
    """Another one has taken over since it looked."""
    cluster.open(A)

    def fenced(*_: Any) -> None:
        raise KafkaClientError("PRODUCER_FENCED")

    cluster.commit_offsets = fenced  # type: ignore[assignment]
    with pytest.raises(KafkaClientError):
        commit(OPTIONS, said(A))
    assert cluster.state(A) == "Ongoing"
