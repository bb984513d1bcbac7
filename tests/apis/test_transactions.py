"""The APIs of transactions: every version there and back, and errors in each version's words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from kafkalite.apis.dispatch import Dispatcher
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.values import TxnOffsetCommitRequest
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch, TransactionListing
from kafkalite.log.producer_entry import BatchMetadata, ProducerEntry
from kafkalite.log.producer_state import read_marker
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.record.batch import iter_headers
from kafkalite.replication.record_traces import RecordTraces
from kafkalite.replication.results import ProduceResult
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, TxnProducer
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState

from .helpers import FakeBroker, struct

E = ErrorCode
T0, T1, T9, U0 = (TopicPartition(*tp) for tp in (("t", 0), ("t", 1), ("t", 9), ("u", 0)))
ME = ProducerIdAndEpoch(1000, 7)


def versions(key: ApiKey, least: int = 0) -> list[int]:
    return list(range(max(SUPPORTED[key].min, least), SUPPORTED[key].max + 1))


class FakeTransactions:
    """Remembers what it is asked; raises what ``error`` says."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.error: ErrorCode | None = None
        self.verified: dict[TopicPartition, ErrorCode] = {}
        self.metadata: dict[str, TransactionMetadata] = {}

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise ApiError(self.error)

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> ProducerIdAndEpoch:
        self._note("init", transactional_id, timeout_ms, expected)
        return ME

    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> None:
        self._note("add", transactional_id, producer, list(partitions))

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        self._note("verify", transactional_id, producer, list(partitions))
        return {tp: self.verified.get(tp, E.NONE) for tp in partitions}

    async def add_offsets(self, transactional_id: str, producer: ProducerIdAndEpoch, group: str) -> None:
        self._note("offsets", transactional_id, producer, group)

    async def end(self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool) -> None:
        self._note("end", transactional_id, producer, commit)

    async def describe(self, transactional_id: str) -> TransactionMetadata:
        self._note("describe", transactional_id)
        if transactional_id not in self.metadata:
            raise ApiError(E.TRANSACTIONAL_ID_NOT_FOUND)
        return self.metadata[transactional_id]

    def list(
        self, states: Sequence[str], producer_ids: Sequence[int], duration_ms: int
    ) -> tuple[list[TransactionListing], list[str]]:
        self._note("list", list(states), list(producer_ids), duration_ms)
        return [TransactionListing("tx", 1000, TransactionState.ONGOING)], ["Nonsense"]


class FakeGroups:
    """Stages offsets."""

    def __init__(self) -> None:
        self.requests: list[TxnOffsetCommitRequest] = []
        self.error = E.NONE
        self.offsets = self

    async def txn_commit(self, request: TxnOffsetCommitRequest) -> dict[TopicPartition, ErrorCode]:
        self.requests.append(request)
        return dict.fromkeys(request.offsets, self.error)


def make() -> tuple[FakeBroker, FakeTransactions, FakeGroups]:
    broker, transactions, groups = FakeBroker(), FakeTransactions(), FakeGroups()
    services = replace(broker.services, transactions=cast("Any", transactions), groups=cast("Any", groups))
    broker.services = services
    broker.dispatcher = Dispatcher(services)
    return broker, transactions, groups


# InitProducerId


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
def test_init_producer_id(version: int) -> None:
    broker, transactions, _ = make()
    answer = broker.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id="tx", transaction_timeout_ms=5000)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (E.NONE, *ME)
    assert transactions.calls == [("init", "tx", 5000, None)]
    transactions.error = E.PRODUCER_FENCED
    answer = broker.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id="tx", transaction_timeout_ms=5000)
    told = E.PRODUCER_FENCED if version >= 4 else E.INVALID_PRODUCER_EPOCH
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
        told,
        -1,
        -1 if version else answer.producer_epoch,
    )


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID, 3))
def test_init_producer_id_of_one_that_goes_on(version: int) -> None:
    broker, transactions, _ = make()
    fields = {"transactional_id": "tx", "transaction_timeout_ms": 5000}
    broker.call(ApiKey.INIT_PRODUCER_ID, version, **fields, producer_id=5, producer_epoch=6)
    assert transactions.calls == [("init", "tx", 5000, ProducerIdAndEpoch(5, 6))]
    for half in ({"producer_id": 5, "producer_epoch": -1}, {"producer_id": -1, "producer_epoch": 6}):
        answer = broker.call(ApiKey.INIT_PRODUCER_ID, version, **fields, **half)
        assert answer.error_code == E.INVALID_REQUEST
    assert len(transactions.calls) == 1


