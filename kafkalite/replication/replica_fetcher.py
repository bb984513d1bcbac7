"""One follower's connection to one leader: fetch, append, fetch again.

Answers to: ``kafka.server.{AbstractFetcherThread,ReplicaFetcherThread}``. Deterministic.

One request is outstanding; a second one interrupts its long poll if partitions were added meanwhile, so that a new
leader learns of its followers at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import LogDirFailure
from kafkalite.protocol.fetch import FetchPartitionResponse, FetchRequest, FetchResponse
from kafkalite.record.faults import InvalidRecordsError
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.delayed_operations import Completed, complete
from kafkalite.replication.follower_session import FollowerSession, PartitionFetch
from kafkalite.replication.leader_endpoint import LeaderEndPoint
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.record_traces import RecordTraces
from kafkalite.replication.replication_config import ReplicationConfig
from kafkalite.replication.replication_quotas import ReplicationQuotaManager, is_throttled

log = logging.getLogger(__name__)

_FIRST_BACKOFF = 0.02
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)


class ReplicaFetcher:
    """Replicates its partitions from one leader. ``open_end_point`` raises if the leader's address is not known."""

    def __init__(
        self,
        config: ReplicationConfig,
        leader: int,
        open_end_point: Callable[[], LeaderEndPoint],
        on_dir_failure: Callable[[str], None],
        quota: ReplicationQuotaManager,
        broker_epoch: BrokerEpoch,
        clock: Clock,
        traces: RecordTraces,
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self._traces = traces
        self._config = config
        self.leader = leader
        self._open = open_end_point
        self._on_dir_failure = on_dir_failure
        self._quota = quota
        self._clock = clock
        self._partitions: dict[TopicPartition, PartitionFetch] = {}
        self.session = FollowerSession(config, broker_epoch)
        self.requests = self.bytes = 0
        """How many answers came since the start of this fetcher, and how many bytes of records were in them."""
        self._end_point: LeaderEndPoint | None = None
        self._outstanding = 0
        self._attempts = 0
        self._retry: Timer | None = None
        self._held_back: list[PartitionFetch] = []
        self._hold: Timer | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def lags(self) -> Iterator[tuple[TopicPartition, int]]:
        """For each partition, how many records it lags behind the leader's high watermark of the last response."""
        for tp, fetch in self._partitions.items():
            yield tp, fetch.lag

    @property
    def failing(self) -> int:
        """How many partitions are left out for a while after an error of theirs."""
        return sum(fetch.delayed and fetch.attempts > 0 for fetch in self._partitions.values())

    # Partitions

    def add(self, partition: Partition) -> None:
        """Fetch ``partition`` from the end of its log; :meth:`kick` sends the request."""
        tp = partition.topic_partition
        fetch = PartitionFetch(partition)
        self._partitions[tp] = fetch
        self.session.put(tp, fetch)

    def partition(self, tp: TopicPartition) -> Partition:
        """The partition ``tp`` that is fetched here."""
        return self._partitions[tp].partition

    def remove(self, tp: TopicPartition) -> None:
        """Stop fetching ``tp``; records for it in an outstanding response are dropped."""
        if self._partitions.pop(tp, None) is not None:
            self.session.drop(tp)

    def close(self) -> None:
        """Stop for good."""
        self._closed = True
        self._partitions.clear()
        for timer in (self._retry, self._hold):
            if timer is not None:
                timer.cancel()
        if self._end_point is not None:
            self._end_point.close()
            self._end_point = None

    def kick(self) -> None:
        """Send a request now if none is outstanding, or if the outstanding one was sent before a change."""
        if self._closed or self._retry is not None or not self._partitions:
            return
        if self._quota.limited:
            self._hold_back()
        if self._outstanding == 0:
            # Send no request while all partitions are left out, because leaders answer an empty request at once.
            if self.session.has_partitions:
                self._send()
        elif self._outstanding == 1 and self.session.can_interrupt:
            self._send()

    # Requests

    def _send(self) -> None:
        if self._end_point is None:
            try:
                self._end_point = self._open()
            except Exception as error:
                log.info("leader %d cannot be reached: %s", self.leader, error)
                self._back_off()
                return
        request, version = self.session.build()
        if self._traces.armed:
            self._traces.asked(request.partitions)
        self._outstanding += 1
        spawn(
            self._exchange(self._end_point, request, version, self.session.generation, self.session.request_number),
            f"fetching from {self.leader}",
        )

    async def _exchange(
        self, end_point: LeaderEndPoint, request: FetchRequest, version: int, generation: int, number: int
    ) -> None:
        try:
            response = await end_point.fetch(request, version)
        except Exception as error:
            self._outstanding -= 1
            if end_point is self._end_point:
                log.info("fetching from leader %d failed: %s", self.leader, error)
                end_point.close()
                self._end_point = None
                self.session.reset()
                self._back_off()
            elif self._outstanding == 0:
                self.kick()
            return
        self._outstanding -= 1
        changes: list[Completed] = []
        if generation == self.session.generation and not self._closed:
            try:
                self._take(response, number, changes)
            except Exception:
                log.exception("an answer of leader %d could not be taken", self.leader)
                self.session.reset()
                self._back_off()
        if self._outstanding == 0:
            self.kick()
        if changes:
            complete(changes)

    def _back_off(self) -> None:
        if self._closed or self._retry is not None:
            return
        self._retry = self._clock.call_later(self._pause_after(self._attempts), self._retry_now)
        self._attempts += 1

    def _pause_after(self, attempts: int) -> float:
        """Seconds until the next attempt: short at first, because a new leader may not know yet that it leads."""
        return min(_FIRST_BACKOFF * (1 << min(attempts, 10)), self._config.replica_fetch_backoff_ms / 1000)

    def _retry_now(self) -> None:
        self._retry = None
        if self._outstanding == 0:
            self.kick()

    # Answers

    def _take(self, response: FetchResponse, number: int, changes: list[Completed]) -> None:
        if response.error:
            # A topic id is refused if the leader does not know the topic yet, or knows another topic of that name.
            if response.error not in _SESSION_ERRORS:
                self._back_off()
            self.session.reset()
            return
        self._attempts = 0
        self.requests += 1
        session = self.session
        session.answered(response.session_id)
        topics = session.topics
        for answer in response.partitions:
            topic = answer.topic if answer.topic is not None else topics.get(answer.topic_id)
            fetch = self._partitions.get((topic, answer.partition))  # type: ignore[call-overload]
            if fetch is None or fetch.delayed:
                continue
            partition = fetch.partition
            if partition.role is not Role.FOLLOWER or partition.leader_epoch != fetch.leader_epoch:
                continue
            try:
                if fetch.sent_in > number:
                    self._take_outdated(fetch, answer, number, changes)
                elif answer.error:
                    self._refused(fetch, answer)
                elif answer.diverging_epoch is not None:
                    self._truncate(fetch, *answer.diverging_epoch, answer.log_start_offset)
                else:
                    self._append(partition, fetch, answer, changes)
            except LogDirFailure as failure:
                self._on_dir_failure(failure.log_dir)
            except Exception as error:
                what = "%s: what leader %d sent at %d was refused"
                if isinstance(error, InvalidRecordsError):
                    partition.metrics.refused(error)
                if isinstance(error, ApiError):
                    log.warning(what + ": %s", partition.topic_partition, self.leader, fetch.offset, error)
                else:
                    log.exception(what, partition.topic_partition, self.leader, fetch.offset)
                fetch.offset = partition.log.log_end_offset
                self._delay(fetch)

    def _append(
        self, partition: Partition, fetch: PartitionFetch, answer: FetchPartitionResponse, changes: list[Completed]
    ) -> None:
        replica_log = partition.log
        records = answer.records
        if records:
            traces = self._traces
            arrived = self._clock.monotonic() if traces.armed else 0.0
            info = replica_log.append_replicated(records)  # type: ignore[arg-type]
            if traces.armed:
                traces.replicated(partition.topic_partition, arrived, fetch.offset, replica_log.log_end_offset)
            # Without the batch at the end that the answer's size cut.
            partition.metrics.replication_bytes_in += info.size
            if partition.is_added:
                partition.metrics.reassignment_bytes_in += info.size
            self.bytes += info.size
            fetch.offset = replica_log.log_end_offset
            self.session.advance(partition.topic_partition, fetch)
            if self._quota.limited and self._is_throttled(fetch):
                self._quota.record(len(records))
        fetch.lag = max(0, answer.high_watermark - fetch.offset)
        fetch.in_sync = not fetch.lag
        fetch.attempts = 0
        completed = partition.follow_high_watermark(answer.high_watermark)
        if completed is not None:
            changes.append(completed)
        # The leader may have deleted records: take over its log start, but never beyond the records of this log.
        log_start = min(answer.log_start_offset, replica_log.high_watermark)
        if log_start > replica_log.log_start_offset:
            replica_log.increment_log_start_offset(log_start)
            self.session.advance(partition.topic_partition, fetch)

    def _take_outdated(
        self, fetch: PartitionFetch, answer: FetchPartitionResponse, number: int, changes: list[Completed]
    ) -> None:
        """The offset has changed since request ``number``: nothing but the high watermark of its answer is of use.

        The leader does not repeat a high watermark that it has sent. After a truncation it must not be taken over,
        because the log may still differ from the leader's below it.
        """
        if number >= fetch.appended_since and not answer.error and answer.diverging_epoch is None:
            completed = fetch.partition.follow_high_watermark(answer.high_watermark)
            if completed is not None:
                changes.append(completed)

    def _truncate(self, fetch: PartitionFetch, epoch: int, end_offset: int, leader_start: int) -> None:
        """The leader's newest epoch not above ours is ``epoch`` and ends at ``end_offset`` (KIP-101, KIP-279, KIP-595).

        If this follower does not know that epoch, it truncates to the end of its own newest epoch below and fetches
        again, so that no step removes more than what certainly differs.
        """
        replica_log = fetch.partition.log
        own_epoch, own_end = replica_log.end_offset_for_epoch(epoch)
        if own_epoch < 0:
            to = end_offset
        elif own_epoch == epoch:
            to = min(own_end, end_offset)
        else:
            to = own_end
        to = max(min(to, replica_log.log_end_offset), 0)
        log.info("%s: truncating from %d to %d", fetch.partition.topic_partition, replica_log.log_end_offset, to)
        self._cut(fetch, to, leader_start, f"the logs differ after leader epoch {epoch}")

    def _cut(self, fetch: PartitionFetch, to: int, leader_start: int, why: str) -> None:
        """Truncate the log to ``to``, and fetch from its new end.

        If the leader's log starts there or above, it has none of the records that would stay, and the log starts with
        the leader's: the leader's log may start in the middle of a batch, which it sends whole.
        """
        replica_log = fetch.partition.log
        self._record_truncation(fetch.partition, to, why)
        if to <= leader_start:
            replica_log.truncate_fully_and_start_at(leader_start)
        else:
            replica_log.truncate_to(to)
        fetch.offset = replica_log.log_end_offset
        self.session.put(fetch.partition.topic_partition, fetch)

    def _record_truncation(self, partition: Partition, to: int, why: str) -> None:
        tp = partition.topic_partition
        if to >= partition.log.log_end_offset:
            return  # Only an epoch without records goes.
        self._record(
            EventKind.TRUNCATION,
            f"{tp}: the follower truncates from {partition.log.log_end_offset} to {to}",
            topic=tp.topic,
            partition=tp.partition,
            leader_epoch=partition.leader_epoch,
            why=why,
        )

    def _refused(self, fetch: PartitionFetch, answer: FetchPartitionResponse) -> None:
        tp = fetch.partition.topic_partition
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset >= 0:
            if fetch.offset < answer.log_start_offset:
                log.info("%s: the leader's log starts at %d only", tp, answer.log_start_offset)
                self._cut(fetch, answer.log_start_offset, answer.log_start_offset, "the leader's log starts there only")
                return
            end = min(fetch.offset, max(answer.high_watermark, answer.log_start_offset))
            if end < fetch.offset:
                log.info("%s: ahead of the leader, truncating to %d", tp, end)
                self._cut(fetch, end, answer.log_start_offset, "this log is ahead of the leader's")
                return
        log.debug("%s: leader %d answers error %d", tp, self.leader, answer.error)
        self._delay(fetch)

    def _delay(self, fetch: PartitionFetch) -> None:
        """Leave the partition out for a while."""
        tp = fetch.partition.topic_partition
        self.session.drop(tp)
        self._clock.call_later(self._pause_after(fetch.attempts), self._resume, tp, fetch)
        fetch.attempts += 1
        fetch.delayed = True

    def _resume(self, tp: TopicPartition, fetch: PartitionFetch) -> None:
        fetch.delayed = False
        if self._partitions.get(tp) is fetch and not self._closed:
            self.session.put(tp, fetch)
            self.kick()

    # The follower's quota

    def _is_throttled(self, fetch: PartitionFetch) -> bool:
        listed = fetch.partition.log.config.follower_replication_throttled_replicas
        return is_throttled(listed, fetch.partition.topic_partition.partition, self._config.broker_id)

    def _hold_back(self) -> None:
        """If the quota is exceeded, leave throttled partitions that are not in sync out until it is no longer."""
        if not self._quota.is_exceeded():
            return
        for tp, fetch in self._partitions.items():
            if not fetch.delayed and not fetch.in_sync and self._is_throttled(fetch):
                fetch.delayed = True
                self.session.drop(tp)
                self._held_back.append(fetch)
        if self._held_back and self._hold is None:
            # Not for long, because the limit may be raised meanwhile.
            wait = min(self._quota.wait_s(), self._config.replica_fetch_backoff_ms / 1000)
            self._hold = self._clock.call_later(wait, self._let_go)

    def _let_go(self) -> None:
        self._hold = None
        held_back, self._held_back = self._held_back, []
        for fetch in held_back:
            tp = fetch.partition.topic_partition
            fetch.delayed = False
            if self._partitions.get(tp) is fetch:
                self.session.put(tp, fetch)
        self.kick()
