"""What stands where at the end: the logs as their replicas hold them, or as they were read.

Answers to: nothing in Kafka; the logs' part of the history checker. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, zip_longest
from operator import itemgetter

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import Entry, RecordId, Replica
from kafkalite.testing.history.producers import NOWHERE, Producers, Sending, Transaction

Log = dict[int, RecordId | None]
"""Offset → record, or ``None``: a marker."""


class Logs:
    """The logs of all partitions."""

    def __init__(self, breaches: Breaches) -> None:
        self._breaches = breaches
        self._replicas: dict[str, dict[int, tuple[Entry, ...]]] = {}
        self._logs: dict[str, Log] = defaultdict(dict)
        self._ends: dict[str, int] = {}
        self._epochs: dict[tuple[str, int], int] = {}

    def stored(self, replica: Replica) -> None:
        """One replica's contents."""
        self._replicas.setdefault(replica.partition, {})[replica.broker] = replica.entries

    def was_read(self, partition: str, offset: int, record: RecordId) -> None:
        """What was read is the log of a partition whose replicas are not known; the first reader is believed."""
        self._logs[partition].setdefault(offset, record)

    def settle(self) -> None:
        """All is known: compare the replicas, and believe the longest of each partition, whatever was read."""
        for partition, replicas in self._replicas.items():
            for broker, entries in replicas.items():
                self._check_whole(partition, broker, entries)
            self._compare(partition, replicas)
            longest = max(replicas.values(), key=len)
            self._logs[partition] = {entry.offset: entry.record for entry in longest}
            self._epochs.update(((partition, entry.offset), entry.leader_epoch) for entry in longest)
        self._ends = {partition: max(log, default=-1) + 1 for partition, log in self._logs.items()}

    def log(self, partition: str) -> Log:
        """The log of a partition."""
        return self._logs[partition]

    def epoch_at(self, partition: str, offset: int) -> int:
        """The leader epoch in which what stands at ``offset`` was written; -1 if not known."""
        return self._epochs.get((partition, offset), -1)

    def end(self, partition: str) -> int:
        """One more than the last offset."""
        return self._ends.get(partition, 0)

    def check(self, producers: Producers) -> None:
        """Hold what stands in the logs against what was sent and acknowledged."""
        places: dict[RecordId, int] = {}
        for partition in self._logs:
            self._check_log(partition, producers, places)
        for record, sending in producers.records.items():
            if sending.acknowledged:
                self._check_kept(record, sending, places)
        for transaction in producers.transactions.values():
            if transaction.visible:
                self._check_all(transaction, producers, places)

    def _check_log(self, partition: str, producers: Producers, places: dict[RecordId, int]) -> None:
        last: dict[str, tuple[int, int]] = {}
        for offset, record in sorted(self._logs[partition].items(), key=itemgetter(0)):
            if record is None:
                continue
            where = f"{record} in {partition} at offset {offset}"
            sending = producers.records.get(record)
            if sending is None or sending.partition != partition:
                said = "was never sent" if sending is None else f"was sent to {sending.partition}"
                self._breaches.add(Rule.WRITTEN, f"{where}: {said}")
                continue
            if sending.refused:
                self._breaches.add(Rule.REFUSED, f"{where}: the producer was told that it was refused")
            if record in places:
                if producers.once(record.producer):
                    self._breaches.add(Rule.ONCE, f"{where}: stands at offset {places[record]}, too")
                continue
            places[record] = offset
            if not producers.in_order(record):
                continue
            before, at = last.get(record.producer, (-1, -1))
            if record.number < before:
                self._breaches.add(Rule.ORDER, f"{where}: comes after number {before} at offset {at}")
            else:
                last[record.producer] = record.number, offset

    def _check_kept(self, record: RecordId, sending: Sending, places: dict[RecordId, int]) -> None:
        log = self._logs[sending.partition]
        if log.get(sending.offset) == record or (sending.offset == NOWHERE and record in places):
            return
        where = f"{record} in {sending.partition} at offset {sending.offset}"
        if record in places:
            self._breaches.add(Rule.ONE_OFFSET, f"{where}: acknowledged, but stands at offset {places[record]}")
        elif sending.offset in log:
            there = log[sending.offset] or "a marker"
            self._breaches.add(Rule.KEPT, f"{where}: acknowledged and lost, {there} stands there")
        else:
            end = self.end(sending.partition)
            self._breaches.add(Rule.KEPT, f"{where}: acknowledged and lost, the log ends at offset {end}")

    def _check_all(self, transaction: Transaction, producers: Producers, places: dict[RecordId, int]) -> None:
        for record in transaction.records:
            sending = producers.records[record]
            if record not in places and not (sending.refused or sending.doubtful):
                at = "" if sending.offset == NOWHERE else f" at offset {sending.offset}"
                self._breaches.add(
                    Rule.ALL, f"{record} in {sending.partition}{at}: missing, {transaction} is committed"
                )

    def _check_whole(self, partition: str, broker: int, entries: tuple[Entry, ...]) -> None:
        for before, after in pairwise(entries):
            where = f"{after.record or 'a marker'} in {partition} at offset {after.offset} on broker {broker}"
            if after.offset != before.offset + 1:
                self._breaches.add(Rule.WHOLE, f"{where}: comes after offset {before.offset}")
            if after.leader_epoch < before.leader_epoch:
                self._breaches.add(
                    Rule.WHOLE, f"{where}: of leader epoch {after.leader_epoch}, after {before.leader_epoch}"
                )

    def _compare(self, partition: str, replicas: dict[int, tuple[Entry, ...]]) -> None:
        (first, expected), *others = replicas.items()
        for broker, entries in others:
            if entries == expected:
                continue
            mine, theirs = next(pair for pair in zip_longest(expected, entries) if pair[0] != pair[1])
            offset = min(entry.offset for entry in (mine, theirs) if entry is not None)
            self._breaches.add(
                Rule.ALIKE,
                f"{partition} at offset {offset}: {_describe(mine)} on broker {first}, "
                f"{_describe(theirs)} on broker {broker}",
            )


def _describe(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    return f"{entry.record or 'a marker'} (leader epoch {entry.leader_epoch}, CRC {entry.crc:#x})"
