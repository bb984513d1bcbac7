"""Fetch: records for consumers and followers; the hot path, plain calls only.

Answers to: ``KafkaApis.handleFetchRequest`` and ``kafka.server.FetchContext``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkalite.apis.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, FetchSessionCache
from kafkalite.apis.leader_hints import leader_endpoints
from kafkalite.apis.services import BrokerServices
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.network.request import Request
from kafkalite.protocol.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    decode_fetch,
    encode_fetch_response,
)
from kafkalite.replication.delayed_operations import FetchParams

if TYPE_CHECKING:
    from kafkalite.replication.results import FetchResult

log = logging.getLogger(__name__)

_TOPIC_IDS_FROM = 13
_MAX_BYTES_FROM = 3
_MAGIC_2_FROM = 4
_ZSTD_FROM = 10
_RACK_FROM = 11
_LEADER_HINT_FROM = 12
_ENDPOINTS_FROM = 16


class FetchApi:
    """Takes Fetch requests of every version, with and without a session."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._replicas = services.replicas
        self._metadata = services.metadata
        self._config = services.config
        self.sessions = FetchSessionCache(
            services.config["max.incremental.fetch.session.cache.slots"],
            services.partitions,
            services.clock,
            services.rng,
        )

    def handle(self, request: Request) -> None:
        """Answer now, or once there is enough or the wait is over. Raises ``ProtocolError``."""
        version = request.header.api_version
        fetch = decode_fetch(version, request.body)
        try:
            if fetch.session_epoch == FINAL_EPOCH:
                if fetch.session_id:
                    self.sessions.remove(fetch.session_id)
                self._fetch_alone(request, fetch)
            elif fetch.session_epoch == INITIAL_EPOCH:
                if fetch.session_id:
                    self.sessions.remove(fetch.session_id)
                self._open_session(request, fetch)
            else:
                self._go_on(request, fetch)
        except ApiError as error:
            request.respond(encode_fetch_response(version, error.code, 0, []))
        except Exception:
            log.exception("A fetch request failed")
            self._refuse(request, fetch)

    def _fetch_alone(self, request: Request, fetch: FetchRequest) -> None:
        partitions, unknown = self._resolve(request.header.api_version, fetch.partitions)
        params = self._params(request.header.api_version, fetch, None)
        if unknown:
            params.max_wait_ms = 0
        self._fetch(
            request, params, partitions, lambda results: self._answer(request, None, unknown, results, partitions)
        )

    def _open_session(self, request: Request, fetch: FetchRequest) -> None:
        version = request.header.api_version
        size = len(fetch.partitions)
        session = self.sessions.create(size, fetch.replica_id >= 0, version >= _TOPIC_IDS_FROM) if size else None
        if session is None:
            self._fetch_alone(request, fetch)
            return
        partitions, unknown = self._resolve(version, fetch.partitions)
        for partition in partitions:
            self.sessions.add(session, _key(partition), partition)
        for partition in unknown:
            session.unresolved[(partition.topic_id, partition.partition)] = partition
        params = self._params(version, fetch, session)
        if unknown:
            params.max_wait_ms = 0
        self._fetch(
            request, params, partitions, lambda results: self._answer(request, session, unknown, results, partitions)
        )

    def _go_on(self, request: Request, fetch: FetchRequest) -> None:
        version = request.header.api_version
        session = self.sessions.find(fetch.session_id, fetch.session_epoch, version >= _TOPIC_IDS_FROM)
        partitions = fetch.partitions
        unknown: Sequence[FetchPartition] = ()
        if partitions or session.unresolved:
            if session.unresolved:
                waiting, session.unresolved = session.unresolved, {}
                for partition in partitions:
                    waiting.pop((partition.topic_id, partition.partition), None)
                for _, topic_id, index in fetch.forgotten:
                    waiting.pop((topic_id, index), None)
                partitions = [*partitions, *waiting.values()]
            partitions, unknown = self._resolve(version, partitions)
            dirty = session.watch.dirty
            for partition in partitions:
                tp = _key(partition)
                self.sessions.add(session, tp, partition)
                # To the end: a client names what it has just read, and the others come first now.
                dirty.pop(tp, None)
                dirty[tp] = None
            for partition in unknown:
                session.unresolved[(partition.topic_id, partition.partition)] = partition
        for topic, topic_id, index in fetch.forgotten:
            name = topic if topic is not None else self._metadata.topic_name(topic_id)
            if name is not None:
                self.sessions.forget(session, TopicPartition(name, index))
            else:
                self._forget_by_id(session, topic_id, index)
        if not session.size:
            # As in Kafka: a session that has lost its last partition ends.
            self.sessions.remove(session.id)
            self._fetch_alone(request, fetch)
            return
        params = self._params(version, fetch, session)
        if unknown:
            params.max_wait_ms = 0
        epoch = session.epoch

        def answer(results: list[FetchResult]) -> None:
            self._answer(request, session, unknown, results)
            if session.epoch != epoch:
                # The client has sent another request meanwhile, and may drop what it did not expect any more.
                session.tell_again(result.topic_partition for result in results)

        self._fetch(request, params, (), answer)

    def _fetch(
        self,
        request: Request,
        params: FetchParams,
        partitions: Sequence[FetchPartition],
        on_done: Callable[[list[FetchResult]], object],
    ) -> None:
        waiting = self._replicas.fetch(params, partitions, on_done)
        if waiting is not None and not request.answered:
            # A client may ask for a wait of weeks and go away.
            request.wait(waiting.complete)

    def _forget_by_id(self, session: FetchSession, topic_id: object, index: int) -> None:
        """A partition of a topic that was deleted leaves the session."""
        for tp, partition in list(session.partitions.items()):
            if tp.partition == index and partition.topic_id == topic_id:
                self.sessions.forget(session, tp)

    def _params(self, version: int, fetch: FetchRequest, session: FetchSession | None) -> FetchParams:
        max_bytes = min(fetch.max_bytes, self._config["fetch.max.bytes"])
        return FetchParams(
            fetch.replica_id,
            fetch.replica_epoch,
            fetch.max_wait_ms,
            min(fetch.min_bytes, max_bytes),
            max_bytes,
            fetch.isolation_level,
            fetch.rack_id,
            only_leader=version < _RACK_FROM,
            hard_max_bytes=version < _MAX_BYTES_FROM,
            watch=None if session is None else session.watch,
        )

    def _resolve(
        self, version: int, partitions: list[FetchPartition]
    ) -> tuple[list[FetchPartition], Sequence[FetchPartition]]:
        """The partitions whose topic is known by name now, and those whose id nobody knows."""
        if version < _TOPIC_IDS_FROM:
            return partitions, ()
        known, unknown = [], []
        name_of = self._metadata.topic_name
        for partition in partitions:
            name = name_of(partition.topic_id)
            if name is None:
                unknown.append(partition)
            else:
                partition.topic = name
                known.append(partition)
        return known, unknown

    def _answer(
        self,
        request: Request,
        session: FetchSession | None,
        unknown: Sequence[FetchPartition],
        results: Sequence[FetchResult],
        full: Sequence[FetchPartition] | None = None,
    ) -> None:
        """``full`` are the partitions of a request that is answered for each of them, news or not."""
        waiting = request.connection.waiting
        if waiting:
            waiting.pop(request.sequence, None)
        try:
            version = request.header.api_version
            answers = []
            told = session.told if session is not None else None
            for result in results:
                if told is not None and not _is_news(told, result) and full is None:
                    continue
                answers.append(self._partition_answer(version, session, result))
            if version < _ZSTD_FROM:
                self._fit_old_client(version, answers, full or ())
            for partition in unknown:
                answers.append(
                    FetchPartitionResponse(
                        partition.topic, partition.topic_id, partition.partition, ErrorCode.UNKNOWN_TOPIC_ID
                    )
                )
            if len(answers) > 1:
                answers = _by_topic(answers)
            endpoints = None
            if version >= _ENDPOINTS_FROM:
                for answer in answers:
                    if answer.current_leader is not None:
                        hints = [each.current_leader for each in answers]
                        endpoints = leader_endpoints(self._metadata, hints, request.connection.listener)
                        break
            session_id = session.id if session is not None else 0
            request.respond(encode_fetch_response(version, 0, session_id, answers, node_endpoints=endpoints))
        except Exception:
            log.exception("A fetch request could not be answered")
            request.close_connection("the request could not be answered")

    def _partition_answer(
        self, version: int, session: FetchSession | None, result: FetchResult
    ) -> FetchPartitionResponse:
        tp = result.topic_partition
        topic_id = ZERO_UUID
        if version >= _TOPIC_IDS_FROM:
            asked = session.partitions.get(tp) if session is not None else None
            topic_id = asked.topic_id if asked is not None else self._metadata.topic_id(tp[0])
        return FetchPartitionResponse(
            tp[0],
            topic_id,
            tp[1],
            result.error,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            result.aborted,
            result.preferred_read_replica,
            result.records,
            result.diverging_epoch,
            result.leader_hint if version >= _LEADER_HINT_FROM else None,
        )

    def _fit_old_client(
        self, version: int, answers: list[FetchPartitionResponse], asked: Sequence[FetchPartition]
    ) -> None:
        """Records in a format and a codec that the client knows, or the error that says why not."""
        # Imported here because hardly any client needs it.
        from kafkalite.apis.fetch_conversion import check_compression, down_converted

        offsets = {(partition.topic, partition.partition): partition.fetch_offset for partition in asked}
        for answer in answers:
            if answer.topic is None:
                continue
            stored = self._services.logs.get(TopicPartition(answer.topic, answer.partition))
            try:
                if stored is not None:
                    check_compression(stored.config.compression_type)
                if version >= _MAGIC_2_FROM or answer.records is None:
                    continue
                if stored is not None and not stored.config.message_downconversion_enable:
                    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
                offset = offsets.get((answer.topic, answer.partition), 0)
                answer.records = down_converted(version, answer.records, offset)
            except ApiError as error:
                answer.records = None
                answer.error = error.code
                answer.high_watermark = -1

    def _refuse(self, request: Request, fetch: FetchRequest) -> None:
        answers = [
            FetchPartitionResponse(p.topic, p.topic_id, p.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            for p in fetch.partitions
        ]
        request.respond(encode_fetch_response(request.header.api_version, 0, 0, _by_topic(answers)))


def _key(partition: FetchPartition) -> TopicPartition:
    assert partition.topic is not None
    return TopicPartition(partition.topic, partition.partition)


def _is_news(told: dict[TopicPartition, tuple[int, int]], result: FetchResult) -> bool:
    """Whether an incremental answer must have this partition; notes what it says. An error is said every time."""
    tp = result.topic_partition
    offsets = (result.high_watermark, result.log_start_offset)
    changed = told.get(tp) != offsets
    told[tp] = (-1, -1) if result.error else offsets
    return bool(
        changed
        or result.error
        or result.records is not None
        or result.preferred_read_replica != -1
        or result.diverging_epoch is not None
    )


def _by_topic(answers: list[FetchPartitionResponse]) -> list[FetchPartitionResponse]:
    """``answers`` with the partitions of one topic side by side."""
    topics: dict[object, list[FetchPartitionResponse]] = {}
    for answer in answers:
        topics.setdefault((answer.topic, answer.topic_id), []).append(answer)
    return answers if len(topics) == 1 else [answer for group in topics.values() for answer in group]
