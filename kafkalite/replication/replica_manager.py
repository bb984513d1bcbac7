"""The replicas of this broker: appends, fetches, leadership.

Answers to: ``kafka.server.ReplicaManager``. Deterministic.

Appending is here; requests that wait are completed last. The other work has modules of its own: new states in
``role_applier``, the ends of replicas in ``replica_stopper``, reading in ``fetch_reader``, ISR changes in
``isr_updates``, following in ``replica_fetcher``, offsets in ``offset_queries``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from kafkalite.cluster.control import ControlResponse, LeaderAndIsrRequest, StopReplicaRequest
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.purgatory import Purgatory
from kafkalite.common.tasks import Future, Lane
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import LogDirFailure
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_manager import LogManager
from kafkalite.protocol.fetch import FetchPartition
from kafkalite.record.convert import RecordConversionStats
from kafkalite.record.faults import InvalidRecordsError
from kafkalite.record.validator import RecordValidationError
from kafkalite.replication.alter_log_dirs import AlterLogDirs
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.delayed_operations import (
    Completed,
    DelayedFetch,
    DelayedProduce,
    FetchParams,
    complete,
)
from kafkalite.replication.fetch_reader import FetchReader, RackAwareReplicaSelector
from kafkalite.replication.isr_updates import IsrUpdates
from kafkalite.replication.leader_endpoint import LeaderConnector
from kafkalite.replication.offset_queries import OffsetQueries
from kafkalite.replication.partition import Partition
from kafkalite.replication.partition_table import PartitionTable
from kafkalite.replication.record_traces import RecordTraces
from kafkalite.replication.replica_fetcher_manager import ReplicaFetcherManager
from kafkalite.replication.replica_stopper import ReplicaStopper
from kafkalite.replication.replication_config import RACK_AWARE_SELECTOR, ReplicationConfig
from kafkalite.replication.replication_quotas import ReplicationQuotas
from kafkalite.replication.results import (
    FetchResult,
    ProduceResult,
)
from kafkalite.replication.role_applier import RoleApplier
from kafkalite.zk.stores.topics import IsrStore
from kafkalite.zk.zk_client import SessionState

log = logging.getLogger(__name__)
T = TypeVar("T")

_NONE = ErrorCode.NONE
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_FAULTS_OF_CLIENTS = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Errors that Kafka does not count as failed produce requests; neither does it those of batches that are too large."""
_REFUSAL_PAUSE = 1.0
_REFUSAL_PAUSE_MAX = 60.0
"""Seconds until replicas that a full directory refused are requested again, at first and at most."""


