"""Reading for consumers and followers.

Answers to: ``kafka.server.ReplicaManager.readFromLog``, ``kafka.cluster.Partition.fetchRecords`` and
``org.apache.kafka.common.replica.RackAwareReplicaSelector`` (KIP-392). Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.protocol.fetch import FetchPartition
from kafkalite.replication.delayed_operations import Completed, DelayedFetch, FetchParams, FetchWatch, complete
from kafkalite.replication.isr_updates import IsrUpdates
from kafkalite.replication.partition import FollowerState, Partition, Role
from kafkalite.replication.partition_table import PartitionTable
from kafkalite.replication.record_traces import RecordTraces
from kafkalite.replication.replication_quotas import ReplicationQuotaManager, is_throttled
from kafkalite.replication.results import FetchResult

log = logging.getLogger(__name__)

_LEADER = Role.LEADER


class RackAwareReplicaSelector:
    """A replica in the consumer's own rack: the leader if it is there, else the most caught-up follower in sync there.

    A follower that is not in sync may fall further and further behind, and its consumer with it.
    """

    def __init__(self, metadata: MetadataCache, own_rack: str | None) -> None:
        self._metadata = metadata
        self._own_rack = own_rack

    def select(self, partition: Partition, rack: str, offset: int) -> int:
        """The follower to send a consumer of ``rack`` to that wants to read at ``offset``; -1 for the leader itself."""
        if rack == self._own_rack:
            return -1
        best = -1
        best_end = -1
        in_sync = partition.isr.committed
        for replica, follower in partition.followers.items():
            if replica not in in_sync:
                continue
            if follower.log_end_offset < offset or follower.log_start_offset > offset:
                continue
            broker = self._metadata.broker(replica)
            if broker is not None and broker.rack == rack and follower.log_end_offset > best_end:
                best, best_end = replica, follower.log_end_offset
        return best


class FetchReader:
    """Reads the partitions of a fetch, and reads those with news again while the fetch waits."""

    def __init__(
        self,
        replicas: PartitionTable,
        isr: IsrUpdates,
        selector: RackAwareReplicaSelector | None,
        quota: ReplicationQuotaManager,
        monotonic: Callable[[], float],
        traces: RecordTraces,
    ) -> None:
        self._traces = traces
        self._replicas = replicas
        self._partitions = replicas.partitions
        self._isr = isr
        self._selector = selector
        self._quota = quota
        self._monotonic = monotonic

    def look(
        self,
        params: FetchParams,
        requests: list[FetchPartition],
        results: list[FetchResult],
        changes: list[Completed],
    ) -> tuple[int, bool]:
        """Append a result for each of ``requests``; returns the bytes found and whether to answer at once.

        What a follower's fetch completed is appended to ``changes``.
        """
        limit = params.max_bytes
        need_one = not params.hard_max_bytes
        watch = params.watch
        size = 0
        urgent = False
        partitions = self._partitions
        for request in requests:
            partition = partitions.get((request.topic, request.partition))  # type: ignore[call-overload]
            if partition is None:
                results.append(self._absent(request, watch))
                urgent = True
                continue
            partition.metrics.total_fetch_requests += 1
            try:
                result = self._read(partition, request, params, limit, need_one, changes)
            except ApiError as error:
                result = self._refused(partition, error)
            except Exception:
                log.exception("reading %s at %d failed", partition.topic_partition, request.fetch_offset)
                partition.metrics.failed_fetch_requests += 1
                result = FetchResult(partition.topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            results.append(result)
            if self._traces.armed and params.replica_id >= 0 and not result.error and result.diverging_epoch is None:
                self._traces.follower_fetched(partition, params.replica_id, request.fetch_offset)
            found = result.size
            is_news = result.error or result.diverging_epoch is not None
            if watch is not None:
                # Only a look that finds nothing makes a partition clean: the reader may drop what it was sent, and ask
                # again without naming the partition, because its fetch offset is the same.
                if found or is_news or result.throttled or not limit:
                    watch.dirty[partition.topic_partition] = None
                else:
                    watch.dirty.pop(partition.topic_partition, None)
            if found:
                size += found
                limit = limit - found if limit > found else 0
                need_one = False
            elif is_news or result.preferred_read_replica >= 0:
                urgent = True
        return size, urgent

    def _absent(self, request: FetchPartition, watch: FetchWatch | None) -> FetchResult:
        tp = TopicPartition(request.topic or "", request.partition)
        if watch is not None:
            watch.dirty[tp] = None
        if request.topic is None:
            return FetchResult(tp, ErrorCode.UNKNOWN_TOPIC_ID)
        result = FetchResult(tp, self._replicas.absence(tp))
        state = self._replicas.metadata.state(tp)
        if state is not None:
            result.leader_hint = (state.leader, state.leader_epoch)
        return result

    def _read(
        self,
        partition: Partition,
        request: FetchPartition,
        params: FetchParams,
        limit: int,
        need_one: bool,
        changes: list[Completed],
    ) -> FetchResult:
        topic_id = request.topic_id
        hosted_id = partition.state.topic_id
        if topic_id is not hosted_id and topic_id != hosted_id and topic_id.int and hosted_id.int:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        follower: FollowerState | None = None
        if partition.role is not _LEADER:
            if params.replica_id >= 0 or params.only_leader:
                partition.check_leader()
            replica_log = partition.check_local(request.current_leader_epoch)
        else:
            replica_log = partition.log
            if request.current_leader_epoch != partition.leader_epoch:
                partition.check_epoch(request.current_leader_epoch)
            if params.replica_id >= 0:
                follower = self._follower(partition, params)
        offset = request.fetch_offset
        end = replica_log.log_end_offset
        # A reader that is ahead and names an epoch learns below where the logs diverge.
        if offset < replica_log.log_start_offset or (offset > end and request.last_fetched_epoch < 0):
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if request.last_fetched_epoch >= 0:
            diverging = _diverging_epoch(replica_log, request, end)
            if diverging is not None:
                result = _result(partition, replica_log)
                result.diverging_epoch = diverging
                return result
        if follower is not None:
            completed = partition.follower_fetched(follower, offset, request.log_start_offset, self._monotonic())
            if completed is not None:
                changes.append(completed)
            if follower.broker_id not in partition.isr.maximal:
                self._isr.consider(partition, follower)
            upper = end
        else:
            upper = replica_log.last_stable_offset if params.isolation else replica_log.high_watermark
            if params.rack and self._selector is not None and partition.role is _LEADER:
                preferred = self._selector.select(partition, params.rack, offset)
                if preferred >= 0:
                    result = _result(partition, replica_log)
                    result.preferred_read_replica = preferred
                    return result
        result = _result(partition, replica_log)
        if offset < upper and (limit or need_one):
            if follower is not None and self._quota.limited and self._must_wait(partition, follower):
                result.throttled = True
                return result
            info = replica_log.read(offset, min(request.max_bytes, limit), upper, need_one)
            result.records, result.size = info.records, info.size
            result.to_added = follower is not None and follower.is_added
            if info.size and self._traces.armed:
                self._traces.read(result, offset, replica_log.end_of_read(info, upper))
            if params.isolation and follower is None and info.size:
                end = replica_log.end_of_read(info, upper)
                result.aborted = [txn[:2] for txn in replica_log.aborted_transactions(offset, end)]
        return result

    def _follower(self, partition: Partition, params: FetchParams) -> FollowerState:
        follower = partition.followers.get(params.replica_id)
        if follower is None:
            # Not in the assignment that this broker knows: a newer one is on its way to it, or to the follower.
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if params.replica_epoch != follower.broker_epoch:
            if params.replica_epoch < follower.broker_epoch:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a fetch of the broker's earlier life")
            follower.broker_epoch = params.replica_epoch
        return follower

    def _refused(self, partition: Partition, error: ApiError) -> FetchResult:
        result = FetchResult(partition.topic_partition, error.code)
        if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            result.leader_hint = (partition.state.leader, partition.leader_epoch)
        elif error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            result.high_watermark = partition.log.high_watermark
            result.log_start_offset = partition.log.log_start_offset
        return result

    # The leader's quota

    def _must_wait(self, partition: Partition, follower: FollowerState) -> bool:
        """Whether the quota holds records of ``partition`` back from ``follower``.

        Never if the high watermark waits for that follower, because producers would wait for the quota, too.
        """
        return (
            follower not in partition.high_watermark_followers
            and self._is_throttled(partition)
            and self._quota.is_exceeded()
        )

    def _is_throttled(self, partition: Partition) -> bool:
        listed = partition.log.config.leader_replication_throttled_replicas
        return is_throttled(listed, partition.topic_partition.partition, self._replicas.broker_id)

    def sent(self, params: FetchParams, results: list[FetchResult]) -> None:
        """Count the bytes of throttled partitions that ``results``, the answer to a fetch, sends to a follower."""
        if params.replica_id < 0 or not self._quota.limited:
            return
        for result in results:
            if result.size:
                partition = self._partitions.get(result.topic_partition)
                if partition is not None and self._is_throttled(partition):
                    self._quota.record(result.size)

    # Waiting

    def wait(
        self,
        params: FetchParams,
        requests: list[FetchPartition],
        results: list[FetchResult],
        on_done: Callable[[list[FetchResult]], object],
    ) -> DelayedFetch:
        """A fetch that waits for news; without a session it gets a watch of its own for as long as it waits."""
        watch = params.watch
        if watch is None:
            watch = FetchWatch(
                {result.topic_partition: request for result, request in zip(results, requests, strict=True)},
                params.replica_id >= 0,
            )
            for tp in watch.partitions:
                self._replicas.watch(watch, tp)

        def answer(found: list[FetchResult]) -> None:
            if params.watch is None:
                self._replicas.unwatch_all(watch)
            if self._quota.limited:
                self.sent(params, found)
            on_done(found)

        stats = self._replicas.topic_stats.delayed_fetches
        operation = DelayedFetch(params, results, watch, self._refresh, self._quota, stats, answer)
        if watch.waiting is not None:
            # A session has one outstanding request: a client that sends a second one no longer waits for the first.
            watch.waiting.complete()
        watch.waiting = operation
        return operation

    def _refresh(self, operation: DelayedFetch) -> bool:
        """Read again the partitions that have news; returns whether to answer at once."""
        watch = operation.watch
        if not watch.dirty:
            return False
        requests: list[FetchPartition] = []
        for tp in watch.dirty:
            request = watch.partitions.get(tp)
            if request is not None:
                requests.append(request)
        if operation.owns_watch:
            watch.dirty.clear()
        results: list[FetchResult] = []
        changes: list[Completed] = []
        found, urgent = self.look(operation.params, requests, results, changes)
        for result in results:
            position = operation.index.get(result.topic_partition)
            if position is None:
                operation.index[result.topic_partition] = len(operation.results)
                operation.results.append(result)
            else:
                operation.size -= operation.results[position].size
                operation.results[position] = result
        operation.size += found
        if changes:
            complete(changes)
        return urgent


def _result(partition: Partition, replica_log: Log) -> FetchResult:
    """A result without records: where the log begins, and where it is readable to."""
    return FetchResult(
        partition.topic_partition,
        ErrorCode.NONE,
        replica_log.high_watermark,
        replica_log.last_stable_offset,
        replica_log.log_start_offset,
    )


def _diverging_epoch(replica_log: Log, request: FetchPartition, end: int) -> tuple[int, int] | None:
    """Where the fetcher's log and this one diverge (KIP-595), ``None`` if they agree up to the fetch offset."""
    last = request.last_fetched_epoch
    if last == replica_log.latest_epoch:
        return None if request.fetch_offset <= end else (last, end)
    epoch, end_offset = replica_log.end_offset_for_epoch(last)
    if epoch < 0 or end_offset < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < last or end_offset < request.fetch_offset:
        return epoch, end_offset
    return None
