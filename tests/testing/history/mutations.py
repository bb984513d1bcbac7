"""Violations of a history: each function plants one, and returns the text that the checker must report."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from kafkalite.testing.history.breaches import Rule
from kafkalite.testing.history.events import (
    Aborted,
    Acked,
    Committed,
    Committing,
    Derived,
    Event,
    Failed,
    Initialized,
    Isolation,
    Led,
    LogEntry,
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetFetching,
    OffsetUnknown,
    Owned,
    Read,
    RecordId,
    Replica,
    Sent,
)
from tests.testing.history.model import COMPACTED, PARTITIONS

History = list[Event]
Plant = Callable[[History, random.Random], str]
T = TypeVar("T")


class Mutation(NamedTuple):
    """A way to break a history, and the rule that is broken."""

    plant: Plant
    rule: Rule


MUTATIONS: list[Mutation] = []


def breaks(rule: Rule) -> Callable[[Plant], Plant]:
    """Enter a mutation into the table."""

    def enter(plant: Plant) -> Plant:
        MUTATIONS.append(Mutation(plant, rule))
        return plant

    return enter


def all_of(history: History, kind: type[T]) -> list[T]:
    return [event for event in history if isinstance(event, kind)]


def told(history: History) -> list[Acked]:
    """The acknowledgements that name an offset, in partitions that keep everything."""
    return [event for event in all_of(history, Acked) if event.offset >= 0 and event.partition in PARTITIONS]


def replicas(history: History) -> list[Replica]:
    """The replicas of partitions that keep everything."""
    return [event for event in all_of(history, Replica) if event.partition in PARTITIONS]


def ended(history: History, kind: type[T]) -> list[T]:
    """The transactions of producers that are no pipelines."""
    return [event for event in all_of(history, kind) if getattr(event, "producer", "") != "pipe"]


def reads(history: History) -> list[Read]:
    """The read events of these records."""
    return [event for event in all_of(history, Read) if event.partition in PARTITIONS]


def acked(history: History, rng: random.Random, producer: str = "") -> Acked:
    return rng.choice([event for event in told(history) if event.record.producer.startswith(producer)])


def place(history: History, event: Event) -> int:
    """Where it stands; that very event, for events of different kinds may be equal as tuples."""
    return next(index for index, other in enumerate(history) if other is event)


def replace(history: History, old: Event, new: Event) -> None:
    history[place(history, old)] = new


def remove(history: History, event: Event) -> None:
    del history[place(history, event)]


def request_of(history: History, done: Committed) -> Committing:
    return next(event for event in all_of(history, Committing) if tuple(event) == tuple(done))


def edit_replicas(history: History, partition: str, edit: Callable[[list[LogEntry]], None], *brokers: int) -> None:
    """Change what the replicas of a partition hold; all of them, unless some are named."""
    for index, event in enumerate(history):
        if isinstance(event, Replica) and event.partition == partition and (not brokers or event.broker in brokers):
            entries = list(event.entries)
            edit(entries)
            history[index] = event._replace(entries=tuple(entries))


def put(history: History, partition: str, offset: int, record: RecordId | None) -> None:
    """Another record at an offset, on all replicas."""

    def edit(entries: list[LogEntry]) -> None:
        entries[offset] = entries[offset]._replace(record=record)

    edit_replicas(history, partition, edit)


def where(record: RecordId, partition: str, offset: int) -> str:
    return f"{record} in {partition} at offset {offset}"


@breaks(Rule.KEPT)
def lost_at_the_end(history: History, rng: random.Random) -> str:
    partition = acked(history, rng).partition
    # of a plain producer an earlier copy might be left
    once = [event for event in told(history) if not event.record.producer.startswith("plain")]
    lost = max((event for event in once if event.partition == partition), key=lambda event: event.offset)
    edit_replicas(history, partition, lambda entries: entries.__delitem__(slice(lost.offset, None)))
    return where(lost.record, partition, lost.offset)


@breaks(Rule.KEPT)
def lost_to_another(history: History, rng: random.Random) -> str:
    lost = acked(history, rng, "idempotent")
    put(history, lost.partition, lost.offset, None)
    return where(lost.record, lost.partition, lost.offset)


@breaks(Rule.KEPT)
def lost_somewhere(history: History, rng: random.Random) -> str:
    lost = acked(history, rng, "idempotent")
    replace(history, lost, lost._replace(offset=-1))
    put(history, lost.partition, lost.offset, None)
    return where(lost.record, lost.partition, -1)


@breaks(Rule.ONE_OFFSET)
def acknowledged_at_another_offset(history: History, rng: random.Random) -> str:
    moved = acked(history, rng)
    replace(history, moved, moved._replace(offset=moved.offset + 1))
    return where(moved.record, moved.partition, moved.offset + 1)


@breaks(Rule.ONE_OFFSET)
def acknowledged_twice(history: History, rng: random.Random) -> str:
    again = acked(history, rng)
    history.append(again._replace(offset=again.offset + 7))
    return where(again.record, again.partition, again.offset + 7)


@breaks(Rule.ONE_OFFSET)
def acknowledged_in_another_partition(history: History, rng: random.Random) -> str:
    moved = acked(history, rng)
    replace(history, moved, moved._replace(partition="orders-9"))
    return where(moved.record, "orders-9", moved.offset)


@breaks(Rule.ONCE)
def twice(history: History, rng: random.Random) -> str:
    doubled = acked(history, rng, rng.choice(("idempotent", "transactional")))
    ends: list[int] = []

    def edit(entries: list[LogEntry]) -> None:
        ends.append(len(entries))
        entries.append(entries[-1]._replace(offset=len(entries), record=doubled.record))

    edit_replicas(history, doubled.partition, edit)
    return where(doubled.record, doubled.partition, ends[0])


@breaks(Rule.ORDER)
def reordered(history: History, rng: random.Random) -> str:
    first, second = two_of_a_producer(history, rng)
    put(history, first.partition, first.offset, second.record)
    put(history, first.partition, second.offset, first.record)
    return where(first.record, first.partition, second.offset)


def two_of_a_producer(history: History, rng: random.Random) -> tuple[Acked, Acked]:
    """Two records that follow one another in a partition."""
    some = acked(history, rng, "idempotent")
    both = sorted(
        (
            event
            for event in told(history)
            if event.partition == some.partition and event.record.producer == some.record.producer
        ),
        key=lambda event: event.offset,
    )
    index = rng.randrange(len(both) - 1)
    return both[index], both[index + 1]


@breaks(Rule.REFUSED)
def refused_and_written(history: History, rng: random.Random) -> str:
    refused = acked(history, rng)
    replace(history, refused, Failed(refused.record, "refused"))
    return f"{refused.record} in {refused.partition} at offset "


@breaks(Rule.WRITTEN)
def stored_but_never_sent(history: History, rng: random.Random) -> str:
    some = acked(history, rng)
    put(history, some.partition, some.offset, RecordId("nobody", 1))
    return where(RecordId("nobody", 1), some.partition, some.offset)


@breaks(Rule.WRITTEN)
def read_but_never_sent(history: History, rng: random.Random) -> str:
    some = rng.choice(reads(history))
    replace(history, some, some._replace(record=RecordId("nobody", 1)))
    return where(RecordId("nobody", 1), some.partition, some.offset)


@breaks(Rule.WRITTEN)
def read_what_is_no_record(history: History, rng: random.Random) -> str:
    some = rng.choice(reads(history))
    replace(history, some, some._replace(record=None))
    return f"something in {some.partition} at offset {some.offset}, read by {some.reader}"


@breaks(Rule.WRITTEN)
def read_before_it_was_sent(history: History, rng: random.Random) -> str:
    read = rng.choice(reads(history))
    sent = next(event for event in all_of(history, Sent) if event.record == read.record)
    remove(history, sent)
    history.insert(place(history, read) + 1, sent)
    assert read.record
    return where(read.record, read.partition, read.offset)


@breaks(Rule.WRITTEN)
def acknowledged_but_never_sent(history: History, _chance: random.Random) -> str:
    history.append(Acked(RecordId("nobody", 1), "orders-0", 5))
    return where(RecordId("nobody", 1), "orders-0", 5)


@breaks(Rule.WRITTEN)
def read_in_another_partition(history: History, rng: random.Random) -> str:
    some = rng.choice([event for event in reads(history) if event.partition != "orders-1"])
    read = Read("astray", Isolation.READ_UNCOMMITTED, "orders-1", some.offset, some.record)
    history.append(read)
    assert some.record
    return where(some.record, "orders-1", some.offset)


@breaks(Rule.UNCHANGED)
def read_and_gone(history: History, _chance: random.Random) -> str:
    """A reader read above the high watermark a record that was then truncated."""
    record = RecordId("idempotent-0", 100_000)
    end = len(replicas(history)[0].entries)
    history.append(Sent(record, "orders-0"))
    history.append(Read("early", Isolation.READ_UNCOMMITTED, "orders-0", end, record))
    return where(record, "orders-0", end)


@breaks(Rule.UNCHANGED)
def two_records_at_an_offset(history: History, rng: random.Random) -> str:
    one, other = two_of_a_producer(history, rng)
    history.append(Read("astray", Isolation.READ_UNCOMMITTED, one.partition, one.offset, other.record))
    return where(other.record, one.partition, one.offset)


@breaks(Rule.COMPLETE)
def passed_over(history: History, rng: random.Random) -> str:
    some = rng.choice([event for event in reads(history) if event.reader.startswith("last-")])
    remove(history, some)
    assert some.record
    return where(some.record, some.partition, some.offset)


@breaks(Rule.ONWARD)
def given_again(history: History, rng: random.Random) -> str:
    some = rng.choice(reads(history))
    history.insert(place(history, some) + 1, some)
    assert some.record
    return where(some.record, some.partition, some.offset)


@breaks(Rule.ABORTED)
def aborted_and_seen(history: History, rng: random.Random) -> str:
    done = rng.choice(ended(history, Committed))
    replace(history, done, Aborted(*done))
    return first_of(history, done.producer, done.transaction)


@breaks(Rule.ABORTED)
def never_committed_and_seen(history: History, rng: random.Random) -> str:
    done = rng.choice(ended(history, Committed))
    remove(history, done)
    remove(history, request_of(history, done))
    return first_of(history, done.producer, done.transaction)


def first_of(history: History, producer: str, transaction: int) -> str:
    sent = next(
        event
        for event in all_of(history, Sent)
        if (event.record.producer, event.transaction) == (producer, transaction)
    )
    return f"{sent.record} in {sent.partition} at offset "


@breaks(Rule.COMPLETE)
def committed_and_not_seen(history: History, rng: random.Random) -> str:
    done = rng.choice(ended(history, Aborted))
    replace(history, done, Committed(*done))
    return first_of(history, done.producer, done.transaction)


@breaks(Rule.COMPLETE)
def half_of_an_unknown_one_is_seen(history: History, rng: random.Random) -> str:
    """The outcome of the transaction is unknown; all readers must still see all of it or nothing."""
    done = rng.choice([event for event in ended(history, Committed) if len(records_of(history, event)) > 1])
    remove(history, done)
    hidden = rng.choice(records_of(history, done))
    for event in all_of(history, Read):
        if event.record == hidden and event.reader == "last-read_committed":
            remove(history, event)
    return f"{hidden} in "


def records_of(history: History, done: Committed) -> list[RecordId]:
    return [
        event.record
        for event in all_of(history, Sent)
        if (event.record.producer, event.transaction) == (done.producer, done.transaction)
    ]


@breaks(Rule.ALL)
def committed_without_one_of_its_records(history: History, rng: random.Random) -> str:
    done = rng.choice(ended(history, Committed))
    record = RecordId(done.producer, 100_000)
    history.insert(place(history, request_of(history, done)), Sent(record, "orders-2", done.transaction))
    return f"{record} in orders-2"


@breaks(Rule.FORWARD)
def a_look_at_an_older_offset(history: History, rng: random.Random) -> str:
    some = rng.choice(all_of(history, OffsetCommitted))
    history += [OffsetFetching("late", some.group), OffsetFetched("late", some.group, some.partition, -1)]
    return f"group {some.group} in {some.partition} at offset -1"


@breaks(Rule.FORWARD)
def an_unknown_commit_is_seen_and_gone(history: History, _chance: random.Random) -> str:
    end = 10_000
    history.append(OffsetCommitting("other", "orders-1", end))
    for onlooker, offset in (("early", end), ("late", -1)):
        history += [OffsetFetching(onlooker, "other"), OffsetFetched(onlooker, "other", "orders-1", offset)]
    return "group other in orders-1 at offset -1"


@breaks(Rule.FORWARD)
def a_commit_of_an_older_offset(history: History, _chance: random.Random) -> str:
    for offset in (50, 40):
        history += [OffsetCommitting("other", "orders-1", offset), OffsetCommitted("other", "orders-1", offset)]
    return "group other in orders-1 at offset 40"


@breaks(Rule.COMMITTED)
def an_offset_that_no_member_committed(history: History, _chance: random.Random) -> str:
    history += [OffsetFetching("late", "billing"), OffsetFetched("late", "billing", "orders-0", 1_000_000)]
    return "group billing in orders-0 at offset 1000000"


@breaks(Rule.COMMITTED)
def a_commit_that_no_client_requested(history: History, _chance: random.Random) -> str:
    history.append(OffsetCommitted("billing", "orders-0", 1_000_000))
    return "group billing in orders-0 at offset 1000000"


@breaks(Rule.ONE_LEADER)
def two_leaders_are_seen(history: History, rng: random.Random) -> str:
    some = rng.choice(all_of(history, Led))
    history.append(some._replace(broker=some.broker % 3 + 1))
    return f"{some.partition}: brokers {some.broker} and {some.broker % 3 + 1} both lead in epoch {some.leader_epoch}"


@breaks(Rule.ONE_LEADER)
def two_leaders_acknowledge(history: History, rng: random.Random) -> str:
    """The leader epoch of one record is in its acknowledgement, that of the other only in the log."""
    one = one_of_many_in_an_epoch(history, rng)
    replace(history, one, one._replace(broker=one.broker % 3 + 1))
    return f"in {one.partition} at offset "


def one_of_many_in_an_epoch(history: History, rng: random.Random) -> Acked:
    epochs = {(r.partition, e.offset): e.leader_epoch for r in all_of(history, Replica) for e in r.entries}
    by_epoch: dict[tuple[str, int], list[Acked]] = {}
    for event in all_of(history, Acked):
        if event.broker > 0:
            by_epoch.setdefault((event.partition, epochs[event.partition, event.offset]), []).append(event)
    return rng.choice(rng.choice([events for events in by_epoch.values() if len(events) > 1]))


@breaks(Rule.ALIKE)
def a_replica_lacks_the_end(history: History, rng: random.Random) -> str:
    replica = rng.choice(replicas(history))
    edit_replicas(history, replica.partition, lambda entries: entries.__delitem__(slice(-1, None)), replica.broker)
    return f"{replica.partition} at offset {len(replica.entries) - 1}: "


@breaks(Rule.ALIKE)
def a_replica_has_other_bytes(history: History, rng: random.Random) -> str:
    replica = rng.choice(replicas(history))
    offset = rng.randrange(len(replica.entries))

    def edit(entries: list[LogEntry]) -> None:
        entries[offset] = entries[offset]._replace(crc=entries[offset].crc ^ 1)

    edit_replicas(history, replica.partition, edit, replica.broker)
    return f"{replica.partition} at offset {offset}: "


@breaks(Rule.WHOLE)
def a_gap_in_all_replicas(history: History, rng: random.Random) -> str:
    replica = rng.choice(replicas(history))
    offset = rng.randrange(1, len(replica.entries) - 1)
    edit_replicas(history, replica.partition, lambda entries: entries.__delitem__(offset))
    return f"in {replica.partition} at offset {offset + 1} on broker {replica.broker}: comes after offset {offset - 1}"


@breaks(Rule.WHOLE)
def an_epoch_goes_back(history: History, rng: random.Random) -> str:
    replica = rng.choice(replicas(history))
    last = len(replica.entries) - 1

    def edit(entries: list[LogEntry]) -> None:
        entries[-1] = entries[-1]._replace(leader_epoch=-1)

    edit_replicas(history, replica.partition, edit)
    return f"in {replica.partition} at offset {last} on broker {replica.broker}: of leader epoch -1"


def fence(history: History, producer: str, at: int) -> None:
    """Another instance with the producer's transactional id is given a greater epoch."""
    known = next(event for event in all_of(history, Initialized) if event.producer == producer)
    history.insert(at, known._replace(producer="usurper", epoch=known.epoch + 1))


