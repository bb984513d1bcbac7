"""Lines of files into records of the standard format."""

from __future__ import annotations

import json
import socket
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from integration.blocks import blocks_of
from kafkalite.pipelines import jobs
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.jobs.log_aggregation import LogLineRecords, LogRecord, Options, iso, joined
from kafkalite.pipelines.options import parse_table
from kafkalite.pipelines.runner import load_job, read_pipeline

EXAMPLES = Path(jobs.__file__).parents[1] / "examples"

Line = tuple[bytes, str, int]
FILES = {"files": "*.log"}


def batches(*parts: Sequence[Line]) -> list[Any]:
    """Lines as the source hands them to a task."""
    return [
        pa.RecordBatch.from_pydict(
            {name: list(column) for name, column in zip(names, zip(*part, strict=True), strict=True)}
        )
        for part in parts
        for names in [("value", "file", "position")]
    ]


def test_lines_of_one_record_come_together_from_batch_to_batch() -> None:
    parts = batches([(b"one", "a", 0), (b" more", "a", 4)], [(b" and more", "a", 10), (b"two", "a", 20)])
    assert list(joined(parts)) == [LogRecord("one\n more\n and more", "a", 0), LogRecord("two", "a", 20)]


@pytest.mark.parametrize(
    ("follower", "records"),
    [
        ((b" x", "a", 4), [LogRecord("one\n x", "a", 0)]),
        ((b" x", "a", 5), [LogRecord("one\n x", "a", 0)]),
        ((b" x", "a", 6), [LogRecord("one", "a", 0), LogRecord(" x", "a", 6)]),
        ((b" x", "a", 0), [LogRecord("one", "a", 0), LogRecord(" x", "a", 0)]),
        ((b" x", "b", 4), [LogRecord("one", "a", 0), LogRecord(" x", "b", 4)]),
    ],
)
def test_a_line_goes_on_only_with_the_one_before_it(follower: Line, records: list[LogRecord]) -> None:
    assert list(joined(batches([(b"one", "a", 0), follower]))) == records


def test_bytes_that_are_no_text() -> None:
    assert list(joined(batches([(b"\xff!", "a", 0)]))) == [LogRecord("\ufffd!", "a", 0)]


def made(options: Options, *lines: Line) -> list[tuple[str, dict[str, Any]]]:
    """Key and value of each record."""
    return [
        (row["key"], json.loads(row["value"]))
        for batch in LogLineRecords(options)(batches(lines))
        for row in batch.to_pylist()
    ]


def test_a_record_in_the_standard_format() -> None:
    options = Options("*.log", origin=r"/(?P<host>[^/]+)/(?P<process>\w+)")  # type: ignore[arg-type]
    path = "/web-1/orders.log.3"
    first = b"2026-02-28 09:05:07,123 [main] ERROR shop.Orders - sold out \xe2\x80\xa6"
    key, value = made(options, (first, path, 7), (b"\tat shop.Orders", path, 7 + len(first) + 1))[0]
    assert key == "web-1/orders"
    assert value == {
        "timestamp": "2026-02-28T09:05:07.123Z",
        "host": "web-1",
        "process": "orders",
        "level": "ERROR",
        "message": "sold out …\n\tat shop.Orders",
        "logger": "shop.Orders",
        "file": path,
        "position": 7,
    }


@pytest.mark.parametrize(
    ("line", "path", "key"),
    [
        (b"<11>Feb 28 09:05:07 mx1 cron: x", "/web-1/orders.log", "mx1/cron"),
        (b"~~", "/web-1/orders.log", "web-1/orders"),
        (b"~~", "/elsewhere.log.1", f"{socket.gethostname()}/elsewhere"),
        (b"~~", "/.hidden", f"{socket.gethostname()}/.hidden"),
    ],
)
def test_a_record_names_its_host_and_process(line: bytes, path: str, key: str) -> None:
    options = Options("*.log", origin="/(?P<host>web[^/]+)/(?P<process>[^.]+)")  # type: ignore[arg-type]
    assert made(options, (line, path, 0))[0][0] == key


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime(2026, 3, 1, 12, tzinfo=UTC), "2026-03-01T12:00:00.000Z"),
        (datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=1))), "2026-03-01T11:00:00.000001Z"),
    ],
)
def test_times(time: datetime, text: str) -> None:
    assert iso(time) == text


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "neither 'files' to read nor an 'archive' to write"),
        ({**FILES, "formats": ["log5j"]}, "there is no log format 'log5j'"),
        ({**FILES, "timezone": "Mars"}, "there is no time zone 'Mars'"),
        ({**FILES, "settle": "soon"}, "'soon' is no length of time"),
        ({**FILES, "origin": "("}, r"origin = '\(': missing \)"),
        ({**FILES, "origin": "(?P<name>x)"}, "there are the groups host and process, not name"),
    ],
)
def test_options_that_make_no_sense(table: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineError, match=f"here: .*{said}"):
        parse_table(Options, table, "here")


def test_the_example() -> None:
    options = load_job(read_pipeline(EXAMPLES / "log-aggregation.toml")).options
    assert isinstance(options, Options)
    assert options == Options(options.files, origin=options.origin, archive=options.archive)


def test_the_docs() -> None:
    (table, record) = blocks_of("docs/pipelines.md", __file__)
    options = parse_table(Options, tomllib.loads(table.text)["options"], "docs")
    assert options == load_job(read_pipeline(EXAMPLES / "log-aggregation.toml")).options
    path = "/var/log/hosts/web-1/orders.log"
    first = b"[2026-03-01 12:00:00,123] ERROR no stock (shop.Orders)"
    [(_, value)] = made(options, (first, path, 10240), ("\tat …".encode(), path, 10240 + len(first) + 1))
    assert value == json.loads(record.text)
