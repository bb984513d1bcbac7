"""The functions of ``kafkalite.pipelines.streams`` over known micro-batches, compared with plain Python."""

from __future__ import annotations

import json
import os
import random
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from integration.blocks import blocks_of
from integration.harness.records import Item
from integration.pipelines.conftest import Pipelines
from integration.pipelines.reading import json_records
from integration.spark.topics import new_topic, produce
from kafkalite.pipelines.streams.filters import complete, keep, split
from kafkalite.pipelines.streams.joins import with_stream, with_table
from kafkalite.pipelines.streams.sessions import sessions
from kafkalite.pipelines.streams.state import deduplicated, latest, running
from kafkalite.pipelines.streams.values import MALFORMED, from_csv, from_json, to_record
from kafkalite.pipelines.streams.windows import windowed, windowed_averages, windowed_counts

Fields = dict[str, Any]
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = "at TIMESTAMP, sensor STRING, value INT"


def at(seconds: float) -> datetime:
    """A time ``seconds`` after the beginning of the tests' data."""
    return START + timedelta(seconds=seconds)


def reading(seconds: float, sensor: str | None, value: int | None) -> Fields:
    """A row of :data:`SCHEMA`."""
    return {"at": at(seconds).isoformat(), "sensor": sensor, "value": value}


def many(seed: int, batches: int, rows: int = 40) -> list[list[Fields]]:
    """Readings of three sensors, a minute in each micro-batch, unordered within it."""
    rng = random.Random(seed)
    return [
        [
            reading(60 * batch + rng.randrange(60), rng.choice("abc"), rng.choice([None, *range(20)]))
            for _ in range(rows)
        ]
        for batch in range(batches)
    ]


def moment(row: Fields) -> datetime:
    """The time of a row."""
    return datetime.fromisoformat(row["at"])


class Streams:
    """Streams with given micro-batches, and the results of queries over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._folder = folder
        self._count = 0

    def of(self, batches: Sequence[Sequence[Fields]], schema: str = SCHEMA) -> DataFrame:
        """A stream of one micro-batch for each of ``batches``: files of JSON lines, one at a time in their order."""
        folder = self._new_folder()
        for number, rows in enumerate(batches):
            path = folder / f"{number}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (number + 1, number + 1))
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))

    def values(self, batches: Sequence[Sequence[str | None]]) -> DataFrame:
        """A stream of a topic's records that have only values and offsets."""
        offset = iter(range(10**6))
        rows = [[{"value": value, "offset": next(offset)} for value in batch] for batch in batches]
        return self.of(rows, "value STRING, offset BIGINT").withColumn("value", sql.col("value").cast("binary"))

    def run(self, frame: DataFrame, mode: str = "append") -> list[list[Fields]]:
        """The rows of each micro-batch that has any, with times as datetimes in UTC."""
        found: list[list[Fields]] = []

        def take(batch: DataFrame, _number: int) -> None:
            if rows := [json.loads(text) for (text,) in batch.select(sql.to_json(sql.struct("*"))).collect()]:
                found.append([with_times(row) for row in rows])

        writer = frame.writeStream.foreachBatch(take).outputMode(mode)
        query = writer.option("checkpointLocation", str(self._new_folder())).trigger(availableNow=True).start()
        query.awaitTermination()
        return found

    def rows(self, frame: DataFrame, mode: str = "append") -> list[Fields]:
        """All result rows, in the order of the micro-batches."""
        return [row for batch in self.run(frame, mode) for row in batch]

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder


def with_times(value: Any) -> Any:
    """Replaces the texts in JSON that are times by datetimes."""
    if isinstance(value, dict):
        return {name: with_times(each) for name, each in value.items()}
    if isinstance(value, str) and value.startswith("20") and value.endswith("Z"):
        return datetime.fromisoformat(value)
    return value


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    """Streams for one test."""
    return Streams(spark, tmp_path)


