"""Fetch 0-17: records for consumers and followers; the hot path, plain calls only.

- 1: throttle time (KIP-13)
- 2: messages with timestamps (KIP-32)
- 3: max bytes of the whole answer (KIP-74)
- 4: record batches of magic 2, isolation level (KIP-98)
- 5: log start offset (KIP-107)
- 6: KAFKA_STORAGE_ERROR (KIP-112)
- 7: fetch sessions (KIP-227)
- 8: the client throttles itself (KIP-219)
- 9: current leader epoch (KIP-320)
- 10: zstd (KIP-110)
- 11: rack of the client, preferred read replica (KIP-392)
- 12: last fetched epoch, diverging epoch (KIP-595); flexible (KIP-482)
- 13: topic ids (KIP-516)
- 14: tiered storage (KIP-405)
- 15: replica epoch (KIP-903)
- 16: endpoints of current leaders (KIP-951)
- 17: directory id of a KRaft replica (KIP-853), ignored here

Answers to: ``KafkaApis.handleFetchRequest`` and ``kafka.server.FetchContext``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from kafkalite.apis.fetch_authorization import FetchAuthorization
from kafkalite.apis.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, FetchSessionCache, key_of
from kafkalite.apis.leader_hints import leader_endpoints
from kafkalite.apis.registry import serves
from kafkalite.apis.services import BrokerServices
from kafkalite.apis.throttling import Throttling
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import ZERO_UUID, FileRegion, TopicPartition, side_by_side
from kafkalite.network.request import Request
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    decode_fetch,
    encode_fetch_response,
)
from kafkalite.replication.delayed_operations import FetchParams

if TYPE_CHECKING:
    from kafkalite.log.log import Log
    from kafkalite.record.convert import RecordConversionStats
    from kafkalite.replication.results import FetchResult

log = logging.getLogger(__name__)

_TOPIC_IDS_FROM = 13
_MAX_BYTES_FROM = 3
_MAGIC_2_FROM = 4
_ZSTD_FROM = 10
_RACK_FROM = 11
_LEADER_HINT_FROM = 12
_ENDPOINTS_FROM = 16
_HEAD_BYTES = 20
"""What an answer without partitions counts against a quota."""
_TOPIC = attrgetter("topic", "topic_id")


@serves(ApiKey.FETCH, 0, 17)
class FetchApi:
    """Takes Fetch requests of every version, with and without a session."""

    def __init__(self, services: BrokerServices, throttling: Throttling) -> None:
        self._services = services
        self._quotas = services.quotas
        self._metrics = services.request_metrics
        self._throttling = throttling
        self._replicas = services.replicas
        self._traces = services.replicas.traces
        self._topic_stats = services.partitions.topic_stats
        self._metadata = services.metadata
        self._config = services.api_config
        self._monotonic = services.clock.monotonic
        self.sessions = FetchSessionCache(
            self._config.max_incremental_fetch_session_cache_slots,
            services.partitions,
            services.clock,
            services.rng,
        )
        self._authorization = (
            None if services.authorizer is None else FetchAuthorization(services.authorizer, self.sessions)
        )

    def handle(self, request: Request) -> None:
        """Answer now, or once there is enough or the wait is over. Raises ``ProtocolError``."""
        version = request.header.api_version
        fetch = decode_fetch(version, request.body)
        request.is_of_follower = fetch.replica_id >= 0
        try:
            if self._authorization is not None and not self._authorization.admits(request, fetch):
                # Without a session, so that the partitions of another client's session are not named.
                self._answer(request, self._params(request, fetch, None), None, (), (), None, fetch.partitions)
                return
            if fetch.session_epoch == FINAL_EPOCH:
                if fetch.session_id:
                    self.sessions.remove(fetch.session_id)
                self._fetch_full(request, fetch, None)
            elif fetch.session_epoch == INITIAL_EPOCH:
                if fetch.session_id:
                    self.sessions.remove(fetch.session_id)
                self._open_session(request, fetch)
            else:
                self._fetch_incremental(request, fetch)
        except ApiError as error:
            if self._metrics is not None:
                self._metrics.failed(request, [error.code])
            request.respond(encode_fetch_response(version, error.code, 0, []))
        except Exception:
            log.exception("A fetch request failed")
            self._refuse(request, fetch)

    def _open_session(self, request: Request, fetch: FetchRequest) -> None:
        size = len(fetch.partitions)
        has_topic_ids = request.header.api_version >= _TOPIC_IDS_FROM
        session = self.sessions.create(size, fetch.replica_id >= 0, has_topic_ids) if size else None
        self._fetch_full(request, fetch, session)

    def _fetch_full(self, request: Request, fetch: FetchRequest, session: FetchSession | None) -> None:
        """Answer for each partition that the request names. They enter ``session``, which is new, if there is one."""
        partitions, unknown = self._resolve(request.header.api_version, fetch.partitions)
        denied: Sequence[FetchPartition] = ()
        if self._authorization is not None:
            if session is None:
                partitions, denied = self._authorization.split(request, fetch, partitions)
            else:
                partitions, denied = self._authorization.enter(request, fetch, session, partitions)
        if session is not None:
            for partition in partitions:
                self.sessions.add(session, key_of(partition), partition)
            for partition in unknown:
                session.unresolved[(partition.topic_id, partition.partition)] = partition
        params = self._params(request, fetch, session)
        if unknown or (denied and not partitions):
            params.max_wait_ms = 0
        self._fetch(
            request,
            params,
            partitions,
            lambda results: self._answer(request, params, session, unknown, results, partitions, denied),
        )

    def _fetch_incremental(self, request: Request, fetch: FetchRequest) -> None:
        """Answer for those partitions of the client's session that have news (KIP-227)."""
        version = request.header.api_version
        if self._authorization is not None:
            self._authorization.check_owner(request, fetch.session_id)
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
            if self._authorization is not None:
                partitions, _ = self._authorization.enter(request, fetch, session, partitions)
            dirty = session.watch.dirty
            for partition in partitions:
                tp = key_of(partition)
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
            self._fetch_full(request, fetch, None)
            return
        denied: Sequence[FetchPartition] = ()
        if self._authorization is not None:
            denied = self._authorization.review(request, fetch, session)
        params = self._params(request, fetch, session)
        if unknown or (denied and not session.partitions):
            params.max_wait_ms = 0
        epoch = session.epoch

        def answer(results: list[FetchResult]) -> None:
            self._answer(request, params, session, unknown, results, None, denied)
            if session.epoch != epoch:
                # The client has sent another request meanwhile, and may drop what it did not expect any more.
                session.send_again(result.topic_partition for result in results)

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
        for tp, partition in (*session.partitions.items(), *session.denied.items()):
            if tp.partition == index and partition.topic_id == topic_id:
                self.sessions.forget(session, tp)

    def _params(self, request: Request, fetch: FetchRequest, session: FetchSession | None) -> FetchParams:
        version = request.header.api_version
        max_bytes = min(fetch.max_bytes, self._config.fetch_max_bytes)
        if self._quotas.is_active and fetch.replica_id < 0:
            max_bytes = int(min(max_bytes, self._throttling.max_fetch_bytes(request)))
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
        """The partitions whose topic is known by name now, and those whose topic id is unknown here."""
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
        params: FetchParams,
        session: FetchSession | None,
        unknown: Sequence[FetchPartition],
        results: Sequence[FetchResult],
        full: Sequence[FetchPartition] | None = None,
        denied: Sequence[FetchPartition] = (),
    ) -> None:
        """``full`` are the partitions of a request that is answered for each of them, news or not.

        ``denied`` are those that the client may not read.
        """
        waiting = request.connection.waiting
        if waiting:
            waiting.pop(request.sequence, None)
        try:
            version = request.header.api_version
            if self._quotas.is_active and params.replica_id < 0:
                throttle_ms = self._throttling.fetched(request, _HEAD_BYTES + sum(result.size for result in results))
                if throttle_ms:
                    self._answer_throttled(request, throttle_ms, session, results, is_full=full is not None)
                    return
            answers = []
            last_sent = session.last_sent if session is not None else None
            for result in results:
                if last_sent is not None and not _is_news(last_sent, result) and full is None:
                    continue
                if result.size:
                    self._count_out(result, request.is_of_follower)
                answers.append(self._partition_answer(version, session, result))
            if version < _ZSTD_FROM:
                self._fit_old_client(version, answers, full or ())
            for partition in unknown:
                answers.append(
                    FetchPartitionResponse(
                        partition.topic, partition.topic_id, partition.partition, ErrorCode.UNKNOWN_TOPIC_ID
                    )
                )
            for partition in denied:
                answers.append(
                    FetchPartitionResponse(
                        partition.topic,
                        partition.topic_id,
                        partition.partition,
                        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        aborted=[],
                    )
                )
            if len(answers) > 1:
                answers = side_by_side(answers, _TOPIC)
            if self._metrics is not None:
                for answer in answers:
                    if answer.error:
                        self._metrics.failed(request, [each.error for each in answers if each.error])
                        break
            endpoints = None
            if version >= _ENDPOINTS_FROM:
                for answer in answers:
                    if answer.current_leader is not None:
                        hints = [each.current_leader for each in answers]
                        endpoints = leader_endpoints(self._metadata, hints, request.connection.listener)
                        break
            session_id = session.id if session is not None else 0
            request.respond(encode_fetch_response(version, 0, session_id, answers, node_endpoints=endpoints))
            if self._traces.armed:
                self._traces.fetch_answered(results, params.replica_id, request.header.client_id or "")
        except Exception:
            log.exception("A fetch request could not be answered")
            request.close_connection("the request could not be answered")

    def _count_out(self, result: FetchResult, to_follower: bool) -> None:
        metrics = self._topic_stats.topics.get(result.topic_partition.topic)
        if metrics is None:
            return
        if to_follower:
            metrics.replication_bytes_out += result.size
            if result.to_added:
                metrics.reassignment_bytes_out += result.size
        else:
            metrics.bytes_out += result.size

    def _answer_throttled(
        self,
        request: Request,
        throttle_ms: int,
        session: FetchSession | None,
        results: Sequence[FetchResult],
        *,
        is_full: bool,
    ) -> None:
        """No partition at all; the client repeats its request. A session whose id it was not sent ends."""
        session_id = 0
        if session is not None and is_full:
            self.sessions.remove(session.id)
        elif session is not None:
            session_id = session.id
            for result in results:
                if result.topic_partition in session.partitions:
                    session.watch.dirty[result.topic_partition] = None
        request.respond(encode_fetch_response(request.header.api_version, 0, session_id, [], throttle_ms))

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

        requests = {(partition.topic, partition.partition): partition for partition in asked}
        cost: RecordConversionStats | None = None
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
                partition = requests[answer.topic, answer.partition]
                answer.records, took = down_converted(
                    version,
                    answer.records,
                    partition.fetch_offset,
                    partial(_read_on, stored, partition.max_bytes, answer.high_watermark),
                    self._monotonic,
                )
                if took.records:
                    self._count_converted(answer.topic, took.records)
                    cost = took if cost is None else cost.plus(took)
            except ApiError as error:
                answer.records = None
                answer.error = error.code
                answer.high_watermark = -1
        if cost is not None:
            self._topic_stats.fetch_conversions.add(cost)

    def _count_converted(self, topic: str, records: int) -> None:
        metrics = self._topic_stats.topics.get(topic)
        if metrics is not None:
            metrics.fetch_message_conversions += records

    def _refuse(self, request: Request, fetch: FetchRequest) -> None:
        answers = [
            FetchPartitionResponse(p.topic, p.topic_id, p.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            for p in fetch.partitions
        ]
        if self._metrics is not None:
            self._metrics.failed(request, [ErrorCode.UNKNOWN_SERVER_ERROR])
        request.respond(encode_fetch_response(request.header.api_version, 0, 0, side_by_side(answers, _TOPIC)))


def _read_on(log_: Log | None, max_bytes: int, high_watermark: int, offset: int) -> FileRegion | None:
    """Records from ``offset`` on for a client that reads up to the high watermark, one whole batch at least.

    Raises :class:`ApiError`.
    """
    return None if log_ is None else log_.read(offset, max_bytes, high_watermark, min_one_message=True).records


def _is_news(last_sent: dict[TopicPartition, tuple[int, int]], result: FetchResult) -> bool:
    """Whether an incremental answer must have this partition; notes what it says. An error is said every time."""
    tp = result.topic_partition
    offsets = (result.high_watermark, result.log_start_offset)
    changed = last_sent.get(tp) != offsets
    last_sent[tp] = (-1, -1) if result.error else offsets
    return bool(
        changed
        or result.error
        or result.records is not None
        or result.preferred_read_replica != -1
        or result.diverging_epoch is not None
    )
