"""Produce 0-11: record batches from a client to the leaders here; the hot path, plain calls only.

- 1: throttle time (KIP-13)
- 2: messages with timestamps, log append time (KIP-32)
- 3: record batches of magic 2, transactional id (KIP-98)
- 4: KAFKA_STORAGE_ERROR (KIP-112)
- 5: log start offset
- 6: the client throttles itself (KIP-219)
- 7: zstd (KIP-110)
- 8: errors of single records (KIP-467)
- 9: flexible (KIP-482)
- 10: hints to the current leader (KIP-951)
- 11: TRANSACTION_ABORTABLE (KIP-890)

Answers to: ``KafkaApis.handleProduceRequest`` and ``ProduceRequest.validateRecords``. Deterministic.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Container, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal

from kafkalite.apis.context import authorize, decisions_of
from kafkalite.apis.leader_hints import leader_endpoints
from kafkalite.apis.registry import serves
from kafkalite.apis.services import BrokerServices
from kafkalite.apis.throttling import Throttling
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition, side_by_side
from kafkalite.network.request import Request
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce,
    encode_produce_response,
)
from kafkalite.record.batch import COMPRESSION_MASK, HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL_MASK
from kafkalite.record.compression import ZSTD
from kafkalite.security.audit import AUDIT
from kafkalite.security.decisions import Decisions

if TYPE_CHECKING:
    from kafkalite.apis.produce_transactional import TransactionalProduce
    from kafkalite.replication.results import ProduceResult
    from kafkalite.security.authorizer_interface import Authorizer

log = logging.getLogger(__name__)

_SIZE_MAGIC_ATTRIBUTES = struct.Struct(">i4xB5xB")
_SIZE_POSITION = 8
_MAGIC_2_FROM = 3
_ZSTD_FROM = 7
_LEADER_HINT_FROM = 10
_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_TOPIC = attrgetter("topic")


class _Usable(Enum):
    """A batch is not refused, but is not to be appended at once."""

    TRANSACTIONAL = auto()
    """The transaction is verified first."""


_TRANSACTIONAL: Final = _Usable.TRANSACTIONAL
_WRITE: Final = AclOperation.WRITE


@serves(ApiKey.PRODUCE, 0, 11)
class ProduceApi:
    """Takes Produce requests of every version. Versions before 3 carry messages of magic 0 and 1."""

    def __init__(self, services: BrokerServices, throttling: Throttling) -> None:
        self._services = services
        self._quotas = services.quotas
        self._metrics = services.request_metrics
        self._throttling = throttling
        self._append = services.replicas.append_records
        self._traces = services.replicas.traces
        self._authorizer = services.authorizer
        self._transactional: TransactionalProduce | None = None

    def handle(self, request: Request) -> None:
        """Answer now (acks 0 and 1) or once the replicas have it (acks -1). Raises ``ProtocolError``."""
        version = request.header.api_version
        produce = decode_produce(version, request.body)
        acks = produce.acks
        entries = produce.partitions
        try:
            authorizer = self._authorizer
            if authorizer is not None and not self._is_authorized(authorizer, request, produce):
                return
            if version >= _MAGIC_2_FROM:
                for entry in entries:
                    if _refusal(version, entry[1]) is not None:
                        self._append_usable(request, produce)
                        return
            if acks not in (-1, 0, 1):
                self._refuse(request, produce, ErrorCode.INVALID_REQUIRED_ACKS)
            elif acks:
                self._append(produce.timeout_ms, acks, entries, partial(self._answer, request))
                # What waits for its replicas is in the log. The memory that it came in is needed for the next requests,
                # and among them for those of the followers, for which this one waits.
                request.release_body()
            else:
                self._append(produce.timeout_ms, 0, entries, partial(self._answer_nothing, request))
        except Exception:
            log.exception("A produce request failed")
            self._refuse(request, produce, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _is_authorized(self, authorizer: Authorizer, request: Request, produce: ProduceRequest) -> bool:
        """Whether the client may write all that it sends; else the request is dealt with here."""
        connection = request.connection
        entries = produce.partitions
        name = produce.transactional_id
        kept = connection.decisions
        # The same question as at the last request is answered at once and without a call, because it comes with every
        # message.
        if (
            name is None
            and isinstance(kept, Decisions)
            and kept.principal is connection.principal
            and (snapshot := kept.snapshot) is not None
            and snapshot.is_current
            and not AUDIT.isEnabledFor(logging.DEBUG)
        ):
            writable = kept.writable
            for entry in entries:
                if entry[0][0] not in writable:
                    break
            else:
                return True
        if (
            name is not None
            and _has_transactional(request.header.api_version, entries)
            and not authorize(authorizer, connection, ApiKey.PRODUCE, _WRITE, AclResourceType.TRANSACTIONAL_ID, name)
        ):
            self._refuse(request, produce, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return False
        topics = {tp[0] for tp, _ in entries}
        denied = {
            topic
            for topic in topics
            if not authorize(authorizer, connection, ApiKey.PRODUCE, _WRITE, AclResourceType.TOPIC, topic)
        }
        if denied:
            self._append_usable(request, produce, denied)
            return False
        decisions = decisions_of(authorizer, connection)
        if decisions.snapshot is not None:
            decisions.writable |= topics
        return True

    def _append_usable(self, request: Request, produce: ProduceRequest, denied: Container[str] = frozenset()) -> None:
        """Bytes that are refused before any log sees them, or that belong to a transaction; ``denied`` are topics."""
        version = request.header.api_version
        refused: dict[int, ProducePartitionResponse] = {}
        usable: list[tuple[TopicPartition, memoryview]] = []
        transactional = False
        for index, (tp, records) in enumerate(produce.partitions):
            if tp[0] in denied:
                refused[index] = ProducePartitionResponse(tp[0], tp[1], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                continue
            refusal = _refusal(version, records) if version >= _MAGIC_2_FROM else None
            if refusal is None or refusal is _TRANSACTIONAL:
                usable.append((tp, records))
                transactional = transactional or refusal is not None
            else:
                refused[index] = ProducePartitionResponse(tp[0], tp[1], refusal[0], error_message=refusal[1])
        if produce.acks not in (-1, 0, 1):
            self._refuse(request, produce, ErrorCode.INVALID_REQUIRED_ACKS)
        elif transactional:
            self._append_transactional(request, produce, refused, usable)
        else:
            self._append_rest(request, produce, refused)

    def _append_transactional(
        self,
        request: Request,
        produce: ProduceRequest,
        refused: dict[int, ProducePartitionResponse],
        usable: list[tuple[TopicPartition, memoryview]],
    ) -> None:
        from kafkalite.apis.produce_transactional import TransactionalProduce, producer_of

        if produce.transactional_id is None:
            self._refuse(request, produce, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return
        producer = producer_of(usable)
        if producer is None:
            self._refuse(request, produce, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        if self._transactional is None:
            self._transactional = TransactionalProduce(self._services)

        then = partial(self._append_verified, request, produce, refused)
        self._transactional.verify(request.header.api_version, produce.transactional_id, producer, usable, then)

    def _append_verified(
        self,
        request: Request,
        produce: ProduceRequest,
        refused: dict[int, ProducePartitionResponse],
        unverified: Mapping[TopicPartition, tuple[ErrorCode, str | None]],
    ) -> None:
        """Append what is neither ``refused`` nor ``unverified``. Raises nothing, because other requests wait behind."""
        for index, (tp, _) in enumerate(produce.partitions):
            if tp in unverified and index not in refused:
                error, message = unverified[tp]
                refused[index] = ProducePartitionResponse(tp[0], tp[1], error, error_message=message)
        try:
            self._append_rest(request, produce, refused)
        except Exception:
            log.exception("A produce request failed")
            self._refuse(request, produce, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _append_rest(
        self, request: Request, produce: ProduceRequest, refused: Mapping[int, ProducePartitionResponse]
    ) -> None:
        """Append what is not ``refused``; the answer names both."""
        rest = [entry for index, entry in enumerate(produce.partitions) if index not in refused]
        done = partial(self._answer_both, request, produce, refused)
        if rest:
            self._append(produce.timeout_ms, produce.acks, rest, done)
        else:
            done(())

    def _answer_both(
        self,
        request: Request,
        produce: ProduceRequest,
        refused: Mapping[int, ProducePartitionResponse],
        results: Sequence[ProduceResult],
    ) -> None:
        """What was refused here beside what the logs said of the others."""
        if produce.acks == 0:
            if refused:
                request.close_connection("a produce request with acks=0 failed")
            else:
                self._answer_nothing(request, results)
            return
        rest = iter(results)
        answers = [
            refused[index] if index in refused else self._partition_answer(next(rest))
            for index in range(len(produce.partitions))
        ]
        self._send(request, answers)

    def _answer(self, request: Request, results: Sequence[ProduceResult]) -> None:
        self._send(request, [self._partition_answer(result) for result in results])
        if self._traces.armed:
            self._traces.produce_answered(request.received, results)

    def _partition_answer(self, result: ProduceResult) -> ProducePartitionResponse:
        tp = result.topic_partition
        answer = ProducePartitionResponse(
            tp[0],
            tp[1],
            result.error,
            result.base_offset,
            result.log_append_time,
            result.log_start_offset,
            result.error_message,
            record_errors=result.record_errors,
        )
        if result.error and result.error in _HINTED:
            state = self._services.metadata.state(tp)
            if state is not None:
                answer.current_leader = (state.leader, state.leader_epoch)
        return answer

    def _send(self, request: Request, answers: list[ProducePartitionResponse]) -> None:
        """Raises nothing, because the code that completed the append calls this."""
        try:
            version = request.header.api_version
            endpoints = None
            if version >= _LEADER_HINT_FROM:
                for answer in answers:
                    if answer.current_leader is not None:
                        hints = [each.current_leader for each in answers]
                        endpoints = leader_endpoints(self._services.metadata, hints, request.connection.listener)
                        break
            if len(answers) > 1:
                answers = side_by_side(answers, _TOPIC)
            if self._metrics is not None:
                for answer in answers:
                    if answer.error:
                        self._metrics.failed(request, [each.error for each in answers if each.error])
                        break
            throttle_ms = self._throttling.produced(request, -1) if self._quotas.is_active else 0
            request.respond([encode_produce_response(version, answers, throttle_ms, endpoints)])
        except Exception:
            log.exception("A produce request could not be answered")
            request.close_connection("the request could not be answered")

    def _answer_nothing(self, request: Request, results: Sequence[ProduceResult]) -> None:
        for result in results:
            if result.error:
                # The client hears of it by the only means that acks=0 leaves: it reconnects and asks for metadata.
                request.close_connection(
                    f"a produce request with acks=0 failed: {result.topic_partition}: {result.error.name}"
                )
                return
        if self._quotas.is_active:
            self._throttling.produced(request, 0)
        request.respond_nothing()

    def _refuse(self, request: Request, produce: ProduceRequest, error: ErrorCode) -> None:
        """The same error for every partition."""
        if produce.acks == 0:
            request.close_connection(f"a produce request with acks=0 failed: {error.name}")
            return
        self._send(request, [ProducePartitionResponse(tp[0], tp[1], error) for tp, _ in produce.partitions])


def _refusal(version: int, records: memoryview) -> tuple[ErrorCode, str] | Literal[_Usable.TRANSACTIONAL] | None:
    """What is wrong with the outer form of one partition's records, from version 3 on. ``None``: append them."""
    size = len(records)
    if size < HEADER_SIZE:
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must have at least one record batch per partition",
        )
    length, magic, attributes = _SIZE_MAGIC_ATTRIBUTES.unpack_from(records, _SIZE_POSITION)
    if magic != 2:
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2",
        )
    if length + LOG_OVERHEAD < size and length >= 0:
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain exactly one record batch "
            "per partition",
        )
    if version < _ZSTD_FROM and attributes & COMPRESSION_MASK == ZSTD:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    return _TRANSACTIONAL if attributes & TRANSACTIONAL_MASK else None


def _has_transactional(version: int, entries: Sequence[tuple[TopicPartition, memoryview]]) -> bool:
    return any(_refusal(version, records) is _TRANSACTIONAL for _, records in entries)