def grouped(rows: Sequence[Fields], key: Callable[[Fields], Any]) -> Mapping[Any, list[Fields]]:
    """The rows of each key."""
    groups: dict[Any, list[Fields]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def flat(batches: Sequence[Sequence[Fields]]) -> list[Fields]:
    """All rows."""
    return [row for batch in batches for row in batch]


def in_order(rows: Sequence[Fields]) -> list[Fields]:
    """Rows in a canonical order."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


# --- together


def test_the_job_of_the_docs(pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/pipelines.md, over a topic in two runs."""
    (block,) = blocks_of("docs/pipelines.md", __file__)
    module = types.ModuleType("docs.alarms")
    monkeypatch.setitem(sys.modules, "docs", types.ModuleType("docs"))
    monkeypatch.setitem(sys.modules, "docs.alarms", module)
    exec(block.text, vars(module))
    source, target = (new_topic(pipelines.cluster, name) for name in ("readings", "alarms"))
    batches = many(10, 4)
    options = f'[options]\nreadings = "{source}"\nalarms = "{target}"\nlimit = 9.5\n'
    for part in (batches[:2], [*batches[2:], [reading(400, "z", 0)]]):
        lines = [json.dumps(row).encode() for row in flat(part)] + [b"no reading"]
        produce(pipelines.cluster, source, [Item(0, 0, None, line, ()) for line in lines])
        pipelines.run("alarms", options, "docs.alarms")
    expected = {}
    for (start, sensor), rows in grouped(
        flat(batches), lambda row: (windows_of(moment(row), 60, 60)[0], row["sensor"])
    ).items():
        values = [row["value"] for row in rows if row["value"] is not None]
        if sum(values) / len(values) > 9.5:
            expected[(start, sensor)] = (len(rows), sum(values) / len(values))
    found = [value for _, value in json_records(pipelines.bootstrap, target)]
    assert len(found) == len(expected) > 2
    assert {
        (datetime.fromisoformat(each["window"]["start"]), each["sensor"]): (each["count"], each["average_value"])
        for each in found
    } == expected


# --- values


def test_json_values(streams: Streams) -> None:
    records = streams.values([['{"sensor": "a", "value": 7}', '{"value": 8, "more": 1}'], [None]])
    assert streams.rows(from_json(records, "sensor STRING, value INT", keep=["offset"])) == [
        {"offset": 0, "sensor": "a", "value": 7},
        {"offset": 1, "value": 8},
        {"offset": 2},
    ]


@pytest.mark.parametrize("read", [from_json, from_csv])
def test_values_that_cannot_be_read(streams: Streams, read: Callable[..., DataFrame]) -> None:
    good, bad = {from_json: ('{"sensor": "a", "value": 7}', '{"sensor": "a", "value": "x'), from_csv: ("a,7", "a,x")}[
        read
    ]
    records = streams.values([[good, bad], [good]])
    schema = "sensor STRING, value INT"
    fine = {"sensor": "a", "value": 7}
    assert streams.rows(read(records, schema, errors="skip")) == [fine, fine]
    kept = streams.rows(read(records, schema, errors="keep"))
    assert [row.get(MALFORMED) for row in kept] == [None, bad, None]
    with pytest.raises(StreamingQueryException):
        streams.rows(read(records, schema, errors="fail"))


@pytest.mark.full
def test_csv_values(streams: Streams) -> None:
    records = streams.values([['a,7,"x, y"', "b,NA,"]])
    assert streams.rows(from_csv(records, "sensor STRING, value INT, note STRING", null="NA")) == [
        {"sensor": "a", "value": 7, "note": "x, y"},
        {"sensor": "b"},
    ]


def test_columns_as_records(streams: Streams) -> None:
    rows = streams.of([[reading(0, "a", 7)], [reading(1, "b", None)]])
    assert streams.rows(to_record(rows, key="sensor")) == [
        {"key": "a", "value": '{"at":"2026-03-01T12:00:00.000Z","sensor":"a","value":7}'},
        {"key": "b", "value": '{"at":"2026-03-01T12:00:01.000Z","sensor":"b","value":null}'},
    ]
    assert streams.rows(to_record(rows, key=["sensor", "value"], value="value")) == [
        {"key": '{"sensor":"a","value":7}', "value": "7"},
        {"key": '{"sensor":"b","value":null}'},
    ]
    assert to_record(rows, value=["sensor"]).columns == ["value"]


# --- filters


# trap: kafkalite/pipelines/streams/filters.py: A null condition is neither true nor false; `split` must lose no row.
def test_filters(streams: Streams) -> None:
    batches = many(1, 3)
    everything, frame = flat(batches), streams.of(batches)

    def values(frame: DataFrame) -> list[tuple[Any, Any]]:
        return sorted(((row["sensor"], row.get("value", -1)) for row in streams.rows(frame)), key=repr)

    def expected(condition: Callable[[Fields], bool]) -> list[tuple[Any, Any]]:
        kept = [row for row in everything if condition(row)]
        return sorted(((row["sensor"], -1 if row["value"] is None else row["value"]) for row in kept), key=repr)

    def high(row: Fields) -> bool:
        return row["value"] is not None and row["value"] > 9

    kept, rest = split(frame, "value > 9")
    assert values(keep(frame, sql.col("value") > 9)) == values(kept) == expected(high)
    assert values(rest) == expected(lambda row: not high(row)), "nulls are among the rest"
    assert values(complete(frame, ["sensor", "value"])) == expected(lambda row: row["value"] is not None)


# --- windows


def windows_of(when: datetime, size: int, slide: int) -> list[datetime]:
    """The beginnings of the windows that contain a time."""
    second = int(when.timestamp())
    last = second - second % slide
    return [datetime.fromtimestamp(start, UTC) for start in range(last, second - size, -slide)]


def window(start: datetime, size: int) -> Fields:
    """A window in Spark's format."""
    return {"start": start, "end": start + timedelta(seconds=size)}


def test_windowed_counts_come_once_when_they_are_closed(streams: Streams) -> None:
    batches = [*many(2, 4), [reading(600, "z", 0)]]
    found = streams.run(
        windowed_counts(streams.of(batches), time="at", size="30 seconds", by=["sensor"], late="0 seconds")
    )
    groups = grouped(flat(batches[:-1]), lambda row: (windows_of(moment(row), 30, 30)[0], row["sensor"]))
    expected = [
        {"window": window(start, 30), "sensor": sensor, "count": len(rows)} for (start, sensor), rows in groups.items()
    ]
    assert in_order(flat(found)) == in_order(expected)
    assert len(found) > 2, "windows come as they are closed, not all at the end"


@pytest.mark.full
def test_windowed_averages_that_slide_and_change(streams: Streams) -> None:
    batches = many(3, 3)
    frame = windowed_averages(
        streams.of(batches), ["value"], time="at", size="1 minute", slide="20 seconds", late="1 hour"
    )
    newest = {row["window"]["start"]: row for row in streams.rows(frame, "update")}
    groups: dict[datetime, list[Fields]] = defaultdict(list)
    for row in flat(batches):
        for start in windows_of(moment(row), 60, 20):
            groups[start].append(row)
    assert newest.keys() == groups.keys()
    for start, rows in groups.items():
        values = [row["value"] for row in rows if row["value"] is not None]
        assert newest[start] == {
            "window": window(start, 60),
            "count": len(rows),
            "average_value": sum(values) / len(values),
        }


# trap: kafkalite/pipelines/streams/windows.py: Spark compares rows with the watermark of the batch before.
@pytest.mark.full
def test_rows_behind_the_watermark_count_no_more(streams: Streams) -> None:
    batches = [[reading(5, "a", 1)], [reading(100, "a", 10)], [reading(102, "a", 0)]]
    batches += [[reading(6, "a", 100), reading(101, "a", 1000)], [reading(1000, "a", 0)]]
    frame = windowed(
        streams.of(batches), sql.sum("value").alias("sum"), time="at", size="10 seconds", late="20 seconds"
    )
    assert [(row["window"]["start"], row["sum"]) for row in streams.rows(frame)] == [(at(0), 1), (at(100), 1010)]
    forgiving = windowed(
        streams.of(batches), sql.sum("value").alias("sum"), time="at", size="10 seconds", late="1 hour"
    )
    changes = {row["window"]["start"]: row["sum"] for row in streams.rows(forgiving, "update")}
    assert changes == {at(0): 101, at(100): 1010, at(1000): 0}


# --- joins


@pytest.mark.full
def test_a_stream_beside_a_table(streams: Streams) -> None:
    batches = [*many(4, 2), [reading(200, None, 1)]]
    places = {"a": "attic", "b": "basement"}
    table = streams.spark.createDataFrame(list(places.items()), "name STRING, place STRING")
    joined = with_table(streams.of(batches), table, {"sensor": "name"})
    assert joined.columns == ["at", "sensor", "value", "place"]
    expected = [(row["sensor"], row["value"], places.get(row["sensor"])) for row in flat(batches)]
    found = [(row.get("sensor"), row.get("value"), row.get("place")) for row in streams.rows(joined)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    inner = with_table(streams.of(batches), table.withColumnRenamed("name", "sensor"), ["sensor"], how="inner")
    assert sorted((row["sensor"], row["place"]) for row in streams.rows(inner)) == sorted(
        (row["sensor"], places[row["sensor"]]) for row in flat(batches) if row["sensor"] in places
    )


def test_a_column_of_both_sides_is_refused(streams: Streams) -> None:
    table = streams.spark.createDataFrame([("a", 1)], "sensor STRING, value INT")
    with pytest.raises(ValueError, match="columns of both sides besides the key: value; rename"):
        with_table(streams.of([]), table, ["sensor"])


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_stream_beside_a_stream(streams: Streams, how: Any) -> None:
    """Alarms from 2 seconds before to 10 seconds after a reading; the last rows move the watermark past all others."""
    readings = [*many(5, 2, rows=15), [reading(500, "z", 0)]]
    rng = random.Random(6)
    alarms = [
        [{"raised": at(60 * n + rng.randrange(60)).isoformat(), "sensor": rng.choice("ab"), "level": n}] * 2
        for n in range(2)
    ]
    alarms.append([{"raised": at(500).isoformat(), "sensor": "y", "level": 9}])
    joined = with_stream(
        streams.of(readings),
        streams.of(alarms, "raised TIMESTAMP, sensor STRING, level INT"),
        ["sensor"],
        left_time="at",
        right_time="raised",
        within="10 seconds",
        before="2 seconds",
        late="5 seconds",
        how=how,
    )
    expected: list[tuple[Any, ...]] = []
    for row in flat(readings[:-1]):
        near = [
            alarm
            for alarm in flat(alarms)
            if alarm["sensor"] == row["sensor"]
            and -2 <= (datetime.fromisoformat(alarm["raised"]) - moment(row)).total_seconds() <= 10
        ]
        expected += [(moment(row), row["sensor"], row["value"], alarm["level"]) for alarm in near]
        if how == "left" and not near:
            expected.append((moment(row), row["sensor"], row["value"], None))
    found = [(row["at"], row["sensor"], row.get("value"), row.get("level")) for row in streams.rows(joined)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert any(row[3] is not None for row in expected), "some meet"


# --- sessions


@pytest.mark.full
def test_sessions(streams: Streams) -> None:
    batches = [*many(7, 5, rows=6), [reading(600, "d", 0), reading(615, "d", 0), reading(630.001, "d", 0)]]
    batches.append([reading(1000, "z", 0)])
    frame = sessions(
        streams.of(batches), sql.count("*").alias("rows"), time="at", gap="15 seconds", by=["sensor"], late="5 seconds"
    )
    expected = []
    for sensor, rows in grouped(flat(batches[:-1]), lambda row: row["sensor"]).items():
        times = sorted(moment(row) for row in rows)
        starts = [0, *(n for n, (one, two) in enumerate(pairwise(times), 1) if two - one > timedelta(seconds=15))]
        for first, end in pairwise([*starts, len(times)]):
            session = {"start": times[first], "end": times[end - 1] + timedelta(seconds=15)}
            expected.append({"session": session, "sensor": sensor, "rows": end - first})
    found = streams.run(frame)
    assert in_order(flat(found)) == in_order(expected)
    assert len(found) > 1, "sessions come as they end"
    assert len(expected) > 6


# --- state


def test_the_latest_of_each_key(streams: Streams) -> None:
    batches = many(8, 3)
    for number, row in enumerate(flat(batches)):
        row["offset"] = number
    batches[2].insert(0, batches[0][0])  # a repeated old row changes nothing
    frame = latest(streams.of(batches, SCHEMA + ", offset BIGINT"), by=["sensor"], order=["offset"])
    found = {row["sensor"]: row for row in streams.rows(frame, "update")}
    assert frame.columns == ["sensor", "at", "value", "offset"]
    assert {sensor: (row["offset"], row.get("value")) for sensor, row in found.items()} == {
        sensor: (rows[-1]["offset"], rows[-1]["value"])
        for sensor, rows in grouped(
            sorted(flat(batches), key=lambda row: row["offset"]), lambda row: row["sensor"]
        ).items()
    }


@pytest.mark.full
def test_running_aggregates(streams: Streams) -> None:
    batches = many(9, 3)
    found = streams.run(
        running(streams.of(batches), sql.sum("value").alias("sum"), sql.count("*").alias("rows"), by=["sensor"]),
        "update",
    )
    assert len(found) == 3
    for number, batch in enumerate(found):
        so_far = grouped(flat(batches[: number + 1]), lambda row: row["sensor"])
        assert {row["sensor"]: (row["sum"], row["rows"]) for row in batch} == {
            sensor: (sum(row["value"] or 0 for row in rows), len(rows)) for sensor, rows in so_far.items()
        }


def test_deduplicated(streams: Streams) -> None:
    """Readings with equal values count once, for ever or until the watermark has passed the first one."""
    batches = [[reading(0, "a", 1)] * 2, [reading(20, "a", 1), reading(20, "b", 1)], [reading(300, "c", 1)]]
    batches += [[reading(310, "b", 1)], [reading(311, "b", 1)], [reading(312, "a", 1)]]

    def first(frame: DataFrame) -> list[tuple[str, datetime]]:
        return [
            (row["sensor"], row["at"])
            for row in sorted(streams.rows(frame), key=lambda row: (row["at"], row["sensor"]))
        ]

    ever = deduplicated(streams.of(batches), by=["sensor"])
    assert first(ever) == [("a", at(0)), ("b", at(20)), ("c", at(300))]
    a_minute = deduplicated(streams.of(batches), by=["sensor"], time="at", late="1 minute")
    assert first(a_minute) == [("a", at(0)), ("b", at(20)), ("c", at(300)), ("b", at(311)), ("a", at(312))]
