"""Connect's job with a real PostgreSQL copies each row once, from tables to topics and back, also when interrupted."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from integration.harness.clients import fresh_topic
from integration.pipelines.conftest import Pipelines
from integration.pipelines.postgres import Postgres
from integration.pipelines.reading import json_records
from integration.spark.topics import new_topic
from kafkalite.pipelines.connect.jdbc import JdbcConnection
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.errors import PipelineError

CUSTOMERS = """
    CREATE TABLE customers (
        id INT PRIMARY KEY, name TEXT, credit NUMERIC(10, 2), changed TIMESTAMP(3) NOT NULL DEFAULT clock_timestamp())
"""


@pytest.fixture
def shop(database: Postgres) -> str:
    """The name of a new database with a table of customers."""
    name = fresh_topic("shop").replace("-", "_")
    database.create(name)
    database.sql(CUSTOMERS, name)
    return name


def insert(database: Postgres, shop: str, numbers: Sequence[int]) -> None:
    """Insert customers with these numbers."""
    values = ", ".join(f"({number}, 'name {number}', {number}.25)" for number in numbers)
    database.sql(f"INSERT INTO customers (id, name, credit) VALUES {values}", shop)


def into_topic(database: Postgres, shop: str, topic: str, mode: str) -> str:
    """TOML of a pipeline that copies the customers to a topic."""
    return f"""
        [source]
        type = "jdbc"
        url = "{database.jdbc_url(shop)}"
        table = "customers"
        delay = "0 seconds"
        {mode}
        [sink]
        type = "topic"
        topic = "{topic}"
        key = "id"
    """


def customers(pipelines: Pipelines, topic: str) -> list[tuple[str, str, float]]:
    """Number, name and credit of all records, whose keys must be the number."""
    found = [(key, value["name"], value["credit"]) for key, value in json_records(pipelines.bootstrap, topic)]
    return sorted(found, key=lambda one: (int(one[0]), one))


def customer(number: int, name: str | None = None) -> tuple[str, str, float]:
    """The expected record of a customer."""
    return str(number), name or f"name {number}", number + 0.25


# trap: kafkalite/pipelines/connect/jdbc_source.py: A repeated round over a table finds other rows, so its bounds are
# durable before the first read.
@pytest.mark.full
def test_rows_with_growing_numbers_are_copied_once(pipelines: Pipelines, database: Postgres, shop: str) -> None:
    """Three rounds; the second finds no new rows, and the third is interrupted after its rows are written."""
    topic = new_topic(pipelines.cluster, "customers", 2)
    tables = into_topic(database, shop, topic, 'mode = "incrementing"\nincrementing = "id"')
    insert(database, shop, range(1, 50))
    pipelines.run("numbers", tables)
    pipelines.run("numbers", tables)
    assert customers(pipelines, topic) == [customer(number) for number in range(1, 50)]
    insert(database, shop, range(50, 80))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "write_once", cut_short_after(Context.write_once))
        with pytest.raises(PipelineError, match="cut short"):
            pipelines.run("numbers", tables)
    insert(database, shop, range(80, 90))
    pipelines.run("numbers", tables)
    pipelines.run("numbers", tables)
    assert customers(pipelines, topic) == [customer(number) for number in range(1, 90)]


def cut_short_after(step: Any) -> Any:
    """``step`` followed by an error, like a process that dies after the step."""

    def done(*arguments: Any) -> None:
        step(*arguments)
        raise RuntimeError("cut short")

    return done


def test_changed_rows_are_copied_again(pipelines: Pipelines, database: Postgres, shop: str) -> None:
    """Rows are ordered by the time of their last change, and by their number at equal times."""
    topic = new_topic(pipelines.cluster, "customers", 2)
    mode = 'mode = "timestamp+incrementing"\ntimestamp = "changed"\nincrementing = "id"'
    tables = into_topic(database, shop, topic, mode)
    insert(database, shop, range(1, 20))
    pipelines.run("changes", tables)
    database.sql("UPDATE customers SET name = 'new', changed = clock_timestamp() WHERE id % 5 = 0", shop)
    database.sql("INSERT INTO customers SELECT 20, 'name 20', 20.25, max(changed) FROM customers", shop)
    pipelines.run("changes", tables)
    expected = [customer(number) for number in range(1, 21)] + [customer(number, "new") for number in (5, 10, 15)]
    assert customers(pipelines, topic) == sorted(expected, key=lambda one: (int(one[0]), one))


def test_a_bulk_copy_reads_the_whole_table_in_each_round(pipelines: Pipelines, database: Postgres, shop: str) -> None:
    topic = new_topic(pipelines.cluster, "customers", 2)
    tables = into_topic(database, shop, topic, 'mode = "bulk"')
    insert(database, shop, [1, 2])
    pipelines.run("bulk", tables)
    pipelines.run("bulk", tables)
    assert customers(pipelines, topic) == [customer(1), customer(1), customer(2), customer(2)]


def from_topic(database: Postgres, shop: str, topic: str) -> str:
    """TOML of a pipeline that copies a topic to the table of customers."""
    return f"""
        [source]
        type = "topic"
        topic = "{topic}"
        schema = "id INT, name STRING, credit DECIMAL(10, 2)"
        key_schema = "id INT"
        max_offsets_per_trigger = 150
        [sink]
        type = "jdbc"
        url = "{database.jdbc_url(shop)}"
        table = "customers"
        key = "id"
        delete = true
    """


class Changes:
    """Changes of customers, in a topic and in a dict with the expected rows of the table."""

    def __init__(self, pipelines: Pipelines, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": pipelines.bootstrap})
        self._topic = topic
        self._chance = random.Random(5)
        self.table: dict[int, str] = {}

    def make(self, count: int) -> None:
        """Make ``count`` more changes, every fourth a deletion."""
        for number in range(count):
            customer = self._chance.randrange(40)
            if self._chance.random() < 0.25:
                self.table.pop(customer, None)
                value = None
            else:
                self.table[customer] = f"name {number}"
                value = json.dumps({"id": customer, "name": self.table[customer], "credit": 1.5}).encode()
            self._producer.produce(self._topic, key=str(customer).encode(), value=value)
        assert self._producer.flush(60) == 0


def stored(database: Postgres, shop: str) -> dict[int, str]:
    """The table, read by PostgreSQL's own client."""
    lines = database.sql("SELECT id, name FROM customers WHERE credit = 1.5", shop).splitlines()
    return {int(number): name for number, _, name in (line.partition("|") for line in lines)}