# AddPartitionsToTxn


def add(broker: FakeBroker, version: int, *partitions: TopicPartition) -> dict[TopicPartition, int]:
    kind = "AddPartitionsToTxnTopic"
    topics = [
        struct(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            kind,
            version,
            name=name,
            partitions=[tp.partition for tp in partitions if tp.topic == name],
        )
        for name in sorted({tp.topic for tp in partitions})
    ]
    answer = broker.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=ME[0],
        v3_and_below_producer_epoch=ME[1],
        v3_and_below_topics=topics,
    )
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(4))
def test_add_partitions(version: int) -> None:
    broker, transactions, _ = make()
    assert add(broker, version, T0, T1) == {T0: E.NONE, T1: E.NONE}
    assert transactions.calls == [("add", "tx", ME, [T0, T1])]
    transactions.error = E.PRODUCER_FENCED
    told = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert add(broker, version, T0, T1) == {T0: told, T1: told}


@pytest.mark.parametrize("version", range(4))
def test_one_unknown_partition_keeps_all_out(version: int) -> None:
    broker, transactions, _ = make()
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert add(broker, version, T0, T9, U0) == {T0: E.OPERATION_NOT_ATTEMPTED, T9: unknown, U0: unknown}
    assert not transactions.calls


@pytest.mark.parametrize("version", [4, 5])
def test_several_transactions_at_once(version: int) -> None:
    broker, transactions, _ = make()
    transactions.verified = {T1: E.TRANSACTION_ABORTABLE}

    def transaction(name: str, verify_only: bool) -> Any:
        kind = "AddPartitionsToTxnTransaction"
        topic = struct(
            ApiKey.ADD_PARTITIONS_TO_TXN, f"{kind}.AddPartitionsToTxnTopic", version, name="t", partitions=[0, 1]
        )
        return struct(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            kind,
            version,
            transactional_id=name,
            producer_id=ME[0],
            producer_epoch=ME[1],
            verify_only=verify_only,
            topics=[topic],
        )

    answer = broker.call(
        ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[transaction("a", False), transaction("b", True)]
    )
    assert transactions.calls == [("add", "a", ME, [T0, T1]), ("verify", "b", ME, [T0, T1])]
    assert answer.error_code == E.NONE
    found = {
        (result.transactional_id, each.partition_index): each.partition_error_code
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for each in topic.results_by_partition
    }
    not_in_it = E.TRANSACTION_ABORTABLE if version >= 5 else E.INVALID_TXN_STATE
    assert found == {("a", 0): 0, ("a", 1): 0, ("b", 0): 0, ("b", 1): not_in_it}


# AddOffsetsToTxn, EndTxn


@pytest.mark.parametrize(
    ("key", "fields", "call"),
    [
        (ApiKey.ADD_OFFSETS_TO_TXN, {"group_id": "g"}, ("offsets", "tx", ME, "g")),
        (ApiKey.END_TXN, {"committed": True}, ("end", "tx", ME, True)),
        (ApiKey.END_TXN, {"committed": False}, ("end", "tx", ME, False)),
    ],
)
@pytest.mark.parametrize("version", versions(ApiKey.END_TXN))
def test_one_word_about_a_transaction(version: int, key: ApiKey, fields: dict[str, Any], call: Any) -> None:
    broker, transactions, _ = make()
    fields = {"transactional_id": "tx", "producer_id": ME[0], "producer_epoch": ME[1], **fields}
    assert broker.call(key, version, **fields).error_code == E.NONE
    assert transactions.calls == [call]
    for error in (E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS):
        transactions.error = error
        old = error is E.PRODUCER_FENCED and version < 2
        assert broker.call(key, version, **fields).error_code == (E.INVALID_PRODUCER_EPOCH if old else error)


