"""A micro-batch's records, tables that are emptied among them; the rest is tried with a real PostgreSQL."""

from __future__ import annotations

from kafkalite.pipelines.changes.pgoutput import Column, Relation, RowChange, SourceTransaction, Truncate
from kafkalite.pipelines.changes.source import ChangesOptions, records_of

TABLE = Relation("public", "t", (Column("id", 23),))
EMPTIED = Truncate((TABLE,))


def come(number: int) -> RowChange:
    return RowChange(TABLE, None, (b"%d" % number,))


def go(number: int) -> RowChange:
    return RowChange(TABLE, (b"%d" % number,), None)


def told(changes: list[RowChange | Truncate], in_topic: set[bytes]) -> list[tuple[bytes, bool]]:
    """Key, and whether there is a row."""
    transactions = [SourceTransaction(at, (change,)) for at, change in enumerate(changes)]
    records = records_of(transactions, ("id",), lambda: in_topic)
    return [(record.key[6:-1], record.value is not None) for record in records]


def test_a_table_that_is_emptied() -> None:
    """All rows of the topic and the earlier rows of the same micro-batch are deleted; deleted rows are not deleted
    again."""
    changes: list[RowChange | Truncate] = [come(3), come(4), go(4), go(1), EMPTIED, come(5), EMPTIED, EMPTIED, come(1)]
    assert told(changes, {b'{"id":1}', b'{"id":2}'}) == [
        *((b"3", True), (b"4", True), (b"4", False), (b"1", False)),
        *((b"2", False), (b"3", False), (b"5", True), (b"5", False), (b"1", True)),
    ]


def test_the_topic_is_not_read_without_need() -> None:
    def never() -> set[bytes]:
        raise AssertionError("nobody asked for that")

    assert len(list(records_of([SourceTransaction(1, (come(1), go(1)))], ("id",), never))) == 2


def test_options() -> None:
    given = {
        "url": "postgresql:///bank",
        "table": "t",
        "slot": "s",
        "subscribe": "topic",
        "kafka.bootstrap.servers": "b",
    }
    options = ChangesOptions.parse(given)
    assert options.topic == {"subscribe": "topic", "kafka.bootstrap.servers": "b"}
    assert options.limit == 10_000
    assert ChangesOptions.parse({**given, "maxChangesPerTrigger": "7"}).limit == 7
