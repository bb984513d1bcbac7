"""The records that readers got, and the records that they must get.

Answers to: nothing in Kafka; the readers' part of the history checker. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import Isolation, Positioned, Reached, Read, RecordId
from kafkalite.testing.history.logs import Logs
from kafkalite.testing.history.producers import Producers, SendOutcome

_UNPLACED = -1


@dataclass(slots=True)
class _Span:
    """The records that a reader got since it was positioned."""

    reader: str
    partition: str
    start: int = _UNPLACED
    end: int = 0
    committed: bool = False
    given: dict[int, RecordId] = field(default_factory=dict)

    def moved(self, event: Read | Reached, end: int) -> None:
        self.committed = event.isolation is Isolation.READ_COMMITTED
        if self.start == _UNPLACED:
            self.start = event.offset
        self.end = max(self.end, end)


class Readers:
    """All readers."""

    def __init__(self, breaches: Breaches, producers: Producers) -> None:
        self._breaches = breaches
        self._producers = producers
        self._current: dict[tuple[str, str], _Span] = {}
        self._spans: list[_Span] = []

    def positioned(self, event: Positioned) -> None:
        span = _Span(event.reader, event.partition, event.offset, event.offset)
        self._current[event.reader, event.partition] = span
        self._spans.append(span)

    def reached(self, event: Reached) -> None:
        self._span(event.reader, event.partition).moved(event, event.offset)

    def read(self, event: Read) -> None:
        span = self._span(event.reader, event.partition)
        where = f"{event.record or 'something'} in {event.partition} at offset {event.offset}, read by {event.reader}"
        if event.offset < span.end:
            self._breaches.add(Rule.ONWARD, f"{where}: it had read up to offset {span.end} before")
            return
        span.moved(event, event.offset + 1)
        sending = None if event.record is None else self._producers.records.get(event.record)
        if sending is None or event.record is None:
            self._breaches.add(Rule.WRITTEN, f"{where}: no producer had sent it")
            return
        if sending.partition != event.partition:
            self._breaches.add(Rule.WRITTEN, f"{where}: it was sent to {sending.partition}")
            return
        span.given[event.offset] = event.record
        if span.committed and sending.transaction is not None:
            sending.transaction.seen = True

    def tell(self, logs: Logs) -> None:
        """Pass the record at each offset that readers saw to ``logs``."""
        for span in self._spans:
            for offset, record in span.given.items():
                logs.was_read(span.partition, offset, record)

    def check(self, logs: Logs) -> None:
        """Compare all read records with the logs."""
        for span in self._spans:
            if logs.is_deleted(span.partition):
                continue
            self._check_unchanged(span, logs)
            self._check_complete(span, logs)

    def _check_unchanged(self, span: _Span, logs: Logs) -> None:
        log = logs.log(span.partition)
        for offset, record in span.given.items():
            where = f"{record} in {span.partition} at offset {offset}, read by {span.reader}"
            if offset not in log and not logs.may_be_gone(span.partition, offset):
                self._breaches.add(Rule.UNCHANGED, f"{where}: nothing stands there now")
            elif log.get(offset, record) != record:
                self._breaches.add(Rule.UNCHANGED, f"{where}: {log[offset] or 'a marker'} stands there now")
            transaction = self._producers.records[record].transaction
            if span.committed and transaction is not None and not transaction.visible:
                said = "was aborted" if transaction.outcome is SendOutcome.ABORTED else "was never committed"
                self._breaches.add(Rule.ABORTED, f"{where} as committed: {transaction} {said}")

    def _check_complete(self, span: _Span, logs: Logs) -> None:
        log = logs.log(span.partition)
        for offset in range(span.start, min(span.end, logs.end(span.partition))):
            record = log.get(offset)
            if record is None or offset in span.given:
                continue
            sending = self._producers.records.get(record)
            transaction = None if sending is None else sending.transaction
            if span.committed and transaction is not None and not transaction.visible:
                continue
            if logs.may_be_passed_over(span.partition, offset, self._producers):
                continue
            self._breaches.add(
                Rule.COMPLETE, f"{record} in {span.partition} at offset {offset}: {span.reader} passed over it"
            )

    def _span(self, reader: str, partition: str) -> _Span:
        span = self._current.get((reader, partition))
        if span is None:
            span = self._current[reader, partition] = _Span(reader, partition)
            self._spans.append(span)
        return span