def test_a_topic_is_copied_to_a_table(pipelines: Pipelines, database: Postgres, shop: str) -> None:
    """Rows are inserted, changed and deleted by key, over several micro-batches and two runs."""
    topic = new_topic(pipelines.cluster, "customers", 3)
    changes = Changes(pipelines, topic)
    changes.make(400)
    pipelines.run("table", from_topic(database, shop, topic))
    assert stored(database, shop) == changes.table
    changes.make(50)
    pipelines.run("table", from_topic(database, shop, topic))
    assert stored(database, shop) == changes.table


CUTS = ["INSERT INTO customers", "DELETE FROM customers", "DELETE FROM kafkalite_stage", "commit"]
COUNTING = """
    CREATE TABLE written (count INT);
    INSERT INTO written VALUES (0);
    CREATE FUNCTION count_written() RETURNS TRIGGER AS
        'BEGIN UPDATE written SET count = count + 1; RETURN NEW; END' LANGUAGE plpgsql;
    CREATE TRIGGER written AFTER INSERT OR UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION count_written();
"""


# trap: kafkalite/pipelines/connect/jdbc_sink.py: The database has a micro-batch that is not in Spark's checkpoint, so
# the merge records the batch in its own transaction.
@pytest.mark.parametrize("cut", [*(pytest.param(cut, marks=pytest.mark.full) for cut in CUTS[:-1]), CUTS[-1]])
def test_an_interrupted_copy_to_a_table_writes_each_row_once(
    pipelines: Pipelines, database: Postgres, shop: str, cut: str
) -> None:
    """Interrupted in the middle of the transaction, and after it before Spark's commit. A trigger of the database
    counts the written rows."""
    database.sql(COUNTING, shop)
    topic = new_topic(pipelines.cluster, "customers", 1)
    changes = Changes(pipelines, topic)
    changes.make(60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JdbcConnection, "execute", failing_once(JdbcConnection.execute, cut))
        with pytest.raises(PipelineError, match="cut short"):
            pipelines.run("cut", from_topic(database, shop, topic))
    pipelines.run("cut", from_topic(database, shop, topic))
    assert stored(database, shop) == changes.table
    assert int(database.sql("SELECT count FROM written", shop)) == len(changes.table)


def failing_once(execute: Any, cut: str) -> Any:
    """``execute`` that fails once: at the statement of the merging transaction that begins with ``cut``, or after its
    commit, so that the result is lost."""
    steps: list[str] = []

    def counted(connection: JdbcConnection, sql: str, *parameters: object) -> int:
        merging = bool(steps) or sql.startswith(CUTS[0])
        if merging and sql.startswith(CUTS[2] if cut == "commit" else cut) and "failed" not in steps:
            steps.append("failed")
            if cut == "commit":
                connection.commit()
            raise RuntimeError("cut short")
        if merging:
            steps.append(sql)
        changed: int = execute(connection, sql, *parameters)
        return changed

    return counted
