"""Produce: record batches from a client to the leaders here; the hot path, plain calls only.

Answers to: ``KafkaApis.handleProduceRequest`` and ``ProduceRequest.validateRecords``. Deterministic.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalite.apis.leader_hints import leader_endpoints
from kafkalite.apis.services import BrokerServices
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.network.request import Request
from kafkalite.protocol.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce,
    encode_produce_response,
)

if TYPE_CHECKING:
    from kafkalite.apis.produce_transactional import TransactionalProduce
    from kafkalite.replication.results import ProduceResult

log = logging.getLogger(__name__)

_NOTHING = memoryview(b"")
_OVERHEAD = 12
_HEADER_SIZE = 61
_SIZE_MAGIC_ATTRIBUTES = struct.Struct(">i4xB5xB")
_ZSTD = 4
_TRANSACTIONAL = 0x10
_NO_REFUSAL = (ErrorCode.NONE, "")
_MAGIC_2_FROM = 3
_ZSTD_FROM = 7
_LEADER_HINT_FROM = 10
_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class ProduceApi:
    """Takes Produce requests of every version. Versions before 3 carry messages of magic 0 and 1."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._append = services.replicas.append_records
        self._transactional: TransactionalProduce | None = None

    def handle(self, request: Request) -> None:
        """Answer now (acks 0 and 1) or once the replicas have it (acks -1). Raises ``ProtocolError``."""
        version = request.header.api_version
        produce = decode_produce(version, request.body)
        acks = produce.acks
        entries = produce.partitions
        try:
            if version >= _MAGIC_2_FROM:
                for entry in entries:
                    if _refusal(version, entry[1]) is not None:
                        self._append_usable(request, produce)
                        return
            if acks not in (-1, 0, 1):
                self._refuse(request, produce, ErrorCode.INVALID_REQUIRED_ACKS)
            elif acks:
                self._append(produce.timeout_ms, acks, entries, lambda results: self._answer(request, results))
                # What waits for its replicas is in the log: the memory that it came in is needed for the next.
                request.body = _NOTHING
            else:
                self._append(produce.timeout_ms, 0, entries, lambda results: _answer_nothing(request, results))
        except Exception:
            log.exception("A produce request failed")
            self._refuse(request, produce, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _append_usable(self, request: Request, produce: ProduceRequest) -> None:
        """Bytes that are refused before any log sees them, or that belong to a transaction."""
        version = request.header.api_version
        refused: dict[int, ProducePartitionResponse] = {}
        usable: list[tuple[TopicPartition, memoryview]] = []
        transactional = False
        for index, (tp, records) in enumerate(produce.partitions):
            refusal = _refusal(version, records)
            if refusal is None or refusal is _NO_REFUSAL:
                usable.append((tp, records))
                transactional = transactional or refusal is not None
            else:
                refused[index] = ProducePartitionResponse(tp[0], tp[1], refusal[0], error_message=refusal[1])

        def done(results: Sequence[ProduceResult]) -> None:
            self._answer_both(request, produce, refused, results)

        if produce.acks not in (-1, 0, 1):
            self._refuse(request, produce, ErrorCode.INVALID_REQUIRED_ACKS)
        elif transactional:
            self._append_transactional(request, produce, refused, usable)
        elif usable:
            self._append(produce.timeout_ms, produce.acks, usable, done)
        else:
            done(())

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

        def append(unverified: Mapping[TopicPartition, tuple[ErrorCode, str | None]]) -> None:
            for index, (tp, _) in enumerate(produce.partitions):
                if tp in unverified and index not in refused:
                    error, message = unverified[tp]
                    refused[index] = ProducePartitionResponse(tp[0], tp[1], error, error_message=message)
            rest = [entry for index, entry in enumerate(produce.partitions) if index not in refused]
            try:
                if rest:
                    self._append(
                        produce.timeout_ms,
                        produce.acks,
                        rest,
                        lambda results: self._answer_both(request, produce, refused, results),
                    )
                else:
                    self._answer_both(request, produce, refused, ())
            except Exception:
                log.exception("A produce request failed")
                self._refuse(request, produce, ErrorCode.UNKNOWN_SERVER_ERROR)

        self._transactional.verify(request.header.api_version, produce.transactional_id, producer, usable, append)

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
                _answer_nothing(request, results)
            return
        rest = iter(results)
        answers = [
            refused[index] if index in refused else self._partition_answer(next(rest))
            for index in range(len(produce.partitions))
        ]
        self._send_safely(request, answers)

    def _answer(self, request: Request, results: Sequence[ProduceResult]) -> None:
        self._send_safely(request, [self._partition_answer(result) for result in results])

    def _send_safely(self, request: Request, answers: list[ProducePartitionResponse]) -> None:
        """Called by whoever completed the append: nothing is raised there."""
        try:
            self._send(request, answers)
        except Exception:
            log.exception("A produce request could not be answered")
            request.close_connection("the request could not be answered")

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
        version = request.header.api_version
        endpoints = None
        if version >= _LEADER_HINT_FROM:
            for answer in answers:
                if answer.current_leader is not None:
                    hints = [each.current_leader for each in answers]
                    endpoints = leader_endpoints(self._services.metadata, hints, request.connection.listener)
                    break
        if len(answers) > 1:
            answers = _by_topic(answers)
        request.respond([encode_produce_response(version, answers, 0, endpoints)])

    def _refuse(self, request: Request, produce: ProduceRequest, error: ErrorCode) -> None:
        """The same error for every partition."""
        if produce.acks == 0:
            request.close_connection(f"a produce request with acks=0 failed: {error.name}")
            return
        self._send(request, [ProducePartitionResponse(tp[0], tp[1], error) for tp, _ in produce.partitions])


def _answer_nothing(request: Request, results: Sequence[ProduceResult]) -> None:
    for result in results:
        if result.error:
            # The client hears of it by the only means that acks=0 leaves: it reconnects and asks for metadata.
            request.close_connection(
                f"a produce request with acks=0 failed: {result.topic_partition}: {result.error.name}"
            )
            return
    request.respond_nothing()


def _refusal(version: int, records: memoryview) -> tuple[ErrorCode, str] | None:
    """What is wrong with the outer form of one partition's records, from version 3 on; nothing, but transactional."""
    size = len(records)
    if size < _HEADER_SIZE:
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must have at least one record batch per partition",
        )
    length, magic, attributes = _SIZE_MAGIC_ATTRIBUTES.unpack_from(records, 8)
    if magic != 2:
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2",
        )
    if length + _OVERHEAD < size and length >= 0:
        return (
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain exactly one record batch "
            "per partition",
        )
    if version < _ZSTD_FROM and attributes & 7 == _ZSTD:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    return _NO_REFUSAL if attributes & _TRANSACTIONAL else None


def _by_topic(answers: list[ProducePartitionResponse]) -> list[ProducePartitionResponse]:
    """``answers`` with the partitions of one topic side by side."""
    topics: dict[str, list[ProducePartitionResponse]] = {}
    for answer in answers:
        topics.setdefault(answer.topic, []).append(answer)
    return answers if len(topics) == 1 else [answer for group in topics.values() for answer in group]