@breaks(Rule.FENCED)
def one_epoch_for_two(history: History, rng: random.Random) -> str:
    known = rng.choice(list(all_of(history, Initialized)))
    history.insert(place(history, known) + 1, known._replace(producer="double"))
    return f"{known.producer} and double were both given epoch {known.epoch}"


@breaks(Rule.FENCED)
def fenced_and_acknowledged(history: History, rng: random.Random) -> str:
    some = acked(history, rng, "transactional")
    sent = next(event for event in all_of(history, Sent) if event.record == some.record)
    fence(history, some.record.producer, place(history, sent))
    return where(some.record, some.partition, some.offset)


@breaks(Rule.FENCED)
def fenced_and_written(history: History, rng: random.Random) -> str:
    some = acked(history, rng, "transactional")
    sent = next(event for event in all_of(history, Sent) if event.record == some.record)
    fence(history, some.record.producer, place(history, sent))
    remove(history, some)
    return f"{some.record} in {some.partition}: written"


@breaks(Rule.FENCED)
def fenced_and_committed(history: History, rng: random.Random) -> str:
    done = rng.choice(ended(history, Committed))
    fence(history, done.producer, place(history, request_of(history, done)))
    return f"transaction {done.transaction} of {done.producer}: committed"


@breaks(Rule.OWNER)
def two_owners(history: History, rng: random.Random) -> str:
    some = rng.choice([event for event in all_of(history, Owned) if event.partitions])
    history.insert(place(history, some) + 1, some._replace(owner="thief", partitions=some.partitions[:1]))
    return f"group {some.group}: {some.partitions[0]} is owned by {some.owner} and by thief"