# TxnOffsetCommit


def commit(broker: FakeBroker, version: int) -> dict[TopicPartition, int]:
    kind = "TxnOffsetCommitRequestTopic"
    make_partition = f"{kind}.TxnOffsetCommitRequestPartition"

    def partition(index: int) -> Any:
        fields = {"committed_offset": 40 + index, "committed_leader_epoch": 3, "committed_metadata": None}
        return struct(ApiKey.TXN_OFFSET_COMMIT, make_partition, version, partition_index=index, **fields)

    topics = [
        struct(ApiKey.TXN_OFFSET_COMMIT, kind, version, name="t", partitions=[partition(0), partition(9)]),
        struct(ApiKey.TXN_OFFSET_COMMIT, kind, version, name="u", partitions=[partition(0)]),
    ]
    answer = broker.call(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        transactional_id="tx",
        group_id="g",
        producer_id=ME[0],
        producer_epoch=ME[1],
        generation_id=4,
        member_id="m",
        group_instance_id="i",
        topics=topics,
    )
    return {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", versions(ApiKey.TXN_OFFSET_COMMIT))
def test_offsets_of_a_transaction(version: int) -> None:
    broker, _, groups = make()
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(broker, version) == {T0: E.NONE, T9: unknown, U0: unknown}
    member = {"member_id": "m", "generation": 4, "instance_id": "i"} if version >= 3 else {}
    offset = OffsetAndMetadata(40, 3 if version >= 2 else -1, "")
    assert groups.requests == [TxnOffsetCommitRequest("g", TxnProducer("tx", *ME), {T0: offset}, **member)]  # type: ignore[arg-type]
    groups.error = E.COORDINATOR_LOAD_IN_PROGRESS
    told = E.COORDINATOR_NOT_AVAILABLE if version < 2 else E.COORDINATOR_LOAD_IN_PROGRESS
    assert commit(broker, version)[T0] == told


# WriteTxnMarkers


class Leaders:
    """Takes markers; what it says stands in ``errors``."""

    def __init__(self) -> None:
        self.traces = RecordTraces(1, {}, ManualClock())
        self.appended: list[tuple[TopicPartition, bytes]] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Sequence[tuple[TopicPartition, memoryview]],
        on_done: Callable[[list[ProduceResult]], object],
        *,
        from_client: bool = True,
    ) -> None:
        assert (required_acks, from_client, timeout_ms) == (-1, False, 30_000)
        assert len({id(records.obj) for _, records in entries}) == len(entries)
        self.appended += [(tp, bytes(records)) for tp, records in entries]
        on_done([ProduceResult(tp, self.errors.get(tp, E.NONE)) for tp, _ in entries])


@pytest.mark.parametrize("version", versions(ApiKey.WRITE_TXN_MARKERS))
def test_markers(version: int) -> None:
    broker, _, _ = make()
    leaders = Leaders()
    leaders.errors = {T1: E.NOT_LEADER_OR_FOLLOWER}
    broker.dispatcher = Dispatcher(replace(broker.services, replicas=cast("Any", leaders)))

    def marker(producer_id: int, commit: bool, *indexes: int) -> Any:
        kind = "WritableTxnMarker"
        topic = struct(
            ApiKey.WRITE_TXN_MARKERS,
            f"{kind}.WritableTxnMarkerTopic",
            version,
            name="t",
            partition_indexes=list(indexes),
        )
        return struct(
            ApiKey.WRITE_TXN_MARKERS,
            kind,
            version,
            producer_id=producer_id,
            producer_epoch=3,
            transaction_result=commit,
            coordinator_epoch=11,
            topics=[topic],
        )

    answer = broker.call(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker(1, True, 0, 1), marker(2, False, 0)])
    found = [
        (result.producer_id, topic.name, each.partition_index, each.error_code)
        for result in answer.markers
        for topic in result.topics
        for each in topic.partitions
    ]
    assert found == [(1, "t", 0, 0), (1, "t", 1, E.NOT_LEADER_OR_FOLLOWER), (2, "t", 0, 0)]
    written = []
    for tp, data in leaders.appended:
        ((position, header),) = iter_headers(data)
        assert header.is_control and header.is_transactional and header.producer_epoch == 3
        assert header.base_sequence == -1 and header.max_timestamp == broker.clock.time_ms()
        written.append((tp, header.producer_id, read_marker(data, position, header)))
    assert written == [(T0, 1, (True, 11)), (T1, 1, (True, 11)), (T0, 2, (False, 11))]


