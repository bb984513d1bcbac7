"""The requests of ``kafkalite transactions``, and the evaluation of the answers. Reactor shell (the library's loop).

Answers to: the transactional part of ``org.apache.kafka.clients.admin.KafkaAdminClient`` with its internal handlers.
Like those, it repeats requests for a while if a coordinator or a leader is changing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kafkalite.cli.clients import TopicDescription, send
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient
    from kafka.protocol.api_message import ApiMessage

T = TypeVar("T")
RETRY_FOR = 30.0
"""Seconds."""
RETRY_PAUSE = 0.1
RETRIABLE = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
    )
)
FENCING_TIMEOUT_MS = 1
"""The timeout that the transactional id has until its next producer sets another: every broker allows this one."""
TRANSACTION = 1
"""FindCoordinator's key type of transactional ids."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One line of a list. ``coordinator``: the broker that listed it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Description:
    """One transactional id. Times in milliseconds; ``start_time_ms`` is negative without a transaction."""

    coordinator: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """One producer in the state of a replica. ``start_offset``: -1 without a transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int


OpenTransaction = tuple[TopicPartition, ActiveProducer]


def open_since(
    producers: Mapping[TopicPartition, Sequence[ActiveProducer]], longest_ms: int, now_ms: int
) -> list[OpenTransaction]:
    """The open transactions of ``producers`` without a write for more than ``longest_ms``."""
    return [
        (partition, producer)
        for partition, known in producers.items()
        for producer in known
        if producer.start_offset >= 0 and now_ms - producer.last_timestamp > longest_ms
    ]


def hanging(
    candidates: Iterable[OpenTransaction],
    transactional_ids: Mapping[int, str],
    descriptions: Mapping[str, Description | None],
) -> list[OpenTransaction]:
    """The candidates that no coordinator is going to end: none knows their producer, or not with this partition."""
    found = []
    for partition, producer in candidates:
        known = descriptions.get(transactional_ids.get(producer.producer_id, ""))
        if known is None or partition not in known.partitions:
            found.append((partition, producer))
    return found


class TransactionAdmin:
    """The requests, sent by kafka-python's admin client. All raise :class:`ApiError`."""

    def __init__(self, admin: KafkaAdminClient, sleep: Callable[[float], None] = time.sleep) -> None:
        self._admin = admin
        self._sleep = sleep

    def listings(self, duration_filter_ms: int = -1, producer_ids: Collection[int] = ()) -> list[Listing]:
        """All transactional ids of all coordinators; or of some producers, or with transactions at least that long."""
        from kafka.protocol.admin.transactions import ListTransactionsRequest

        filters: dict[str, object] = {"state_filters": [], "producer_id_filters": sorted(producer_ids)}
        if duration_filter_ms >= 0:
            filters |= {"duration_filter": duration_filter_ms, "min_version": 1}

        def ask() -> list[Listing]:
            listed = []
            self._describe_topics([])
            for broker in sorted(broker.node_id for broker in self._admin._manager.cluster.brokers()):
                answer = self._send(ListTransactionsRequest(**filters), broker)
                check(answer.error_code, f"broker {broker}")
                listed += [
                    Listing(one.transactional_id, broker, one.producer_id, one.transaction_state)
                    for one in answer.transaction_states
                ]
            return listed

        return self._retried(ask)

    def describe(self, transactional_id: str) -> Description | None:
        """One transactional id; ``None`` if its coordinator does not know it."""
        from kafka.protocol.admin.transactions import DescribeTransactionsRequest

        def ask() -> Description | None:
            broker = self._coordinator(transactional_id)
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            [one] = self._send(request, broker).transaction_states
            if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            check(one.error_code, transactional_id)
            return Description(
                broker,
                one.transactional_id,
                one.producer_id,
                one.producer_epoch,
                one.transaction_state,
                one.transaction_timeout_ms,
                one.transaction_start_time_ms,
                tuple(TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions),
            )

        return self._retried(ask)

    def producers(
        self, partitions: Sequence[TopicPartition], broker: int | None = None
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """The active producers of each partition, from its leader or from the replica on ``broker``."""
        from kafka.protocol.admin.transactions import DescribeProducersRequest

        def ask() -> dict[TopicPartition, list[ActiveProducer]]:
            where: dict[int, dict[str, list[int]]] = {}
            leaders = {} if broker is not None else self._leaders(partitions)
            for tp in partitions:
                asked = leaders[tp] if broker is None else broker
                where.setdefault(asked, {}).setdefault(tp.topic, []).append(tp.partition)
            found: dict[TopicPartition, list[ActiveProducer]] = {}
            for asked, topics in where.items():
                kind = DescribeProducersRequest.TopicRequest
                words = [kind(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()]
                for topic in self._send(DescribeProducersRequest(topics=words), asked).topics:
                    for one in topic.partitions:
                        tp = TopicPartition(topic.name, one.partition_index)
                        check(one.error_code, f"{tp} on broker {asked}")
                        found[tp] = [producer_of(each) for each in one.active_producers]
            return found

        return self._retried(ask)

    def find_hanging(
        self, topic: str | None, partition: int | None, broker: int | None, longest_ms: int
    ) -> list[OpenTransaction]:
        """Transactions that no coordinator is going to end, on the partitions that the arguments select."""
        known = self.producers(self._partitions(topic, partition, broker), broker)
        candidates = open_since(known, longest_ms, int(time.time() * 1000))
        if not candidates:
            return []
        wanted = {producer.producer_id for _, producer in candidates}
        ids = {one.producer_id: one.transactional_id for one in self.listings(producer_ids=wanted)}
        return hanging(candidates, ids, {one: self.describe(one) for one in ids.values()})

    def write_abort_marker(self, tp: TopicPartition, producer_id: int, producer_epoch: int, epoch: int) -> None:
        """End a transaction in one partition as a coordinator of epoch ``epoch`` would."""
        from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

        kind = WriteTxnMarkersRequest.WritableTxnMarker
        marker = kind(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[kind.WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
            coordinator_epoch=epoch,
        )

        def ask() -> None:
            answer = self._send(WriteTxnMarkersRequest(markers=[marker]), self._leaders([tp])[tp])
            check(answer.markers[0].topics[0].partitions[0].error_code, str(tp))

        self._retried(ask)

    def end(self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Commit or abort the transaction with the identity of its producer."""
        from kafka.protocol.producer.transaction import EndTxnRequest

        # From version 5 on every transaction would change the producer's epoch.
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=commit,
            max_version=4,
        )
        self._tell_coordinator(transactional_id, request)

    def fence(self, transactional_id: str) -> None:
        """Abort the open transaction and raise the epoch, so that the producer cannot go on."""
        from kafka.protocol.producer.transaction import InitProducerIdRequest

        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=FENCING_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
            max_version=4,
        )
        self._tell_coordinator(transactional_id, request)

    # Brokers for a request

    def _describe_topics(self, topics: Sequence[str] | None) -> list[TopicDescription]:
        described: list[TopicDescription] = self._admin.describe_topics(topics)
        for topic in described:
            check(topic["error_code"], topic["name"])
        return described

    def _coordinator(self, transactional_id: str) -> int:
        from kafka.protocol.metadata import FindCoordinatorRequest

        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id], min_version=4)
        [found] = self._send(request, None).coordinators
        check(found.error_code, transactional_id)
        return int(found.node_id)

    def _leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        leaders = {
            TopicPartition(topic["name"], one["partition_index"]): int(one["leader_id"])
            for topic in self._describe_topics(sorted({tp.topic for tp in partitions}))
            for one in topic["partitions"]
        }
        for tp in partitions:
            if leaders.get(tp, 0) < 0:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp))
            if tp not in leaders:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp))
        return leaders

    def _partitions(self, topic: str | None, partition: int | None, broker: int | None) -> Sequence[TopicPartition]:
        if topic is not None and partition is not None:
            return [TopicPartition(topic, partition)]
        return [
            TopicPartition(one["name"], each["partition_index"])
            for one in self._describe_topics(None if topic is None else [topic])
            for each in one["partitions"]
            if broker is None or broker in each["replica_nodes"]
        ]

    # Sending

    def _send(self, request: ApiMessage, broker: int | None) -> ApiMessage:
        return send(self._admin, request, broker)

    def _tell_coordinator(self, transactional_id: str, request: ApiMessage) -> None:
        def ask() -> None:
            check(self._send(request, self._coordinator(transactional_id)).error_code, transactional_id)

        self._retried(ask)

    def _retried(self, ask: Callable[[], T]) -> T:
        deadline = time.monotonic() + RETRY_FOR
        while True:
            try:
                return ask()
            except ApiError as refused:
                if refused.code not in RETRIABLE or time.monotonic() > deadline:
                    raise
            self._sleep(RETRY_PAUSE)


def producer_of(row: ApiMessage) -> ActiveProducer:
    """A row of DescribeProducers."""
    return ActiveProducer(
        row.producer_id,
        row.producer_epoch,
        row.coordinator_epoch,
        row.last_sequence,
        row.last_timestamp,
        row.current_txn_start_offset,
    )


def check(code: int, what: str) -> None:
    """Raise what ``code`` stands for, with ``what`` it was about."""
    if code:
        raise ApiError(ErrorCode(code), what)
