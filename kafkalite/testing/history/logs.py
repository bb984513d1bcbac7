"""The final logs, from the replicas or from the read records.

Answers to: nothing in Kafka; the logs' part of the history checker. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, zip_longest
from operator import itemgetter

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import ENDLESS, Compacted, Deleting, LogEntry, RecordId, Replica
from kafkalite.testing.history.producers import NOWHERE, Producers, Sending, Transaction

Log = dict[int, RecordId | None]
"""Offset → record, or ``None``: a marker."""


class Logs:
    """The logs of all partitions."""

    def __init__(self, breaches: Breaches) -> None:
        self._breaches = breaches
        self._replicas: dict[str, dict[int, tuple[LogEntry, ...]]] = {}
        self._starts: dict[str, int] = defaultdict(int)
        """The greatest log start offset of a partition's replicas."""
        self._logs: dict[str, Log] = defaultdict(dict)
        self._ends: dict[str, int] = {}
        self._epochs: dict[tuple[str, int], int] = {}
        self._compacted: set[str] = set()
        self._deleted: dict[str, int] = {}
        self._last_of_keys: dict[str, dict[str, int]] = {}

    def compacted(self, event: Compacted) -> None:
        """Allow the removal of this topic's records with a later record of their key."""
        self._compacted.add(event.topic)

    def is_compacted(self, partition: str) -> bool:
        """Whether the topic of ``partition`` is compacted."""
        return bool(self._compacted) and partition.rpartition("-")[0] in self._compacted

    def deleting(self, event: Deleting) -> None:
        """Allow the deletion of records below an offset."""
        self._deleted[event.partition] = max(event.offset, self._deleted.get(event.partition, 0))

    def may_be_gone(self, partition: str, offset: int) -> bool:
        """Whether the record at ``offset`` (-1: unknown) may have been deleted or compacted away."""
        return self.is_compacted(partition) or offset < self._deleted.get(partition, NOWHERE)

    def may_be_passed_over(self, partition: str, offset: int, producers: Producers) -> bool:
        """Whether a reader may have found no record at ``offset``, because it was deleted or compacted away.

        A record is removed by a later record of its key, or by the end of an aborted transaction. Replicas are
        compacted separately, so one replica may still have a record that another one has removed.
        """
        if offset < self._deleted.get(partition, NOWHERE):
            return True
        if not self.is_compacted(partition):
            return False
        last = self._last_of_keys.get(partition)
        if last is None:
            last = self._last_of_keys[partition] = {}
            for at, record in self._logs[partition].items():
                sending = None if record is None else producers.records.get(record)
                if sending is not None and sending.key is not None and _is_visible(sending):
                    last[sending.key] = max(at, last.get(sending.key, NOWHERE))
        record = self._logs[partition].get(offset)
        sending = None if record is None else producers.records.get(record)
        if sending is None or sending.key is None:
            return False
        return sending.tombstone or not _is_visible(sending) or last[sending.key] > offset

    def is_deleted(self, partition: str) -> bool:
        """Whether the partition's topic was deleted, so that its records cannot be checked."""
        return self._deleted.get(partition, 0) >= ENDLESS

    def stored(self, replica: Replica) -> None:
        """Add the content of one replica."""
        self._replicas.setdefault(replica.partition, {})[replica.broker] = replica.entries
        self._starts[replica.partition] = max(replica.start, self._starts[replica.partition])

    def was_read(self, partition: str, offset: int, record: RecordId) -> None:
        """Use read records as the log of a partition without known replicas; the first reader counts."""
        self._logs[partition].setdefault(offset, record)

    def settle(self) -> None:
        """End of the input: compare the replicas, and take the longest of each partition as its log."""
        for partition, replicas in self._replicas.items():
            if self.is_deleted(partition):
                continue
            for broker, entries in replicas.items():
                self._check_whole(partition, broker, entries)
            self._compare(partition, replicas)
            longest = max(replicas.values(), key=lambda entries: (entries[-1].offset if entries else -1, len(entries)))
            self._logs[partition] = {entry.offset: entry.record for entry in longest}
            self._epochs.update(((partition, entry.offset), entry.leader_epoch) for entry in longest)
        self._ends = {partition: max(log, default=-1) + 1 for partition, log in self._logs.items()}

    def log(self, partition: str) -> Log:
        """The log of a partition."""
        return self._logs[partition]

    def epoch_at(self, partition: str, offset: int) -> int:
        """The leader epoch in which the entry at ``offset`` was written; -1 if not known."""
        return self._epochs.get((partition, offset), -1)

    def end(self, partition: str) -> int:
        """One more than the last offset."""
        return self._ends.get(partition, 0)

    def check(self, producers: Producers) -> None:
        """Compare the content of the logs with the sent and acknowledged records."""
        places: dict[RecordId, int] = {}
        for partition in self._logs:
            if not self.is_deleted(partition):
                self._check_log(partition, producers, places)
        for record, sending in producers.records.items():
            if sending.acknowledged and not self.is_deleted(sending.partition):
                self._check_kept(record, sending, places)
        for transaction in producers.transactions.values():
            if transaction.visible:
                self._check_all(transaction, producers, places)
        self._check_keys(producers, places)

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
        elif not self.may_be_gone(sending.partition, sending.offset):
            end = self.end(sending.partition)
            self._breaches.add(Rule.KEPT, f"{where}: acknowledged and lost, the log ends at offset {end}")

    def _check_all(self, transaction: Transaction, producers: Producers, places: dict[RecordId, int]) -> None:
        for record in transaction.records:
            sending = producers.records[record]
            if (
                record not in places
                and not (sending.refused or sending.doubtful)
                and not self.may_be_gone(sending.partition, sending.offset)
            ):
                at = "" if sending.offset == NOWHERE else f" at offset {sending.offset}"
                self._breaches.add(
                    Rule.ALL, f"{record} in {sending.partition}{at}: missing, {transaction} is committed"
                )

    def _check_whole(self, partition: str, broker: int, entries: tuple[LogEntry, ...]) -> None:
        for before, after in pairwise(entries):
            where = f"{after.record or 'a marker'} in {partition} at offset {after.offset} on broker {broker}"
            if after.offset != before.offset + 1 and not self.is_compacted(partition):
                self._breaches.add(Rule.WHOLE, f"{where}: comes after offset {before.offset}")
            if after.leader_epoch < before.leader_epoch:
                self._breaches.add(
                    Rule.WHOLE, f"{where}: of leader epoch {after.leader_epoch}, after {before.leader_epoch}"
                )

    def _check_keys(self, producers: Producers, places: dict[RecordId, int]) -> None:
        """Compare the replicas of compacted partitions with the last acknowledged record of each key."""
        last: dict[str, dict[str, tuple[int, RecordId]]] = defaultdict(dict)
        doubtful: set[tuple[str, str]] = set()
        keyed: dict[RecordId, Sending] = {}
        for record, sending in producers.records.items():
            if not self.is_compacted(sending.partition) or sending.key is None or self.is_deleted(sending.partition):
                continue
            if not _is_visible(sending):
                continue
            keyed[record] = sending
            offset = sending.offset if sending.offset != NOWHERE else places.get(record, NOWHERE)
            if offset != NOWHERE and (sending.acknowledged or record in places):
                known = last[sending.partition].get(sending.key, (NOWHERE, record))
                last[sending.partition][sending.key] = max(known, (offset, record))
            elif sending.tombstone and not sending.refused:
                # A tombstone with an unknown outcome may have been written, and may have removed the key.
                doubtful.add((sending.partition, sending.key))
        for partition, keys in last.items():
            for broker, entries in self._replicas.get(partition, {}).items():
                self._check_last(partition, broker, entries, keys, keyed, doubtful)

    def _check_last(
        self,
        partition: str,
        broker: int,
        entries: tuple[LogEntry, ...],
        keys: dict[str, tuple[int, RecordId]],
        keyed: dict[RecordId, Sending],
        doubtful: set[tuple[str, str]],
    ) -> None:
        there: dict[str, tuple[int, RecordId]] = {}
        for entry in entries:
            sending = None if entry.record is None else keyed.get(entry.record)
            if sending is not None and sending.key is not None and entry.record is not None:
                there[sending.key] = entry.offset, entry.record
        for key, (offset, record) in keys.items():
            where = f"key {key} in {partition} on broker {broker}"
            found = there.get(key)
            if keyed[record].tombstone:
                if found is not None and found[0] < offset:
                    self._breaches.add(
                        Rule.LAST_VALUE, f"{where}: {record} at offset {offset} deleted it, and {found[1]} is there"
                    )
            elif (found is None or found[0] < offset) and (partition, key) not in doubtful:
                stands = "nothing" if found is None else str(found[1])
                self._breaches.add(
                    Rule.LAST_VALUE, f"{where}: {stands} is there, {record} at offset {offset} is its last value"
                )

    def _compare(self, partition: str, replicas: dict[int, tuple[LogEntry, ...]]) -> None:
        if self.is_compacted(partition):
            self._compare_compacted(partition, replicas)
            return
        if partition in self._deleted:
            # From the greatest start on, because each replica deletes whole segments at its own time, and a follower
            # truncates at most to the leader's log start offset: what it keeps below that may be of another epoch.
            firsts = (entries[0].offset for entries in replicas.values() if entries)
            start = max(self._starts[partition], *firsts, 0)
            replicas = {
                broker: tuple(entry for entry in entries if entry.offset >= start)
                for broker, entries in replicas.items()
            }
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

    def _compare_compacted(self, partition: str, replicas: dict[int, tuple[LogEntry, ...]]) -> None:
        """Each replica is compacted separately: if two of them have an entry at an offset, it is the same record."""
        seen: dict[int, tuple[int, LogEntry]] = {}
        for broker, entries in replicas.items():
            for entry in entries:
                first, known = seen.setdefault(entry.offset, (broker, entry))
                if (known.record, known.leader_epoch) != (entry.record, entry.leader_epoch):
                    self._breaches.add(
                        Rule.ALIKE,
                        f"{partition} at offset {entry.offset}: {_describe(known)} on broker {first}, "
                        f"{_describe(entry)} on broker {broker}",
                    )


def _describe(entry: LogEntry | None) -> str:
    if entry is None:
        return "nothing"
    return f"{entry.record or 'a marker'} (leader epoch {entry.leader_epoch}, CRC {entry.crc:#x})"


def _is_visible(sending: Sending) -> bool:
    """Whether readers of committed records must see a record."""
    return sending.transaction is None or sending.transaction.visible