@breaks(Rule.GENERATION)
def a_commit_of_an_old_generation(history: History, rng: random.Random) -> str:
    some = rng.choice([event for event in all_of(history, OffsetCommitted) if event.generation > 0])
    asked = next(event for event in all_of(history, OffsetCommitting) if tuple(event) == tuple(some))
    history.insert(place(history, asked), Owned(some.group, some.generation + 1, "next", ()))
    return f"group {some.group} in {some.partition} at offset {some.offset}: committed in generation {some.generation}"


@breaks(Rule.FORWARD)
def a_late_commit_takes_effect_twice(history: History, _chance: random.Random) -> str:
    """Once it may take the place of a greater one, for its request came late."""
    for offset in (50, 60):
        history.append(OffsetCommitting("other", "orders-1", offset))
    history += [OffsetUnknown("other", "orders-1", 50), OffsetCommitted("other", "orders-1", 60)]
    for _ in range(2):
        history += [OffsetFetching("late", "other"), OffsetFetched("late", "other", "orders-1", 50)]
        history += [OffsetCommitting("other", "orders-1", 70), OffsetCommitted("other", "orders-1", 70)]
    return "group other in orders-1 at offset 50"


def last_of_a_key(history: History, rng: random.Random, *, tombstone: bool) -> tuple[Sent, Replica]:
    """The last record of a key, which was acknowledged; and a replica."""
    acknowledged = {event.record for event in all_of(history, Acked)}
    last: dict[str | None, Sent] = {}
    for sent in all_of(history, Sent):
        if sent.partition == COMPACTED:
            last[sent.key] = sent
    found = [sent for sent in last.values() if sent.tombstone is tombstone and sent.record in acknowledged]
    if not found:
        some = rng.choice([sent for sent in last.values() if sent.record in acknowledged])
        replace(history, some, some._replace(tombstone=tombstone))
        found = [some._replace(tombstone=tombstone)]
    return rng.choice(found), next(event for event in all_of(history, Replica) if event.partition == COMPACTED)


