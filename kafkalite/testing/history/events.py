"""The events of a history: what clients, leaders and replicas did and saw, in the order in which it became known.

Answers to: nothing in Kafka; the operations of a Jepsen history. Pure.

An event that announces (:class:`Sent`, :class:`Committing`, :class:`OffsetCommitting`, :class:`OffsetFetching`) stands
before what it announces can have any effect; one that reports stands after it. That is all that is asked of the order,
so one list to which many threads append is a history, and so is what a simulator notes.

Partitions are called by name (``orders-3``), producers, readers and onlookers by any name that is theirs alone. A
producer that is made anew, with new sequence numbers, has a new name.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class ProducerKind(Enum):
    """What a producer was promised."""

    PLAIN = "plain"
    """Everything acknowledged is there, perhaps more than once; in order, if the producer waits for each answer."""
    IDEMPOTENT = "idempotent"
    """Once, too."""
    TRANSACTIONAL = "transactional"
    """Once, and for ``read_committed`` all of a transaction or nothing."""


class Isolation(Enum):
    """What a reader asked to see."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class RecordId(NamedTuple):
    """A record: the ``number``-th of a producer, over all partitions."""

    producer: str
    number: int

    def __str__(self) -> str:
        return f"{self.producer}#{self.number}"


# ---- producers


class Started(NamedTuple):
    """A producer begins. ``ordered``: it keeps order by itself, where no sequence numbers do."""

    producer: str
    kind: ProducerKind
    ordered: bool = True


class Initialized(NamedTuple):
    """A transactional producer was given an epoch: others of its transactional id with lesser epochs are fenced."""

    producer: str
    transactional_id: str
    producer_id: int
    epoch: int


class Begun(NamedTuple):
    """A transaction begins: the ``transaction``-th of its producer."""

    producer: str
    transaction: int


class Sent(NamedTuple):
    """A record is about to be sent; numbers ascend. ``transaction`` is -1 outside of one.

    ``key`` matters where the partition is :class:`Compacted`; ``tombstone``: the record deletes the key.
    """

    record: RecordId
    partition: str
    transaction: int = -1
    key: str | None = None
    tombstone: bool = False


class Acked(NamedTuple):
    """It was acknowledged at ``offset``. ``broker`` and ``leader_epoch``: who did so, and as what; -1 if not known.

    Nor is the offset always known: librdkafka counts a record of which it heard nothing as acknowledged once a later
    one of the same idempotent producer is, for the broker took that only as the next in the sequence.
    """

    record: RecordId
    partition: str
    offset: int
    broker: int = -1
    leader_epoch: int = -1


class Failed(NamedTuple):
    """It was refused, and so can never be anywhere."""

    record: RecordId
    error: str = ""


class Unknown(NamedTuple):
    """Nobody knows what became of it. The same is true of a record of which nothing more is said."""

    record: RecordId
    error: str = ""


class Committing(NamedTuple):
    """The producer is about to ask for its transaction to be committed."""

    producer: str
    transaction: int


class Committed(NamedTuple):
    """It was told that the transaction is committed. Without it, after :class:`Committing`, it may be."""

    producer: str
    transaction: int


class Aborted(NamedTuple):
    """It was told that the transaction is aborted. One that nobody asked to commit counts as aborted, too."""

    producer: str
    transaction: int


# ---- readers


class Positioned(NamedTuple):
    """A reader will read ``partition`` from ``offset`` on, wherever it was before."""

    reader: str
    partition: str
    offset: int


class Read(NamedTuple):
    """A reader was given a record. ``record`` is ``None`` where the value is nobody's."""

    reader: str
    isolation: Isolation
    partition: str
    offset: int
    record: RecordId | None


class Reached(NamedTuple):
    """A reader was told that there is nothing more for it below ``offset``."""

    reader: str
    isolation: Isolation
    partition: str
    offset: int


# ---- groups


