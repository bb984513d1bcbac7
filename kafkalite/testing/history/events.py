"""The events of a history: actions and observations of clients, leaders and replicas, in the order of recording.

Answers to: nothing in Kafka; the operations of a Jepsen history. Pure.

An event that announces a request (:class:`Sent`, :class:`Committing`, :class:`OffsetCommitting`,
:class:`OffsetFetching`) is recorded before the request can have any effect; an event that reports a result is recorded
after the answer. No other order is needed, so a list to which many threads append is a history.

Partitions are named as ``orders-3``; producers, readers and onlookers have any unique names. A producer that is
created again, with new sequence numbers, has a new name.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class ProducerKind(Enum):
    """The guarantee that a producer has."""

    PLAIN = "plain"
    """Every acknowledged record is stored, perhaps more than once; in order, if the producer awaits each answer."""
    IDEMPOTENT = "idempotent"
    """In addition, every record is stored once."""
    TRANSACTIONAL = "transactional"
    """In addition, ``read_committed`` readers see all of a transaction or nothing."""


class Isolation(Enum):
    """The isolation level of a reader."""

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
    """A producer starts. ``ordered``: it keeps the order of its records even without sequence numbers."""

    producer: str
    kind: ProducerKind
    ordered: bool = True


class Initialized(NamedTuple):
    """A transactional producer got an epoch: producers of its transactional id with lower epochs are fenced."""

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

    ``key`` matters if the partition is :class:`Compacted`; ``tombstone``: the record deletes the key.
    """

    record: RecordId
    partition: str
    transaction: int = -1
    key: str | None = None
    tombstone: bool = False


class Acked(NamedTuple):
    """The record was acknowledged at ``offset``, by leader ``broker`` in ``leader_epoch``; -1: not known.

    The offset may be unknown, too: librdkafka counts a record without an answer as acknowledged once a later one of the
    same idempotent producer is, because the broker accepts that one only as the next in the sequence.
    """

    record: RecordId
    partition: str
    offset: int
    broker: int = -1
    leader_epoch: int = -1


class Failed(NamedTuple):
    """The record was refused, and so may not be stored anywhere."""

    record: RecordId
    error: str = ""


class Unknown(NamedTuple):
    """The outcome is unknown, as it is of a record without a later event."""

    record: RecordId
    error: str = ""


class Committing(NamedTuple):
    """The producer is about to request the commit of its transaction."""

    producer: str
    transaction: int


class Committed(NamedTuple):
    """The producer got the acknowledgement of its commit. After :class:`Committing` alone the outcome is unknown."""

    producer: str
    transaction: int


class Aborted(NamedTuple):
    """The producer got the acknowledgement of its abort. A transaction without :class:`Committing` is aborted, too."""

    producer: str
    transaction: int


# ---- readers


class Positioned(NamedTuple):
    """A reader will read ``partition`` from ``offset`` on, regardless of its position before."""

    reader: str
    partition: str
    offset: int


class Read(NamedTuple):
    """A reader got a record. ``record`` is ``None`` if no producer of the history has such a value."""

    reader: str
    isolation: Isolation
    partition: str
    offset: int
    record: RecordId | None


class Reached(NamedTuple):
    """A reader has learnt that there are no more records for it below ``offset``."""

    reader: str
    isolation: Isolation
    partition: str
    offset: int


# ---- groups


class Owned(NamedTuple):
    """The coordinator assigned these partitions to a member of ``group`` in ``generation``.

    ``owner`` is the client; for a static member the name that its restarts share. ``partitions`` may be empty.
    """

    group: str
    generation: int
    owner: str
    partitions: tuple[str, ...]
    broker: str = ""
    """The coordinator."""


class Syncing(NamedTuple):
    """A member of ``group`` is about to request its assignment. ``owner`` as in :class:`Owned`."""

    group: str
    owner: str


class Heartbeating(NamedTuple):
    """A member is about to send a heartbeat; ``member`` is its member id."""

    group: str
    generation: int
    owner: str
    member: str


class Heartbeat(NamedTuple):
    """``broker`` answered that the member belongs to the current generation."""

    group: str
    generation: int
    owner: str
    member: str
    broker: str


class OffsetCommitting(NamedTuple):
    """A member of ``group`` is about to commit ``offset``, after reading from the committed offset before it.

    ``generation`` is the member's; -1: it commits without a membership, or in a transaction.
    """

    group: str
    partition: str
    offset: int
    generation: int = -1


class OffsetCommitted(NamedTuple):
    """The member got the acknowledgement of the commit. Without this event the outcome is unknown."""

    group: str
    partition: str
    offset: int
    generation: int = -1


class OffsetStaged(NamedTuple):
    """A producer got the acknowledgement of a staged offset, which becomes the group's when the transaction commits."""

    group: str
    partition: str
    transactional_id: str


class OffsetUnknown(NamedTuple):
    """The connection of the request was lost: the request may still arrive, after later ones."""

    group: str
    partition: str
    offset: int


class Derived(NamedTuple):
    """A pipeline of ``group`` has produced ``record`` from the record at ``offset`` of ``partition``."""

    record: RecordId
    group: str
    partition: str
    offset: int


class OffsetFetching(NamedTuple):
    """``onlooker`` is about to request the committed offsets of ``group``."""

    onlooker: str
    group: str


class OffsetFetched(NamedTuple):
    """The answer to the onlooker's last request, for one partition; -1: no offset is committed."""

    onlooker: str
    group: str
    partition: str
    offset: int
    broker: str = ""
    """The broker that answered."""


# ---- deletions

ENDLESS = 1 << 62
"""An offset above all offsets of a deleted topic."""


class Compacted(NamedTuple):
    """The topic is compacted: at least the last record of each key stays, a tombstone only for a while."""

    topic: str


class GroupRemoved(NamedTuple):
    """A group without members and offsets was removed; a later group of that name begins with generation 1."""

    group: str


class Deleting(NamedTuple):
    """A client is about to delete the records below ``offset``; :data:`ENDLESS`: the topic with them."""

    partition: str
    offset: int


# ---- leaders and replicas


class Led(NamedTuple):
    """``broker`` leads in ``leader_epoch``, by its state in ZooKeeper, or by its answer as the leader."""

    partition: str
    broker: int
    leader_epoch: int


class LogEntry(NamedTuple):
    """The content of a replica at ``offset``: a record, or (``None``) the marker that ends a transaction."""

    offset: int
    leader_epoch: int
    record: RecordId | None
    crc: int = 0
    """CRC of the entry's batch, by which replicas are compared byte for byte."""


class Replica(NamedTuple):
    """The whole log of ``partition`` on ``broker`` at the end, after all faults are healed and all sends are over.

    ``start`` is its log start offset; ``entries`` may also have what is below it and not removed yet.
    """

    partition: str
    broker: int
    entries: tuple[LogEntry, ...]
    start: int = 0


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
    | Syncing
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
