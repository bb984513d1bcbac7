"""The records and transactions of producers, with their known outcomes.

Answers to: nothing in Kafka; the producers' part of the history checker. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import (
    Aborted,
    Acked,
    Begun,
    Committed,
    Committing,
    Failed,
    ProducerKind,
    RecordId,
    Sent,
    Started,
    Unknown,
)

NOWHERE = -1


class SendOutcome(Enum):
    """The outcome of a transaction as far as its producer knows it."""

    OPEN = auto()
    """The producer never requested a commit, so the transaction is not committed."""
    UNKNOWN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True)
class Transaction:
    """One transaction."""

    producer: str
    number: int
    outcome: SendOutcome = SendOutcome.OPEN
    records: list[RecordId] = field(default_factory=list)
    seen: bool = False
    """Whether a reader of committed records has seen one of its records."""

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.producer}"

    @property
    def visible(self) -> bool:
        """Whether readers of committed records must see it; with an unknown outcome only once a reader has seen it."""
        return self.outcome is SendOutcome.COMMITTED or (self.outcome is SendOutcome.UNKNOWN and self.seen)


@dataclass(slots=True)
class Sending:
    """A sent record."""

    partition: str
    transaction: Transaction | None
    key: str | None = None
    tombstone: bool = False
    acknowledged: bool = False
    offset: int = NOWHERE
    broker: int = -1
    leader_epoch: int = -1
    refused: bool = False
    doubtful: bool = False


class Producers:
    """All producers."""

    def __init__(self, breaches: Breaches) -> None:
        self.records: dict[RecordId, Sending] = {}
        self.transactions: dict[tuple[str, int], Transaction] = {}
        self._kinds: dict[str, ProducerKind] = {}
        self._unordered: set[str] = set()
        self._breaches = breaches

    def once(self, producer: str) -> bool:
        """Whether its records may be stored only once."""
        return self._kinds.get(producer, ProducerKind.PLAIN) is not ProducerKind.PLAIN

    def in_order(self, record: RecordId) -> bool:
        """Whether the record must be after the records that were sent before it.

        A record that was given up by a producer without sequence numbers may be written at any later time: its request
        may wait in a broker, also after the producer closed the connection. A record without an
        outcome must be in order.
        """
        if self.once(record.producer):
            return True
        return record.producer not in self._unordered and not self.records[record].doubtful

    def started(self, event: Started) -> None:
        self._kinds[event.producer] = event.kind
        if not event.ordered:
            self._unordered.add(event.producer)

    def begun(self, event: Begun) -> None:
        self._transaction(event.producer, event.transaction)

    def sent(self, event: Sent) -> None:
        transaction = None
        if event.transaction >= 0:
            transaction = self._transaction(event.record.producer, event.transaction)
            transaction.records.append(event.record)
        self.records[event.record] = Sending(event.partition, transaction, event.key, event.tombstone)

    def acked(self, event: Acked) -> None:
        sending = self.records.get(event.record)
        where = f"{event.record} in {event.partition} at offset {event.offset}"
        if sending is None:
            self._breaches.add(Rule.WRITTEN, f"{where}: acknowledged, but never sent")
        elif sending.partition != event.partition:
            self._breaches.add(Rule.ONE_OFFSET, f"{where}: acknowledged, but sent to {sending.partition}")
        elif sending.acknowledged and sending.offset != event.offset:
            self._breaches.add(Rule.ONE_OFFSET, f"{where}: acknowledged at offset {sending.offset} before")
        else:
            sending.acknowledged = True
            sending.offset, sending.broker, sending.leader_epoch = event.offset, event.broker, event.leader_epoch

    def failed(self, event: Failed) -> None:
        if event.record in self.records:
            self.records[event.record].refused = True

    def unknown(self, event: Unknown) -> None:
        if event.record in self.records:
            self.records[event.record].doubtful = True

    def committing(self, event: Committing) -> None:
        self._transaction(event.producer, event.transaction).outcome = SendOutcome.UNKNOWN

    def committed(self, event: Committed) -> None:
        self._transaction(event.producer, event.transaction).outcome = SendOutcome.COMMITTED

    def aborted(self, event: Aborted) -> None:
        self._transaction(event.producer, event.transaction).outcome = SendOutcome.ABORTED

    def _transaction(self, producer: str, number: int) -> Transaction:
        return self.transactions.setdefault((producer, number), Transaction(producer, number))
