"""Trace points: what a broker saw of the records of one partition while it was traced.

Answers to: nothing in Kafka. Pure.

Times are seconds of the broker's monotonic clock, because adjustments of the wall clock must not move them. The client
that asks measures by how much each clock differs from its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum

import msgpack


class TracePointKind(StrEnum):
    """What a broker did with records, in the order in which a record meets it."""

    RECEIVED = "received"
    """The leader received the produce request."""
    APPENDED = "appended"
    """The leader appended."""
    SENT = "sent"
    """The leader answered a fetch with the records; on a replica that consumers read from, that replica."""
    ARRIVED = "arrived"
    """A follower received the records."""
    REPLICATED = "replicated"
    """A follower appended."""
    ASKED = "asked"
    """A follower sent a fetch for what follows, which tells the leader that it has the records."""
    ACKNOWLEDGED = "acknowledged"
    """The leader received that fetch."""
    HIGH_WATERMARK = "high-watermark"
    """The leader's high watermark passed the records."""
    ANSWERED = "answered"
    """The leader answered the produce request."""


@dataclass(frozen=True, slots=True)
class TracePoint:
    """``kind`` happened at ``time`` on ``broker`` to the records from offset ``first`` up to, without, ``end``.

    ``reader`` is the follower that fetched, -1 for a consumer, whose client id is ``client``.
    """

    broker: int
    kind: str
    time: float
    first: int
    end: int
    reader: int = -1
    client: str = ""


@dataclass(frozen=True, slots=True)
class TraceFrames:
    """What ``broker`` answered at ``now`` of its clock. ``started_ms`` tells two lives of a broker apart."""

    broker: int
    started_ms: int
    now: float
    points: tuple[TracePoint, ...] = ()

    def encode(self) -> bytes:
        """The answer as msgpack frames: a head, then the points."""
        pack = msgpack.Packer().pack
        head = {"broker": self.broker, "started_ms": self.started_ms, "now": self.now}
        return b"".join([pack(head), *(pack(asdict(point)) for point in self.points)])


def decode_trace(data: bytes) -> TraceFrames:
    """The inverse of :meth:`TraceFrames.encode`. Fields that this version does not know are left out.

    Raises ``ValueError``.
    """
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    try:
        head, *rest = unpacker
        return TraceFrames(head["broker"], head["started_ms"], head["now"], tuple(_points(rest)))
    except (AttributeError, KeyError, TypeError, ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"not the trace of a broker: {error!r}") from None


def _points(frames: Iterable[Mapping[str, str | int | float]]) -> Iterable[TracePoint]:
    known = {each.name for each in fields(TracePoint)}
    for frame in frames:
        yield TracePoint(**{name: value for name, value in frame.items() if name in known})  # type: ignore[arg-type]
