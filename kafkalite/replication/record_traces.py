"""The partitions whose records are traced on this broker, and what was seen of them.

Answers to: nothing in Kafka. Deterministic.

The request paths ask only whether ``armed`` is empty, so that a broker that traces nothing does nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.trace_points import TraceFrames, TracePoint, TracePointKind
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.fetch import FetchPartition
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.results import FetchResult, ProduceResult

MOST_ARMED: Final = 16
"""Partitions that are traced at a time; with one more the oldest trace ends."""
KEPT: Final = 10_000
"""Points that are kept of each partition."""
LONGEST: Final = 600.0
"""Seconds after which a trace ends, unless it is armed again."""


class _Trace:
    """The points of one partition."""

    __slots__ = ("expiry", "high_watermark", "points")

    def __init__(self, expiry: Timer, high_watermark: int) -> None:
        self.expiry = expiry
        self.high_watermark = high_watermark
        self.points: deque[TracePoint] = deque(maxlen=KEPT)


class RecordTraces:
    """Arms traces, and keeps what the request paths report while ``armed`` is not empty."""

    def __init__(self, broker: int, partitions: Mapping[TopicPartition, Partition], clock: Clock) -> None:
        self._broker = broker
        self._partitions = partitions
        self._clock = clock
        self._started_ms = clock.time_ms()
        self.armed: dict[TopicPartition, _Trace] = {}
        # What was read for a fetch that is not answered yet: id of the result → the result, and its offsets.
        self._read: dict[int, tuple[FetchResult, int, int]] = {}

    # Asked for by a client

    def arm(self, tp: TopicPartition, seconds: float) -> None:
        """Trace the records of ``tp`` for ``seconds``, at most :data:`LONGEST`, from now on."""
        trace = self.armed.pop(tp, None)
        if trace is not None:
            trace.expiry.cancel()
        while len(self.armed) >= MOST_ARMED:
            oldest = next(iter(self.armed))
            self.armed[oldest].expiry.cancel()
            self._disarm(oldest)
        expiry = self._clock.call_later(min(seconds, LONGEST), self._disarm, tp)
        partition = self._partitions.get(tp)
        if trace is None:
            trace = _Trace(expiry, -1 if partition is None else partition.log.high_watermark)
        trace.expiry = expiry
        self.armed[tp] = trace

    def _disarm(self, tp: TopicPartition) -> None:
        del self.armed[tp]
        if not self.armed:
            self._read.clear()

    def frames(self, tp: TopicPartition | None = None) -> TraceFrames:
        """The kept points of ``tp``. Without one, the time of the clock only: that may be asked in any thread."""
        now = self._clock.monotonic()
        trace = None if tp is None else self.armed.get(tp)
        return TraceFrames(self._broker, self._started_ms, now, () if trace is None else tuple(trace.points))

    # Reported by the leader's side

    def appended(self, partition: Partition, first: int, end: int) -> None:
        """The leader appended the records from ``first`` up to ``end``."""
        trace = self.armed.get(partition.topic_partition)
        if trace is not None:
            self._add(trace, TracePointKind.APPENDED, first, end)
            self._look(trace, partition)

    def follower_fetched(self, partition: Partition, follower: int, offset: int) -> None:
        """A fetch of ``follower`` came, which has everything below ``offset``."""
        trace = self.armed.get(partition.topic_partition)
        if trace is not None:
            self._add(trace, TracePointKind.ACKNOWLEDGED, 0, offset, follower)
            self._look(trace, partition)

    def read(self, result: FetchResult, first: int, end: int) -> None:
        """The records from ``first`` up to ``end`` were read for ``result``, which is not answered yet."""
        if result.topic_partition in self.armed:
            if len(self._read) >= KEPT:
                del self._read[next(iter(self._read))]
            self._read[id(result)] = result, first, end

    def fetch_answered(self, results: Iterable[FetchResult], reader: int, client: str) -> None:
        """A fetch of follower ``reader`` (-1: of the consumer ``client``) was answered with ``results``."""
        for result in results:
            found = self._read.pop(id(result), None)
            trace = self.armed.get(result.topic_partition)
            if found is not None and trace is not None:
                self._add(trace, TracePointKind.SENT, found[1], found[2], reader, client)

    def produce_answered(self, received: float, results: Sequence[ProduceResult]) -> None:
        """A produce request that came at the monotonic second ``received`` was answered with ``results``."""
        for result in results:
            trace = self.armed.get(result.topic_partition)
            if trace is None or result.error:
                continue
            partition = self._partitions.get(result.topic_partition)
            if partition is not None:
                # An ISR that shrinks moves the high watermark, too.
                self._look(trace, partition)
            first = result.base_offset
            end = next(
                (
                    point.end
                    for point in reversed(trace.points)
                    if point.kind == TracePointKind.APPENDED and point.first == first
                ),
                first,
            )
            self._add(trace, TracePointKind.RECEIVED, first, end, time=received)
            self._add(trace, TracePointKind.ANSWERED, first, end)

    # Reported by the follower's side

    def replicated(self, tp: TopicPartition, arrived: float, first: int, end: int) -> None:
        """This follower appended what had come at the monotonic second ``arrived``."""
        trace = self.armed.get(tp)
        if trace is not None:
            self._add(trace, TracePointKind.ARRIVED, first, end, time=arrived)
            self._add(trace, TracePointKind.REPLICATED, first, end)

    def asked(self, partitions: Iterable[FetchPartition]) -> None:
        """This follower sends a fetch for ``partitions``."""
        for each in partitions:
            trace = self.armed.get(TopicPartition(each.topic or "", each.partition))
            if trace is not None:
                self._add(trace, TracePointKind.ASKED, 0, each.fetch_offset)

    def _look(self, trace: _Trace, partition: Partition) -> None:
        high_watermark = partition.log.high_watermark
        if high_watermark > trace.high_watermark and partition.role is Role.LEADER:
            trace.high_watermark = high_watermark
            self._add(trace, TracePointKind.HIGH_WATERMARK, 0, high_watermark)

    def _add(
        self,
        trace: _Trace,
        kind: TracePointKind,
        first: int,
        end: int,
        reader: int = -1,
        client: str = "",
        time: float | None = None,
    ) -> None:
        when = self._clock.monotonic() if time is None else time
        trace.points.append(TracePoint(self._broker, kind.value, when, first, end, reader, client))