@breaks(Rule.LAST_VALUE)
def the_last_value_is_compacted_away(history: History, rng: random.Random) -> str:
    sent, replica = last_of_a_key(history, rng, tombstone=False)
    entries = tuple(entry for entry in replica.entries if entry.record != sent.record)
    replace(history, replica, replica._replace(entries=entries))
    # No tombstone of the key has an unknown outcome, which would explain it.
    for event in all_of(history, Sent):
        if event.partition == COMPACTED and event.key == sent.key and event.tombstone:
            replace(history, event, event._replace(tombstone=False))
    return f"key {sent.key} in {COMPACTED} on broker {replica.broker}"


@breaks(Rule.LAST_VALUE)
def a_deleted_key_comes_back(history: History, rng: random.Random) -> str:
    sent, replica = last_of_a_key(history, rng, tombstone=True)
    offset = next(event.offset for event in all_of(history, Acked) if event.record == sent.record)
    earlier = RecordId("keyed", 100_000)
    history.insert(0, Sent(earlier, COMPACTED, -1, sent.key))
    kept = [entry for entry in replica.entries if entry.offset not in (offset, offset - 1)]
    kept.append(LogEntry(offset - 1, 0, earlier))
    replace(history, replica, replica._replace(entries=tuple(sorted(kept))))
    return f"key {sent.key} in {COMPACTED} on broker {replica.broker}"


