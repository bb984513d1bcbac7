"""Pipelines that read, write and commit in one transaction: each read record has one result.

Answers to: nothing in Kafka; the part of the history checker for exactly-once processing. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import Derived, OffsetCommitted, RecordId
from kafkalite.testing.history.logs import Logs
from kafkalite.testing.history.producers import Producers


class Pipelines:
    """All pipelines, by their groups."""

    def __init__(self, breaches: Breaches) -> None:
        self._breaches = breaches
        self._results: dict[tuple[str, str], dict[int, list[RecordId]]] = defaultdict(lambda: defaultdict(list))
        self._committed: dict[tuple[str, str], int] = {}

    def derived(self, event: Derived) -> None:
        self._results[event.group, event.partition][event.offset].append(event.record)

    def committed(self, event: OffsetCommitted) -> None:
        key = event.group, event.partition
        self._committed[key] = max(event.offset, self._committed.get(key, 0))

    def check(self, producers: Producers, logs: Logs) -> None:
        """Check the committed results against the records that were read."""
        there: dict[str, set[RecordId]] = {}

        def is_there(record: RecordId) -> bool:
            sending = producers.records[record]
            if sending.transaction is not None and not sending.transaction.visible:
                return False
            if sending.partition not in there:
                there[sending.partition] = {each for each in logs.log(sending.partition).values() if each is not None}
            return record in there[sending.partition]

        for (group, partition), results in self._results.items():
            for offset, records in results.items():
                found = [record for record in records if is_there(record)]
                if len(found) > 1:
                    self._breaches.add(
                        Rule.EXACTLY_ONCE,
                        f"group {group}, {partition} at offset {offset}: {found[0]} and {found[1]} were made of it",
                    )
            self._check_complete(group, partition, producers, logs, is_there)

    def _check_complete(
        self, group: str, partition: str, producers: Producers, logs: Logs, is_there: Callable[[RecordId], bool]
    ) -> None:
        results = self._results[group, partition]
        end = self._committed.get((group, partition), 0)
        for offset, record in logs.log(partition).items():
            sending = None if record is None else producers.records.get(record)
            if sending is None or offset >= end or logs.may_be_gone(partition, offset):
                continue
            if sending.transaction is not None and not sending.transaction.visible:
                continue
            if not any(is_there(result) or _is_gone(result, producers, logs) for result in results.get(offset, ())):
                self._breaches.add(
                    Rule.EXACTLY_ONCE,
                    f"group {group}, {partition} at offset {offset}: committed as read, nothing was made of {record}",
                )


def _is_gone(result: RecordId, producers: Producers, logs: Logs) -> bool:
    sending = producers.records[result]
    visible = sending.transaction is None or sending.transaction.visible
    return visible and logs.may_be_gone(sending.partition, sending.offset)
