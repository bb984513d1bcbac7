"""Events: what a broker decided or noticed, with who, which partition, which epoch and why, in bounded memory.

Answers to: nothing in Kafka, whose brokers tell this in ``controller.log``, ``state-change.log`` and ``server.log``.
Deterministic: the only clock is the one that is handed in.

The part of the broker that decides calls ``record`` where it decides, with what it knows there anyway. An event with
a ``zxid`` *is* that write to ZooKeeper; one with a ``cause`` followed the write of that zxid. An event that names an
epoch without being the write that began it came after that write. This orders the events of different brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final, Protocol, TypedDict, Unpack

import msgpack

KEPT: Final = 2_000
"""Events of each kind that a broker keeps, so that many of one kind take no room from the others."""


class EventKind(StrEnum):
    """What an event is about."""

    SESSION = "session"
    REGISTRATION = "registration"
    CONTROLLER = "controller"
    LEADERSHIP = "leadership"
    PRODUCE = "produce"
    ISR = "isr"
    HIGH_WATERMARK = "high-watermark"
    TRUNCATION = "truncation"
    REBALANCE = "rebalance"
    OFFSET_EDIT = "offset-edit"
    TRANSACTION = "transaction"
    LOG_DIRECTORY = "log-directory"
    CONFIGURATION = "configuration"
    AUTHENTICATION = "authentication"


class EventFacts(TypedDict, total=False):
    """What is known of an event beside its text; every fact is optional."""

    topic: str
    partition: int
    group: str
    transactional_id: str
    controller_epoch: int
    leader_epoch: int
    zxid: int
    cause: int
    why: str


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """One event. ``broker`` recorded it, at ``time_ms`` by its own clock; ``sequence`` numbers its events from 1.

    ``zxid`` is that of the write that the event is, ``cause`` that of the write which it followed; -1 if unknown, as
    the epochs and the partition.
    """

    broker: int
    sequence: int
    time_ms: int
    kind: str
    text: str
    topic: str = ""
    partition: int = -1
    group: str = ""
    transactional_id: str = ""
    controller_epoch: int = -1
    leader_epoch: int = -1
    zxid: int = -1
    cause: int = -1
    why: str = ""

    def facts(self) -> dict[str, str | int]:
        """The fields that are known, by name."""
        unknown: tuple[object, ...] = ("", -1)
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value not in unknown}


class EventRecorder(Protocol):
    """Records an event: its kind, a sentence, and what is known of it."""

    def __call__(self, kind: EventKind, text: str, /, **facts: Unpack[EventFacts]) -> None: ...


def ignore_event(kind: EventKind, text: str, /, **facts: Unpack[EventFacts]) -> None:
    """Record nothing: for parts that run without a broker."""


@dataclass(frozen=True, slots=True)
class EventFrames:
    """What one broker answered at ``now_ms`` of its clock."""

    broker: int
    started_ms: int
    now_ms: int
    events: tuple[BrokerEvent, ...]

    def encode(self, after: int) -> bytes:
        """The answer to a client that knows the events up to number ``after``: those behind it, in their order."""
        head = {"broker": self.broker, "started_ms": self.started_ms, "now_ms": self.now_ms}
        unknown = sorted((event for event in self.events if event.sequence > after), key=lambda event: event.sequence)
        pack = msgpack.Packer().pack
        return b"".join([pack(head), *(pack(event.facts()) for event in unknown)])


class EventLog:
    """The last events of one broker, :data:`KEPT` of each kind. ``started_ms`` tells two lives of a broker apart."""

    def __init__(self, broker: int, time_ms: Callable[[], int], kept: int = KEPT) -> None:
        self.broker = broker
        self.started_ms = time_ms()
        self._time_ms = time_ms
        self._kept = kept
        self._sequence = 0
        self._rings: dict[EventKind, deque[BrokerEvent]] = {}

    def record(self, kind: EventKind, text: str, /, **facts: Unpack[EventFacts]) -> None:
        """Keep an event; the oldest of its kind goes if there are too many."""
        ring = self._rings.get(kind)
        if ring is None:
            ring = self._rings[kind] = deque(maxlen=self._kept)
        self._sequence += 1
        ring.append(BrokerEvent(self.broker, self._sequence, self._time_ms(), kind.value, text, **facts))

    def snapshot(self) -> EventFrames:
        """All kept events, in no order: cheap, so that it may be called where the broker works."""
        kept = tuple(event for ring in self._rings.values() for event in ring)
        return EventFrames(self.broker, self.started_ms, self._time_ms(), kept)


def decode_frames(data: bytes) -> EventFrames:
    """The inverse of :meth:`EventFrames.encode`. Facts that this version does not know are left out.

    Raises ``ValueError``.
    """
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    try:
        head, *rest = unpacker
        return EventFrames(head["broker"], head["started_ms"], head["now_ms"], tuple(_events(rest)))
    except (KeyError, TypeError, ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"not the events of a broker: {error!r}") from None


def _events(frames: Iterable[Mapping[str, str | int]]) -> Iterable[BrokerEvent]:
    known = {each.name for each in fields(BrokerEvent)}
    for frame in frames:
        yield BrokerEvent(**{name: value for name, value in frame.items() if name in known})  # type: ignore[arg-type]