class Owned(NamedTuple):
    """A member of ``group`` was told by the coordinator that these partitions are its own in ``generation``.

    ``owner`` is the client; of a static member the name that its restarts share. ``partitions`` may be none.
    """

    group: str
    generation: int
    owner: str
    partitions: tuple[str, ...]
    broker: str = ""
    """Who told it."""


class Heartbeating(NamedTuple):
    """A member is about to say to its coordinator that it lives; ``member`` is the id that it was given."""

    group: str
    generation: int
    owner: str
    member: str


class Heartbeat(NamedTuple):
    """``broker`` answered that the member is one, and its generation the present one."""

    group: str
    generation: int
    owner: str
    member: str
    broker: str


class OffsetCommitting(NamedTuple):
    """A member of ``group`` is about to commit ``offset``; it read on from what was committed before.

    ``generation`` is the one that it commits as a member of; -1: it commits as no member, or in a transaction.
    """

    group: str
    partition: str
    offset: int
    generation: int = -1


class OffsetCommitted(NamedTuple):
    """It was told that this is done. Without it, the offset may be committed, or not."""

    group: str
    partition: str
    offset: int
    generation: int = -1


class OffsetStaged(NamedTuple):
    """A producer was told that its open transaction has an offset of ``partition``, to be the group's at its end."""

    group: str
    partition: str
    transactional_id: str


class OffsetUnknown(NamedTuple):
    """The connection was lost on which it was asked: the request may still arrive, after later ones."""

    group: str
    partition: str
    offset: int


class Derived(NamedTuple):
    """``record`` is what a pipeline of ``group`` made of what it read at ``offset`` of ``partition``."""

    record: RecordId
    group: str
    partition: str
    offset: int


class OffsetFetching(NamedTuple):
    """``onlooker`` is about to ask what ``group`` has committed."""

    onlooker: str
    group: str


class OffsetFetched(NamedTuple):
    """The answer to its last question, of one partition; -1: nothing is committed."""

    onlooker: str
    group: str
    partition: str
    offset: int
    broker: str = ""
    """Who said it."""


# ---- what may go

ENDLESS = 1 << 62
"""Offset below which everything of a deleted topic lies."""


class Compacted(NamedTuple):
    """The topic is compacted: of each key at least the last record stays, a tombstone for a while only."""

    topic: str


class GroupRemoved(NamedTuple):
    """A group without members and offsets is gone; one of its name that comes later begins with generation 1."""

    group: str


class Deleting(NamedTuple):
    """A client is about to have the records below ``offset`` deleted; :data:`ENDLESS`: the topic with them."""

    partition: str
    offset: int


# ---- leaders and replicas


class Led(NamedTuple):
    """Somebody saw that ``broker`` leads in ``leader_epoch``: in ZooKeeper, or by an answer given as the leader."""

    partition: str
    broker: int
    leader_epoch: int


class LogEntry(NamedTuple):
    """What a replica holds at ``offset``: a record, or (``None``) the marker that ends a transaction."""

    offset: int
    leader_epoch: int
    record: RecordId | None
    crc: int = 0
    """Of the batch that it stands in, so that replicas are compared byte for byte."""


class Replica(NamedTuple):
    """All that ``broker`` holds of ``partition`` at the end, when everything is healed and nothing more is sent."""

    partition: str
    broker: int
    entries: tuple[LogEntry, ...]


Event = (
    Started
    | Initialized
    | Begun
    | Sent
    | Acked
    | Failed
    | Unknown
    | Committing
    | Committed
    | Aborted
    | Positioned
    | Read
    | Reached
    | Owned
    | Heartbeating
    | Heartbeat
    | OffsetCommitting
    | OffsetCommitted
    | OffsetStaged
    | OffsetUnknown
    | Derived
    | OffsetFetching
    | OffsetFetched
    | Compacted
    | GroupRemoved
    | Deleting
    | Led
    | Replica
)