def test_no_markers() -> None:
    broker, _, _ = make()
    assert broker.call(ApiKey.WRITE_TXN_MARKERS, 1, markers=[]).markers == []


# Tools


def test_describe_transactions() -> None:
    broker, transactions, _ = make()
    transactions.metadata["tx"] = TransactionMetadata(
        "tx", 1000, 7, timeout_ms=5000, state=TransactionState.ONGOING, partitions=frozenset({T1, T0, U0}), start_ms=99
    )
    answer = broker.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx", "other", "tx"])
    first, second = answer.transaction_states
    assert (first.transactional_id, first.error_code, first.transaction_state) == ("tx", E.NONE, "Ongoing")
    assert (first.producer_id, first.producer_epoch, first.transaction_timeout_ms) == (1000, 7, 5000)
    assert first.transaction_start_time_ms == 99
    assert [(topic.topic, topic.partitions) for topic in first.topics] == [("t", [0, 1]), ("u", [0])]
    assert (second.transactional_id, second.error_code) == ("other", E.TRANSACTIONAL_ID_NOT_FOUND)


@pytest.mark.parametrize("version", versions(ApiKey.LIST_TRANSACTIONS))
def test_list_transactions(version: int) -> None:
    broker, transactions, _ = make()
    fields = {"state_filters": ["Ongoing", "Nonsense"], "producer_id_filters": [1000], "duration_filter": 77}
    answer = broker.call(ApiKey.LIST_TRANSACTIONS, version, **fields)
    assert transactions.calls == [("list", ["Ongoing", "Nonsense"], [1000], 77 if version >= 1 else -1)]
    (found,) = answer.transaction_states
    assert (found.transactional_id, found.producer_id, found.transaction_state) == ("tx", 1000, "Ongoing")
    assert answer.unknown_state_filters == ["Nonsense"]
    transactions.error = E.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.call(ApiKey.LIST_TRANSACTIONS, version, **fields).error_code == E.COORDINATOR_LOAD_IN_PROGRESS


class FakeLog:
    """What a log knows of its producers."""

    def __init__(self, *entries: ProducerEntry) -> None:
        self.producer_state = self
        self.entries = {entry.producer_id: entry for entry in entries}


class FakePartition:
    """A replica that is here, or was."""

    def __init__(self, log: FakeLog, error: ErrorCode = E.NONE) -> None:
        self.log = log
        self.error = error

    def check_local(self) -> FakeLog:
        if self.error:
            raise ApiError(self.error)
        return self.log


def test_describe_producers() -> None:
    broker, _, _ = make()
    entry = ProducerEntry(1000, 7)
    entry.batches = [BatchMetadata(4, 50, 4, 123)]
    entry.last_timestamp, entry.coordinator_epoch, entry.current_txn_first_offset = 123, 2, 46
    cast("Any", broker.replicas).partitions = {T0: FakePartition(FakeLog(entry))}

    def asked(topic: str, index: int) -> Any:
        kind = struct(ApiKey.DESCRIBE_PRODUCERS, "TopicRequest", 0, name=topic, partition_indexes=[index])
        (found,) = broker.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[kind]).topics[0].partitions
        return found

    found = asked("t", 0)
    assert found.error_code == E.NONE
    (state,) = found.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence, state.last_timestamp) == (1000, 7, 4, 123)
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (2, 46)
    assert asked("t", 1).error_code == E.NOT_LEADER_OR_FOLLOWER
    assert asked("u", 0).error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    cast("Any", broker.replicas).partitions[T1] = FakePartition(FakeLog(), E.KAFKA_STORAGE_ERROR)
    assert asked("t", 1).error_code == E.KAFKA_STORAGE_ERROR
