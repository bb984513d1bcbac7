"""The way of one record through a cluster, from the trace points of its brokers, in milliseconds of one clock.

Answers to: nothing in Kafka. Pure.

Each broker's clock differs from the client's by an amount that is known as a range only. Exchanges with the broker
bound it, and so does the record: nothing is received before it is sent. The middle of the range places the points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafkalite.common.trace_points import TracePoint, TracePointKind

CLIENT: Final = -1
"""Stands for the client where a broker's number is expected."""


@dataclass(frozen=True, slots=True)
class ClockRange:
    """By how many seconds a broker's clock is ahead of the client's: at least ``low``, at most ``high``."""

    low: float
    high: float

    @classmethod
    def of_exchanges(cls, exchanges: Iterable[tuple[float, float, float]]) -> ClockRange:
        """From ``(sent, broker's time, received)``: the broker looked at its clock between sending and receiving."""
        found = list(exchanges)
        return cls(max(now - received for _, now, received in found), min(now - sent for sent, now, _ in found))

    def narrowed(self, low: float | None, high: float | None) -> ClockRange:
        """With two more bounds. These win over the former range if both exclude each other."""
        lowest = self.low if low is None else max(low, self.low)
        highest = self.high if high is None else min(high, self.high)
        if lowest <= highest:
            return ClockRange(lowest, highest)
        certain = low if low is not None and self.high < low else high
        assert certain is not None
        return ClockRange(certain, certain)

    @property
    def ahead(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2

    @property
    def uncertainty(self) -> float:
        """How far the truth may be from the middle."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True)
class RecordStep:
    """One step: ``ms`` after the client sent the record, on ``broker`` (:data:`CLIENT`: at the client)."""

    ms: float
    broker: int
    kind: str
    text: str
    follower: int = -1


@dataclass(frozen=True, slots=True)
class RecordLeg:
    """A part of the way from the client's send to its answer. ``broker`` is where the time went."""

    ms: float
    broker: int
    text: str


@dataclass(frozen=True, slots=True)
class RecordStory:
    """All steps by time, and the legs that the answer waited for, which follow each other and sum up to ``total_ms``.

    ``uncertainty_ms``: broker → by how much its steps may have been earlier or later: the leader's against the
    client's, a follower's against the leader's.
    """

    steps: tuple[RecordStep, ...]
    legs: tuple[RecordLeg, ...]
    total_ms: float
    uncertainty_ms: Mapping[int, float]

    @property
    def longest(self) -> RecordLeg:
        """The leg that took longest."""
        return max(self.legs, key=lambda leg: leg.ms)


class _Points:
    """The points that tell of one record: the first of each kind, broker and reader."""

    def __init__(self, offset: int, points: Iterable[TracePoint]) -> None:
        self._found: dict[tuple[str, int, int], TracePoint] = {}
        for point in points:
            key = (point.kind, point.broker, point.reader)
            if point.first <= offset < point.end and (key not in self._found or point.time < self._found[key].time):
                self._found[key] = point

    def all(self) -> Iterable[TracePoint]:
        return self._found.values()

    def time(self, kind: TracePointKind, broker: int, reader: int = -1) -> float | None:
        point = self._found.get((kind.value, broker, reader))
        return None if point is None else point.time


def tell(
    offset: int,
    sent: float,
    answered: float,
    leader: int,
    points: Sequence[TracePoint],
    clocks: Mapping[int, ClockRange],
) -> RecordStory:
    """The story of the record at ``offset``, that the client sent and saw answered at these seconds of its clock.

    Raises ``ValueError`` if the leader tells nothing of it.
    """
    of_record = _Points(offset, points)
    received = of_record.time(TracePointKind.RECEIVED, leader)
    appended = of_record.time(TracePointKind.APPENDED, leader)
    responded = of_record.time(TracePointKind.ANSWERED, leader)
    if received is None or appended is None or responded is None:
        raise ValueError(f"broker {leader} has no trace of the record at offset {offset}")
    ranges = {leader: clocks[leader].narrowed(responded - answered, received - sent)}
    ahead = ranges[leader].ahead
    for broker, clock in clocks.items():
        if broker == leader:
            continue
        bounds: list[float | None] = []
        pairs = (
            (TracePointKind.ASKED, TracePointKind.ACKNOWLEDGED),
            (TracePointKind.ARRIVED, TracePointKind.SENT),
        )
        for there, here in pairs:
            theirs, ours = of_record.time(there, broker), of_record.time(here, leader, broker)
            bounds.append(None if theirs is None or ours is None else theirs - ours + ahead)
        ranges[broker] = clock.narrowed(*bounds)
    order = {kind.value: place for place, kind in enumerate(TracePointKind)}

    def ms(point: TracePoint) -> float:
        return (point.time - ranges[point.broker].ahead - sent) * 1000

    placed = sorted(
        ((ms(point), order[point.kind], point) for point in of_record.all() if point.broker in ranges),
        key=lambda each: each[:2],
    )
    steps = [RecordStep(0.0, CLIENT, "sent", "sent the record")]
    steps += [_step(when, point, leader) for when, _, point in placed]
    total = (answered - sent) * 1000
    steps.append(RecordStep(total, CLIENT, "answered", "has the answer"))
    steps.sort(key=lambda step: step.ms)
    uncertainty = {broker: clock.uncertainty * 1000 for broker, clock in ranges.items()}
    return RecordStory(tuple(steps), tuple(_legs(of_record, sent, answered, leader, ahead)), total, uncertainty)


def _step(when: float, point: TracePoint, leader: int) -> RecordStep:
    consumer = f"consumer {point.client}" if point.client else "a consumer"
    reader = f"broker {point.reader}" if point.reader >= 0 else consumer
    texts = {
        TracePointKind.RECEIVED: "received the request",
        TracePointKind.APPENDED: "appended the record",
        TracePointKind.SENT: f"answered the fetch of {reader} with the record",
        TracePointKind.ARRIVED: "received the record",
        TracePointKind.REPLICATED: "appended the record",
        TracePointKind.ASKED: f"sends its next fetch, which tells broker {leader} that it has the record",
        TracePointKind.ACKNOWLEDGED: f"received the next fetch of broker {point.reader}",
        TracePointKind.HIGH_WATERMARK: "raised the high watermark over the record",
        TracePointKind.ANSWERED: "answered the produce request",
    }
    kind = TracePointKind(point.kind)
    follower = point.reader
    if kind in (TracePointKind.ARRIVED, TracePointKind.REPLICATED, TracePointKind.ASKED):
        follower = point.broker
    if kind is TracePointKind.SENT and point.reader < 0:
        return RecordStep(when, point.broker, "consumed", texts[kind])
    return RecordStep(when, point.broker, kind.value, texts[kind], follower)


def _legs(of_record: _Points, sent: float, answered: float, leader: int, ahead: float) -> Iterable[RecordLeg]:
    """The legs by the leader's clock; a follower's is from the leader's answer to the leader's receipt."""

    def at(kind: TracePointKind, reader: int = -1) -> float | None:
        return of_record.time(kind, leader, reader)

    marks: list[tuple[float | None, int, str]] = [
        (at(TracePointKind.RECEIVED), CLIENT, f"from the client to broker {leader}"),
        (at(TracePointKind.APPENDED), leader, f"the append of broker {leader}"),
    ]
    advanced, responded = at(TracePointKind.HIGH_WATERMARK), at(TracePointKind.ANSWERED)
    if advanced is not None and responded is not None and advanced <= responded:
        fetches = [
            point
            for point in of_record.all()
            if point.kind == TracePointKind.ACKNOWLEDGED and point.broker == leader and point.time <= advanced
        ]
        last = max(fetches, key=lambda point: point.time, default=None)
        if last is not None:
            follower = last.reader
            marks += [
                (at(TracePointKind.SENT, follower), leader, f"until broker {leader} sent it to broker {follower}"),
                (last.time, follower, f"from broker {leader} to broker {follower} and its next fetch back"),
            ]
        marks.append((advanced, leader, f"until broker {leader} raised the high watermark"))
    marks.append((responded, leader, f"until broker {leader} answered"))
    former = sent
    for time, broker, text in marks:
        if time is not None:
            yield RecordLeg((time - ahead - former) * 1000, broker, text)
            former = time - ahead
    yield RecordLeg((answered - former) * 1000, CLIENT, f"from broker {leader} to the client")
