"""Fenced producers: records that they sent after the fence may not be stored anywhere.

Answers to: nothing in Kafka; the fencing part of the history checker. Pure.
"""

from __future__ import annotations

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import Committed, Committing, Initialized, RecordId, Sent
from kafkalite.testing.history.logs import Logs
from kafkalite.testing.history.producers import Producers


class Fencing:
    """All epochs of transactional producers.

    A producer is fenced from the moment at which another one with its transactional id got a greater epoch. Its earlier
    records may still arrive before the fence.
    """

    def __init__(self, breaches: Breaches) -> None:
        self._breaches = breaches
        self._epochs: dict[tuple[str, int], dict[str, int]] = {}
        self._fenced: dict[str, str] = {}
        self._late: dict[RecordId, str] = {}
        self._late_commits: dict[tuple[str, int], str] = {}

    def initialized(self, event: Initialized) -> None:
        epochs = self._epochs.setdefault((event.transactional_id, event.producer_id), {})
        for producer, epoch in epochs.items():
            if producer != event.producer and epoch == event.epoch:
                self._breaches.add(
                    Rule.FENCED,
                    f"{event.transactional_id}: {producer} and {event.producer} were both given epoch {epoch} of "
                    f"producer {event.producer_id}",
                )
        epochs[event.producer] = event.epoch
        newest = max(epochs, key=lambda producer: epochs[producer])
        for producer, epoch in epochs.items():
            if epoch < epochs[newest]:
                self._fenced[producer] = newest
            else:
                self._fenced.pop(producer, None)

    def sent(self, event: Sent) -> None:
        by = self._fenced.get(event.record.producer)
        if by is not None:
            self._late[event.record] = by

    def committing(self, event: Committing) -> None:
        by = self._fenced.get(event.producer)
        if by is not None:
            self._late_commits[event.producer, event.transaction] = by

    def committed(self, event: Committed) -> None:
        by = self._late_commits.get((event.producer, event.transaction))
        if by is not None:
            self._breaches.add(
                Rule.FENCED, f"transaction {event.transaction} of {event.producer}: committed, {by} had fenced it"
            )

    def check(self, producers: Producers, logs: Logs) -> None:
        """Check records that were sent after the fence against the acknowledgements and the logs."""
        for record, by in self._late.items():
            sending = producers.records[record]
            if sending.acknowledged:
                self._breaches.add(
                    Rule.FENCED, f"{record} in {sending.partition} at offset {sending.offset}: {by} had fenced it"
                )
            elif record in logs.log(sending.partition).values():
                self._breaches.add(Rule.FENCED, f"{record} in {sending.partition}: written, {by} had fenced it")
