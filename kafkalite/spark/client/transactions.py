"""Transactions by single requests: begin, end, fence, list; and committed offsets with metadata.

Answers to: ``org.apache.kafka.clients.producer.internals.TransactionManager`` and the transactional half of
``clients.admin.KafkaAdminClient``. Blocking shell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition, numbers_by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.spark.client.cluster import GROUP, TRANSACTION, ClusterConnections
from kafkalite.spark.client.coordinators import CoordinatorClient, Request
from kafkalite.spark.client.errors import KafkaClientError

NO_TIMEOUT = 0x7FFFFFFF
"""``transaction.timeout.ms`` of a transaction that stays open until it is ended, where the broker allows it."""
FENCE_TIMEOUT_MS = 1000
_BROKER = 4
_FALLBACKS = (900_000, 60_000)


class InitializedProducer(NamedTuple):
    """A producer from InitProducerId. Without a transactional id it is idempotent only."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int


class Described(NamedTuple):
    """The state of a transactional id by Kafka's name (``Ongoing``, …), and its present producer."""

    state: str
    producer_id: int
    producer_epoch: int


class CommittedOffset(NamedTuple):
    """An offset and its metadata."""

    offset: int
    metadata: str


class TransactionClient:
    """The requests of producers and administrators about transactions. Use it in one thread.

    All methods raise :class:`KafkaClientError` for errors that cannot pass, and after ``default.api.timeout.ms``.
    """

    def __init__(self, cluster: ClusterConnections) -> None:
        self._cluster = cluster
        self._coordinators = CoordinatorClient(cluster)

    def init_producer(self, transactional_id: str | None, timeout_ms: int) -> InitializedProducer:
        """A producer id. With a transactional id, the earlier producer is fenced and its open transaction aborted.

        ``timeout_ms``: the transaction timeout; 0: as long as the broker allows.
        """
        if transactional_id is None:
            answer = self._cluster.retry("InitProducerId", self._init_idempotent)
            return InitializedProducer(None, answer.producer_id, answer.producer_epoch)
        for wanted in (timeout_ms,) if timeout_ms else self._timeouts():
            asked = {transactional_id: _init(transactional_id, wanted)}
            answer = self._coordinators.exchange("InitProducerId", asked, {ErrorCode.INVALID_TRANSACTION_TIMEOUT})[
                transactional_id
            ]
            if not answer.error_code:
                return InitializedProducer(transactional_id, answer.producer_id, answer.producer_epoch)
        raise KafkaClientError(f"InitProducerId: the broker refuses transaction.timeout.ms={wanted}: it allows less")

    def add_partitions(self, producer: InitializedProducer, partitions: Collection[TopicPartition]) -> None:
        """Add ``partitions`` to the transaction, which the first call opens."""
        name = producer.transactional_id
        assert name is not None
        make = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        fields = {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": producer.producer_id,
            "v3_and_below_producer_epoch": producer.producer_epoch,
            "v3_and_below_topics": [
                make(name=topic, partitions=numbers) for topic, numbers in numbers_by_topic(partitions).items()
            ],
        }

        def attempt() -> None:
            answer = self._coordinators.ask(TRANSACTION, name, (ApiKey.ADD_PARTITIONS_TO_TXN, fields, 3))
            refused = [
                (ErrorCode(found.partition_error_code), TopicPartition(topic.name, found.partition_index))
                for topic in answer.results_by_topic_v3_and_below
                for found in topic.results_by_partition
                if found.partition_error_code
            ]
            # If one partition is refused, the others have OPERATION_NOT_ATTEMPTED: report the cause first.
            refused.sort(key=lambda each: each[0] is ErrorCode.OPERATION_NOT_ATTEMPTED)
            if refused:
                self._coordinators.forget(TRANSACTION, (name,))
                raise ApiError(refused[0][0], f"{name}, {refused[0][1]}")

        self._cluster.retry(f"AddPartitionsToTxn of {name}", attempt)

    def end(self, producers: Iterable[InitializedProducer], *, commit: bool) -> dict[InitializedProducer, ErrorCode]:
        """Commit or abort open transactions, and wait until their markers are written, so that readers see the outcome.

        The code is ``NONE`` also for a transaction that was ended this way before; otherwise it is
        INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING.
        """
        named = {str(each.transactional_id): each for each in producers}
        asked = {name: _end(each, commit) for name, each in named.items()}
        what = f"EndTxn ({'commit' if commit else 'abort'})"
        refusals = {
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        }
        codes: dict[str, int] = {}
        # EndTxn answers when the decision is durable, before markers are written. Said again, it answers that it is
        # busy until they are.
        for _ in range(2):
            again = {name: request for name, request in asked.items() if not codes.get(name)}
            codes |= {
                name: answer.error_code for name, answer in self._coordinators.exchange(what, again, refusals).items()
            }
        return {each: ErrorCode(codes[name]) for name, each in named.items()}

    def fence(self, transactional_ids: Collection[str]) -> None:
        """Abort the open transactions of these ids, and fence their producers."""
        self._coordinators.exchange(
            "InitProducerId", {name: _init(name, FENCE_TIMEOUT_MS) for name in transactional_ids}
        )

    def describe(self, transactional_ids: Collection[str]) -> dict[str, Described | None]:
        """The state of each id; ``None``: the id is unknown or has expired."""
        found: dict[str, Described | None] = {}

        def attempt() -> None:
            missing = [name for name in transactional_ids if name not in found]
            for node, names in self._coordinators.at(TRANSACTION, missing).items():
                answer = self._cluster.broker(node).ask(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": names}, 0)
                for each in answer.transaction_states:
                    if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                        found[each.transactional_id] = None
                    elif each.error_code:
                        raise ApiError(ErrorCode(each.error_code), each.transactional_id)
                    else:
                        found[each.transactional_id] = Described(
                            each.transaction_state, each.producer_id, each.producer_epoch
                        )

        self._coordinators.retry("DescribeTransactions", TRANSACTION, transactional_ids, attempt)
        return found

    def open_transactions(self, prefix: str) -> list[str]:
        """Transactional ids that begin with ``prefix`` and have an open transaction, of all brokers."""
        found: set[str] = set()

        def attempt() -> None:
            for node in self._cluster.brokers():
                fields = {"state_filters": ["Ongoing"], "producer_id_filters": []}
                answer = self._cluster.broker(node).ask(ApiKey.LIST_TRANSACTIONS, fields, 0)
                if answer.error_code:
                    raise ApiError(ErrorCode(answer.error_code), f"broker {node}")
                found.update(each.transactional_id for each in answer.transaction_states)

        self._cluster.retry("ListTransactions", attempt)
        return sorted(name for name in found if name.startswith(prefix))

    def commit_offsets(
        self, producer: InitializedProducer, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Commit ``offsets`` of a group, all or none and once, in a transaction of ``producer``.

        Raises if ``producer`` was fenced, or if an answer did not come: then the offsets may be committed, and the next
        producer of this id has to look.
        """
        name = producer.transactional_id
        assert name is not None
        head = {
            "transactional_id": name,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "group_id": group,
        }
        self._coordinators.exchange("AddOffsetsToTxn", {name: (ApiKey.ADD_OFFSETS_TO_TXN, head, 3)})
        topic_class = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        make = topic_class.TxnOffsetCommitRequestPartition
        topics = [
            topic_class(
                name=topic,
                partitions=[
                    make(
                        partition_index=number,
                        committed_offset=offsets[TopicPartition(topic, number)].offset,
                        committed_leader_epoch=-1,
                        committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in numbers_by_topic(offsets).items()
        ]
        fields = head | {"generation_id": -1, "member_id": "", "group_instance_id": None, "topics": topics}

        def attempt() -> None:
            answer = self._coordinators.ask(GROUP, group, (ApiKey.TXN_OFFSET_COMMIT, fields, 3))
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code:
                        self._coordinators.forget(GROUP, (group,))
                        raise ApiError(
                            ErrorCode(each.error_code), f"group {group}, {topic.name}-{each.partition_index}"
                        )

        self._cluster.retry("TxnOffsetCommit", attempt)
        code = self.end((producer,), commit=True)[producer]
        if code:
            raise KafkaClientError(f"EndTxn of {name}: {code.name}")

    def fetch_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """All offsets of a group; waits until no open transaction may change them."""

        def attempt() -> dict[TopicPartition, CommittedOffset]:
            fields = {"group_id": group, "topics": None, "require_stable": True}
            answer = self._coordinators.ask(GROUP, group, (ApiKey.OFFSET_FETCH, fields, 7))
            found = {}
            errors = [answer.error_code]
            for topic in answer.topics:
                for each in topic.partitions:
                    errors.append(each.error_code)
                    if each.committed_offset >= 0:
                        place = TopicPartition(topic.name, each.partition_index)
                        found[place] = CommittedOffset(each.committed_offset, each.metadata or "")
            for error in filter(None, errors):
                self._coordinators.forget(GROUP, (group,))
                raise ApiError(ErrorCode(error), f"group {group}")
            return found

        return self._cluster.retry("OffsetFetch", attempt)

    def _init_idempotent(self) -> messages.InitProducerIdResponse:
        answer: messages.InitProducerIdResponse = self._cluster.any_connection().ask(*_init(None, NO_TIMEOUT))
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), "InitProducerId")
        return answer

    def _timeouts(self) -> Iterable[int]:
        """Transaction timeouts to ask for, the longest first."""
        yield NO_TIMEOUT
        known = self._cluster.retry("DescribeConfigs", partial(_max_timeout, self._cluster))
        if known:
            yield known
        yield from _FALLBACKS


def _init(transactional_id: str | None, timeout_ms: int) -> Request:
    fields = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
    return ApiKey.INIT_PRODUCER_ID, fields, 4


def _end(producer: InitializedProducer, commit: bool) -> Request:
    fields = {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "committed": commit,
    }
    return ApiKey.END_TXN, fields, 3


def _max_timeout(cluster: ClusterConnections) -> int:
    """The broker's ``transaction.max.timeout.ms``; 0 if the broker does not tell."""
    node = cluster.brokers()[0]
    name = "transaction.max.timeout.ms"
    make = messages.DescribeConfigsRequest.DescribeConfigsResource
    resource = make(resource_type=_BROKER, resource_name=str(node), configuration_keys=[name])
    answer = cluster.broker(node).ask(
        ApiKey.DESCRIBE_CONFIGS,
        {"resources": [resource], "include_synonyms": False, "include_documentation": False},
        3,
    )
    for result in answer.results:
        for config in result.configs or ():
            if config.name == name and config.value and config.value.isdecimal():
                return int(config.value)
    return 0
