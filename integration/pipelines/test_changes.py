"""Change capture and copy against a real PostgreSQL, without Spark and without a broker."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from integration.pipelines.postgres import Postgres
from kafkalite.pipelines.changes.copy import CopyLostError, TableCopy, TopicRow
from kafkalite.pipelines.changes.pgoutput import RowChange
from kafkalite.pipelines.changes.postgres import Slot, SourceTable, connect, find_table, rows
from kafkalite.pipelines.changes.records import ChangeRecord, change_records, row_record
from kafkalite.pipelines.errors import PipelineError

TABLE = """
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE things (
    id int, "Second key" text, short varchar(10), fixed char(5), money numeric(12, 2), exact numeric, wide float8,
    narrow float4, yes bool, at timestamptz, day date, span interval, document jsonb, raw json, list text[],
    bytes bytea, feeling mood, network inet, large text, twice numeric GENERATED ALWAYS AS (money * 2) STORED,
    PRIMARY KEY ("Second key", id)
);
"""
ROWS = """
INSERT INTO things VALUES
    (1, 'a "b" \\', 'Zoë', 'ab', 1.50, 123456789012345678901234567890.10, 'NaN', 0.1, true, '2013-01-01 05:00+01',
     '2013-02-28', '1 year 2 days 03:04:05.6', '{"a": [1, 2.50, "x"]}', '{ "b" :1 }', '{a,"b c",NULL,"\\""}',
     '\\x00dead', 'happy', '10.0.0.1/8', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 5000) n)),
    (2, E'tab\\t, line\\n', '', NULL, -0.00, 'NaN', '-Infinity', 1e-30, false, 'infinity', '4712-01-01 BC', '-3 hours',
     '"null"', '[]', '{}', '', 'sad', '::1', ''),
    (3, '3', NULL, NULL, NULL, NULL, 1e300, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""
ALL = 'SELECT * FROM things ORDER BY id, "Second key"'


class Captured:
    """A captured table with its replication slot, and its records so far; does Spark's part of the pipeline, too."""

    def __init__(self, server: Postgres, database: str) -> None:
        self.server = server
        self.database = database
        self.url = server.create(database)
        server.sql(TABLE, database)
        self.records: list[ChangeRecord] = []
        self._done = -1

    def __enter__(self) -> Captured:
        self._connect()
        assert self.slot.set_up(self.table)
        assert not self.slot.set_up(self.table)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _connect(self) -> None:
        self._connection: Any = connect(self.url)
        self.table: SourceTable = find_table(self._connection, "things")
        self.slot = Slot(self._connection, f"slot_{self.database}")

    def first_copy(self) -> None:
        """Capture the existing rows."""
        self._done = self.slot.position() or 0
        self.records += [
            row_record(self.table.columns, row, self.table.key) for row in rows(self._connection, self.table)
        ]

    def capture(self, limit: int = 100_000) -> int:
        """Capture one micro-batch of the changes since; returns the number of its transactions."""
        end = self.slot.next_end(self._done, limit)
        found = list(self.slot.changes(self._done, end))
        for transaction in found:
            for change in transaction.changes:
                assert isinstance(change, RowChange)
                self.records += change_records(change, self.table.key)
        self._done = end
        return len(found)

    def restart(self) -> None:
        """Crash and restart the database."""
        self._connection.close()
        self.server.stop()
        self.server.start()
        self._connect()

    def sql(self, statements: str) -> str:
        """Run SQL statements in the database."""
        return self.server.sql(statements, self.database)

    def in_topic(self) -> list[TopicRow]:
        """The records with their offsets in a topic with one partition."""
        return [TopicRow(0, offset, record.key, record.value) for offset, record in enumerate(self.records)]


def keys(records: list[ChangeRecord]) -> list[tuple[int, bool]]:
    """Each record's number, and whether it has a row."""
    return [(json.loads(record.key)["id"], record.value is not None) for record in records]


def test_values_of_all_types_and_changed_keys_are_captured(database: Postgres) -> None:
    """The copy equals the table, also for large values that an update does not change."""
    with Captured(database, "kinds") as captured:
        captured.sql(ROWS)
        captured.first_copy()
        assert captured.capture() in (0, 1), "the first copy may have a transaction that the slot tells of, too"
        captured.records = captured.records[:3]
        captured.sql("UPDATE things SET money = 2 WHERE id = 1")
        captured.sql("BEGIN; UPDATE things SET id = 4 WHERE id = 2; DELETE FROM things WHERE id = 3; COMMIT")
        captured.sql("UPDATE things SET id = id + 10; UPDATE things SET short = short || '!'")
        captured.capture()
        assert keys(captured.records[3:]) == [
            *((1, True), (2, False), (4, True), (3, False)),
            *((1, False), (11, True), (4, False), (14, True)),
            *((11, True), (14, True)),
        ]
        second = database.create("kinds_copy")
        database.sql(TABLE, "kinds_copy")
        copy = TableCopy(second, "things", "topic")
        generation = copy.begin()
        for end in (2, 5, len(captured.records)):
            copy.apply(generation, captured.in_topic()[:end])
        assert database.sql(ALL, "kinds_copy") == captured.sql(ALL)


# trap: kafkalite/pipelines/changes/source.py: After a crash the database sends the transactions of a replication slot
# again.
def test_micro_batches_are_whole_transactions_and_can_be_read_again(database: Postgres) -> None:
    with Captured(database, "batches") as captured:
        captured.first_copy()
        for number in range(10):
            captured.sql(f"INSERT INTO things SELECT n, 'x' FROM generate_series({number * 10}, {number * 10 + 4}) n")
        captured.sql("CREATE TABLE other (id int); INSERT INTO other VALUES (1)")
        wanted = [(number * 10 + each, True) for number in range(10) for each in range(5)]
        assert captured.capture(limit=1) == 1
        half = captured.capture(limit=20)
        assert 1 < half < 9
        done = captured._done
        captured.slot.advance(done)
        captured.slot.advance(done - 1)
        assert captured.slot.position() == done
        captured.restart()
        assert captured.capture() == 9 - half, "also where the database has forgotten how far the slot was"
        assert keys(captured.records) == wanted
        assert captured.capture() == 0
        assert [len(each.changes) for each in captured.slot.changes(done, captured._done)] == [5] * (9 - half)
        stop = captured.slot.end_of_log()
        captured.sql("INSERT INTO things VALUES (1000, 'too late')")
        assert captured.slot.next_end(captured._done, 100, stop) == captured._done


# trap: kafkalite/pipelines/changes/postgres.py: A quiet table makes a busy database keep its log for ever.
def test_the_slot_advances_past_changes_of_other_tables(database: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the database would keep its log while the table does not change, and each capture would read all of
    it."""
    with Captured(database, "quiet") as captured:
        captured.first_copy()
        begun = captured.slot.next_end(captured._done, 100)
        assert captured.slot.quiet_end(begun) == begun, "not worth a step"
        captured.sql("CREATE TABLE noise AS SELECT n, md5(n::text) FROM generate_series(1, 10000) n")
        monkeypatch.setattr("kafkalite.pipelines.changes.postgres.QUIET", 100_000)
        stop = captured.slot.end_of_log()
        assert captured.slot.quiet_end(begun, stop) == stop
        quiet = captured.slot.quiet_end(begun)
        assert stop <= quiet
        captured.slot.advance(quiet)
        captured._done = quiet
        captured.sql("INSERT INTO things VALUES (1, 'x')")
        assert captured.slot.quiet_end(begun) == begun, "something has come"
        assert captured.capture() == 1


def test_a_slot_of_another_database_is_refused(database: Postgres) -> None:
    """The names of slots are unique in the server, not in a database."""
    with Captured(database, "one") as captured, connect(database.create("another")) as connection:
        connection.execute(TABLE)
        with pytest.raises(PipelineError, match='"slot_one" already exists'):
            Slot(connection, captured.slot.name).set_up(find_table(connection, "things"))


def test_a_capture_waits_for_a_slot_in_use(database: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server process of a killed reader may hold the slot for a while."""
    with Captured(database, "busy") as captured:
        captured.first_copy()
        statement = captured._connection.execute
        refused: list[Any] = []

        def execute(*arguments: Any) -> Any:
            if len(refused) < 2:
                refused.append(arguments)
                raise psycopg.errors.ObjectInUse("replication slot is active")
            return statement(*arguments)

        monkeypatch.setattr(captured._connection, "execute", execute)
        monkeypatch.setattr("time.sleep", lambda _: None)
        assert captured.capture() == 0
        assert len(refused) == 2


# trap: kafkalite/pipelines/changes/copy.py: A destroyed copy is continued, because the checkpoint is intact.
def test_a_copy_knows_its_position_and_detects_its_destruction(database: Postgres) -> None:
    url = database.create("copies")
    database.sql(TABLE, "copies")
    copy = TableCopy(url, "things", "topic")

    def row(offset: int, number: int, value: bool = True, partition: int = 0) -> TopicRow:
        key = json.dumps({"id": number, "Second key": "x"}).encode()
        text = json.dumps({"id": number, "Second key": "x", "short": f"v{offset}"}).encode()
        return TopicRow(partition, offset, key, text if value else None)

    def there() -> str:
        return database.sql("SELECT id, short FROM things ORDER BY id", "copies")

    first = copy.begin()
    copy.apply(first, [row(0, 1), row(1, 2), row(0, 3, partition=1)])
    copy.apply(first, [row(1, 2), row(0, 1), row(2, 2, value=False), row(3, 4)])
    assert there() == "1|v0\n3|v0\n4|v3\n"
    copy.apply(first, [row(1, 2), row(2, 4, value=False)])
    assert there() == "1|v0\n3|v0\n4|v3\n", "what it has is passed over"
    assert copy.begin() == first

    database.sql("TRUNCATE things; INSERT INTO things (id, \"Second key\") VALUES (9, 'left behind')", "copies")
    with pytest.raises(CopyLostError, match="a restart rebuilds it"):
        copy.apply(first, [row(4, 5)])
    second = copy.begin()
    assert there() == ""
    copy.apply(second, [row(0, 1)])
    with pytest.raises(CopyLostError):
        copy.apply(first, [row(9, 9)])
    assert there() == "1|v0\n"
    with pytest.raises(PipelineError, match=r"things is the copy of topic 'topic': .* DELETE FROM"):
        TableCopy(url, "things", "another topic").begin()


def test_columns_may_have_any_name(database: Postgres) -> None:
    url = database.create("names")
    table = 'CREATE TABLE "Odd 100% ""names" (key int, value text, made int, "row" int, PRIMARY KEY (key, value))'
    database.sql(table, "names")
    copy = TableCopy(url, '"Odd 100% ""names"', "topic")
    row = TopicRow(0, 0, b'{"key":1,"value":"a"}', b'{"key":1,"value":"a","made":2,"row":3}')
    copy.apply(copy.begin(), [row, row._replace(offset=1, key=b'{"key":2,"value":"b"}', value=None)])
    assert database.sql('SELECT * FROM "Odd 100% ""names"', "names") == "1|a|2|3\n"


def test_a_table_of_key_columns_only_is_copied(database: Postgres) -> None:
    url = database.create("only_keys")
    database.sql("CREATE TABLE members (a int, b int, PRIMARY KEY (a, b))", "only_keys")
    copy = TableCopy(url, "members", "topic")
    rows = [TopicRow(0, n, b'{"a":1,"b":%d}' % n, b'{"a":1,"b":%d}' % n) for n in range(3)]
    copy.apply(copy.begin(), rows)
    copy.apply(copy.begin(), [rows[0]._replace(offset=3), rows[1]._replace(offset=4, value=None)])
    assert database.sql("SELECT * FROM members ORDER BY b", "only_keys") == "1|0\n1|2\n"


@pytest.mark.parametrize(
    ("table", "said"),
    [("nothing", "no table 'nothing'"), ("keyless", "public.keyless has no primary key"), ("pg_roles", "no table")],
)
def test_unsuitable_tables_are_refused(database: Postgres, table: str, said: str) -> None:
    with connect(database.url("postgres")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS keyless (name text)")
        with pytest.raises(PipelineError, match=said):
            find_table(connection, table)


def test_a_copy_is_not_made_into_a_table_with_other_rows(database: Postgres) -> None:
    url = database.create("precious")
    database.sql(TABLE + ROWS, "precious")
    with pytest.raises(PipelineError, match="rows that are not of topic 'topic'"):
        TableCopy(url, "things", "topic").begin()
    assert database.sql("SELECT count(*) FROM things", "precious") == "3\n"


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/x", "postgresql://127.0.0.1/x?nonsense=1", "nonsense"])
def test_an_unreachable_or_invalid_address_is_an_error(url: str) -> None:
    with pytest.raises(PipelineError, match="cannot connect to the database: "):
        connect(url)