@breaks(Rule.ALIKE)
def compacted_replicas_differ(history: History, _chance: random.Random) -> str:
    replica = next(event for event in all_of(history, Replica) if event.partition == COMPACTED)
    last = replica.entries[-1]
    changed = (*replica.entries[:-1], last._replace(record=RecordId("keyed", 1)))
    replace(history, replica, replica._replace(entries=changed))
    return f"{COMPACTED} at offset {last.offset}"


@breaks(Rule.KEPT)
def lost_above_what_was_deleted(history: History, _chance: random.Random) -> str:
    lost = max(
        (event for event in all_of(history, Acked) if event.record.producer == "trimmed"), key=lambda e: e.offset
    )
    edit_replicas(history, lost.partition, lambda entries: entries.__delitem__(slice(-1, None)))
    return where(lost.record, lost.partition, lost.offset)


def results(history: History) -> list[Derived]:
    """The pipeline's results in committed transactions."""
    done = {event.transaction for event in all_of(history, Committed) if event.producer == "pipe"}
    sent = {event.record for event in all_of(history, Sent) if event.transaction in done}
    return [event for event in all_of(history, Derived) if event.record in sent]


@breaks(Rule.EXACTLY_ONCE)
def made_twice(history: History, rng: random.Random) -> str:
    first, second = rng.sample(results(history), 2)
    replace(history, second, second._replace(offset=first.offset))
    return f"{first.partition} at offset {first.offset}: "


@breaks(Rule.EXACTLY_ONCE)
def committed_and_not_made(history: History, rng: random.Random) -> str:
    some = rng.choice(results(history))
    remove(history, some)
    return f"{some.partition} at offset {some.offset}: committed as read"


@breaks(Rule.COMPLETE)
def the_last_value_is_passed_over(history: History, rng: random.Random) -> str:
    sent, _ = last_of_a_key(history, rng, tombstone=False)
    some = next(event for event in all_of(history, Read) if event.record == sent.record)
    remove(history, some)
    return where(sent.record, COMPACTED, some.offset)