class ReplicaManager:
    """Every replica that this broker holds. One reactor thread calls it.

    Its parts answer for themselves: ``replicas`` the table of partitions, ``offset_queries``, ``fetchers``, ``quotas``.

    ``propagate_log_dir_event`` makes the controller send the states of this broker's replicas again. It is called when
    a log directory failed, and some time after a directory refused replicas because it was full or because descriptors
    were lacking.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        logs: LogManager,
        metadata: MetadataCache,
        isr: IsrStore,
        connect: LeaderConnector,
        topic_configs: Callable[[str], Awaitable[LogConfig]],
        is_being_deleted: Callable[[str], Awaitable[bool]],
        broker_epoch: BrokerEpoch,
        clock: Clock,
        propagate_log_dir_event: Callable[[], object],
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self.config = config
        self._propagate_log_dir_event = propagate_log_dir_event
        self._broker_epoch = broker_epoch
        self._logs = logs
        self._clock = clock
        self._time_ms = clock.time_ms
        self.monotonic = clock.monotonic
        self.replicas = PartitionTable(config.broker_id, metadata)
        self.partitions = self.replicas.partitions
        self.traces = RecordTraces(config.broker_id, self.partitions, clock)
        self._produces = Purgatory("Produce", clock)
        self._fetches = Purgatory("Fetch", clock)
        self._isr = IsrUpdates(
            config, self.replicas, isr, logs.flush_to_end, broker_epoch, clock, self._found_newer, record
        )
        self.quotas = ReplicationQuotas(config, clock)
        self.fetchers = ReplicaFetcherManager(
            config,
            metadata,
            connect,
            logs.handle_failure,
            self.quotas.follower,
            broker_epoch,
            clock,
            self.traces,
            record,
        )
        self._stopping = ReplicaStopper(self.replicas, logs, self.fetchers, broker_epoch, self._isr.settled)
        self._roles = RoleApplier(
            self.replicas,
            logs,
            self.fetchers,
            topic_configs,
            is_being_deleted,
            clock,
            broker_epoch,
            self._stopping,
            self._look_for_refusals,
            record,
        )
        deletions = Purgatory("DeleteRecords", clock)
        self.purgatories = (deletions, self._fetches, self._produces)
        """For metrics only."""
        self.offset_queries = OffsetQueries(self.replicas, logs, deletions)
        selector = (
            RackAwareReplicaSelector(metadata, config.rack)
            if config.replica_selector_class == RACK_AWARE_SELECTOR
            else None
        )
        self._reader = FetchReader(self.replicas, self._isr, selector, self.quotas.leader, clock.monotonic, self.traces)
        self._moves = AlterLogDirs(self.replicas, logs, self.quotas.alter_log_dirs, clock)
        # Decisions about partitions are applied one at a time, in the order in which they came.
        self._lane: Lane[Callable[[], Awaitable[None]]] = Lane("replica states", lambda work: work())
        self._refusal_timer: Timer | None = None
        self._refusal_pause = _REFUSAL_PAUSE
        self._isr.start()
        self._checkpoint_timer = clock.call_later(
            config.replica_high_watermark_checkpoint_interval_ms / 1000, self._checkpoint
        )

    # Producing

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Sequence[tuple[TopicPartition, memoryview]],
        on_done: Callable[[list[ProduceResult]], object],
        *,
        from_client: bool = True,
    ) -> None:
        """Append to the leaders here; results stand in the order of ``entries``.

        ``on_done`` is called before this returns unless ``required_acks`` is -1 and something is to be waited for.
        """
        if required_acks not in (-1, 0, 1):
            on_done([ProduceResult(tp, ErrorCode.INVALID_REQUIRED_ACKS) for tp, _ in entries])
            return
        now_ms = self._time_ms()
        partitions = self.partitions
        results: list[ProduceResult] = []
        changes: list[Completed] = []
        waiting: DelayedProduce | None = None
        converted: RecordConversionStats | None = None
        for tp, records in entries:
            partition = partitions.get(tp)
            if partition is None:
                results.append(ProduceResult(tp, self.replicas.absence(tp)))
                continue
            metrics = partition.metrics
            metrics.total_produce_requests += 1
            try:
                info = partition.append_as_leader(records, required_acks, now_ms, from_client, self.monotonic, changes)
            except Exception as error:
                results.append(self._append_failed(partition, error, len(records)))
                continue
            result = ProduceResult(tp, _NONE, info.first_offset, info.log_append_time, info.log_start_offset)
            results.append(result)
            metrics.bytes_in += len(records)
            metrics.messages_in += info.last_offset - info.first_offset + 1
            if info.conversion is not None:
                metrics.produce_message_conversions += info.conversion.records
                converted = info.conversion if converted is None else converted.plus(info.conversion)
            if self.traces.armed:
                self.traces.appended(partition, info.first_offset, info.last_offset + 1)
            if info.first_offset == partition.epoch_start_offset:
                self._record_first_produce(partition)
            if required_acks == -1 and info.last_offset >= partition.log.high_watermark:
                if waiting is None:
                    waiting = DelayedProduce(timeout_ms / 1000, results, on_done)
                partition.await_replication(info.last_offset + 1, waiting, result)
        if converted is not None:
            self.replicas.topic_stats.produce_conversions.add(converted)
        if waiting is None:
            on_done(results)
        else:
            self._produces.try_complete_else_watch(waiting, ())
        if changes:
            complete(changes)

    def _record_first_produce(self, partition: Partition) -> None:
        tp = partition.topic_partition
        self._record(
            EventKind.PRODUCE,
            f"{tp}: broker {self.config.broker_id} accepted the first produce of its leader epoch",
            topic=tp.topic,
            partition=tp.partition,
            leader_epoch=partition.leader_epoch,
        )

    def _append_failed(self, partition: Partition, error: Exception, size: int) -> ProduceResult:
        tp = partition.topic_partition
        metrics = partition.metrics
        if isinstance(error, ApiError):
            if isinstance(error, InvalidRecordsError):
                metrics.refused(error)
            if error.code in _TOO_LARGE:
                metrics.bytes_rejected += size
            elif error.code not in _FAULTS_OF_CLIENTS:
                metrics.failed_produce_requests += 1
            records = error.record_errors if isinstance(error, RecordValidationError) else ()
            return ProduceResult(tp, error.code, error_message=error.message or None, record_errors=records)
        if isinstance(error, LogDirFailure):
            self._logs.handle_failure(error.log_dir)
            return ProduceResult(tp, ErrorCode.KAFKA_STORAGE_ERROR)
        metrics.failed_produce_requests += 1
        log.error("appending to %s failed", tp, exc_info=error)
        return ProduceResult(tp, ErrorCode.UNKNOWN_SERVER_ERROR)

    # Fetching

    def fetch(
        self,
        params: FetchParams,
        partitions: Sequence[FetchPartition],
        on_done: Callable[[list[FetchResult]], object],
    ) -> DelayedFetch | None:
        """Read ``partitions`` (``topic`` filled in by the caller, ``None`` for an id that it does not know).

        With ``params.watch`` also what is dirty there. Results stand in the order of ``partitions``, then the dirty
        ones; while the fetch waits more dirty ones may be added. ``on_done`` is called at once where there is
        something to say; else what waits is returned.
        """
        waiting = None
        requests: list[FetchPartition] = list(partitions)
        watch = params.watch
        if watch is not None and watch.dirty:
            named = {(request.topic, request.partition) for request in requests}
            for tp in watch.dirty:
                request = watch.partitions.get(tp)
                if request is not None and tp not in named:
                    requests.append(request)
        results: list[FetchResult] = []
        changes: list[Completed] = []
        size, urgent = self._reader.look(params, requests, results, changes)
        if urgent or size >= params.min_bytes or params.max_wait_ms <= 0 or not (requests or watch is not None):
            self._reader.sent(params, results)
            on_done(results)
        else:
            waiting = self._reader.wait(params, requests, results, on_done)
            self._fetches.try_complete_else_watch(waiting, ())
        if changes:
            complete(changes)
        return waiting

    async def alter_log_dirs(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
        """Move replicas to other log directories of this broker; an error (or NONE, once that has begun) for each."""

        async def alter() -> dict[TopicPartition, ErrorCode]:
            return self._moves.alter(wanted)

        return await self._in_lane(alter)

    # Leadership

    def _in_lane(self, work: Callable[[], Awaitable[T]]) -> Future[T]:
        outcome: Future[T] = Future()

        async def run() -> None:
            try:
                result = await work()
            except Exception as error:
                outcome.errback(error)
            else:
                outcome.callback(result)

        self._lane.put(run)
        return outcome

    async def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> ControlResponse:
        """The controller's request; STALE_BROKER_EPOCH where the life of the broker that it was meant for is over."""
        answer = await self._in_lane(lambda: self._roles.leader_and_isr(request))
        self._moves.resume()
        self._drop_departed(request.states)
        # Most such requests follow a change of the live brokers.
        self.offset_queries.brokers_changed()
        return answer

    async def stop_replicas(self, request: StopReplicaRequest) -> ControlResponse:
        """Stop, and perhaps delete, replicas; fenced as :meth:`become_leader_or_follower`."""
        return await self._in_lane(lambda: self._stopping.stop_replicas(request))

    async def apply_states(self, states: Sequence[LeaderAndIsr]) -> None:
        """Apply states that were read from ZooKeeper; states of partitions that are not held here are skipped."""
        mine = [
            state
            for state in states
            if self.config.broker_id in state.replicas or state.topic_partition in self.partitions
        ]
        if mine:
            await self._in_lane(lambda: self._roles.apply(mine, from_controller=False))
            self._moves.resume()
            self._drop_departed(mine)

    def _drop_departed(self, states: Iterable[LeaderAndIsr]) -> None:
        held = [self.partitions.get(state.topic_partition) for state in states]
        self._isr.drop_departed(partition for partition in held if partition is not None)

    async def topics_gone(self, topics: Mapping[str, uuid.UUID]) -> None:
        """Stop serving these topics, of these ids, because ZooKeeper no longer has them. Their logs stay."""

        async def stop() -> None:
            self._stopping.topics_gone(topics)

        await self._in_lane(stop)

    def _found_newer(self, state: LeaderAndIsr) -> None:
        self._in_lane(lambda: self._roles.apply([state], from_controller=False)).addErrback(
            lambda failure: log.error("taking over %s failed: %s", state, failure.value)
        )

    def _look_for_refusals(self, outcomes: Collection[ErrorCode]) -> None:
        """Request refused replicas again, with growing pauses, because nothing else shows that there is space again."""
        if ErrorCode.KAFKA_STORAGE_ERROR not in outcomes:
            self._refusal_pause = _REFUSAL_PAUSE
        elif self._refusal_timer is None and not any(self._logs.offline_dirs):
            self._refusal_timer = self._clock.call_later(self._refusal_pause, self._ask_for_refused)
            self._refusal_pause = min(2 * self._refusal_pause, _REFUSAL_PAUSE_MAX)

    def _ask_for_refused(self) -> None:
        self._refusal_timer = None
        # Replicas in a failed directory come back with a restart only.
        if not any(self._logs.offline_dirs):
            self._propagate_log_dir_event()

    def directory_failed(self, log_dir: str) -> None:
        """Take the partitions in ``log_dir`` offline, because their logs are closed, and notify the controller."""
        failed = self._stopping.directory_failed(log_dir)
        if failed:
            log.error("partitions offline after the failure of a log directory: %s", ", ".join(map(str, failed)))
            self._propagate_log_dir_event()

    # The session and the cluster

    def registered(self, broker_epoch: int, session: int, unclean_start: int) -> None:
        """This broker's znode was made in ``session`` with czxid ``broker_epoch``. Call after every registration.

        ``unclean_start`` is the ``Broker.unclean_start_epoch`` that it is registered with.
        """
        is_new = broker_epoch != self._broker_epoch.epoch
        self._broker_epoch.registered(broker_epoch, session, unclean_start)
        if is_new:
            self.fetchers.reset_sessions()
        self._isr.resumed()

    def on_zk_state(self, state: SessionState) -> None:
        """SUSPENDED: go on, but change no ISR. EXPIRED: lead nothing until :meth:`registered` and new states."""
        if state is SessionState.SUSPENDED:
            self._isr.suspended()
        elif state is SessionState.EXPIRED:
            self._isr.expired()
            self._stopping.stop_leading()
        elif self._broker_epoch.session:
            self._isr.resumed()

    async def withdraw(self) -> None:
        """Stop leading, and change no ISR any more, because this broker is about to delete its registration.

        It may lead again since it handed its leaderships over: a newly elected controller may have given some back.
        """
        self._isr.close()
        self._stopping.stop_leading()
        await self._isr.written()

    def brokers_changed(self) -> None:
        """The set of live brokers changed: ISR candidates and deletions of records are looked at again."""
        self._isr.look_again()
        self._isr.drop_departed(self.replicas.leaders())
        self.offset_queries.brokers_changed()

    def _checkpoint(self) -> None:
        self._checkpoint_timer = self._clock.call_later(
            self.config.replica_high_watermark_checkpoint_interval_ms / 1000, self._checkpoint
        )
        if self.partitions:
            self._logs.checkpoint_high_watermarks()

    async def shutdown(self) -> None:
        """Stop fetching and waiting; the logs are closed by their manager."""
        self._checkpoint_timer.cancel()
        if self._refusal_timer is not None:
            self._refusal_timer.cancel()
        self._lane.close()
        self._isr.close()
        self._moves.close()
        self.fetchers.shutdown()
        self._produces.shutdown()
        self._fetches.shutdown()
        self._logs.checkpoint_high_watermarks()
