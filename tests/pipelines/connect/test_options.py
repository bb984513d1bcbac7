"""Connect's own tables."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.pipelines.connect.job import describe
from kafkalite.pipelines.connect.options import (
    Errors,
    FileSink,
    FilesSource,
    JdbcSource,
    Options,
    parse_sink,
    parse_size,
    parse_source,
    parse_time,
)
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.options import parse_table

FILES = {"type": "files", "path": "a.log"}
TABLE = {"type": "jdbc", "url": "jdbc:postgresql://h/d", "table": "t", "incrementing": "id"}
TOPIC = {"type": "topic", "topic": "t"}


def test_kinds() -> None:
    options = parse_table(Options, {"source": FILES, "sink": {"type": "csv", "path": "out"}}, "p.toml")
    assert parse_source(options, "p.toml") == FilesSource("files", ("a.log",))
    assert parse_sink(options, "p.toml") == FileSink("csv", "out")
    options = Options(TABLE, TOPIC)
    assert parse_source(options, "p.toml") == JdbcSource("jdbc", TABLE["url"], "t", incrementing="id")


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "[source]: the key 'type' is missing: one of files, jdbc, topic"),
    ({"type": 5}, "[source]: no type 5; known are files, jdbc, topic"),
    ({**FILES, "header": True}, "[source]: 'header' is for format = \"csv\""),
    ({**FILES, "tasks": 0}, "[source]: 'tasks' must be at least 1"),
    ({**FILES, "max_bytes_per_trigger": "much"}, "[source]: 'much' is no size such as '16 MB'"),
    ({**TABLE, "query": "SELECT 1"}, "[source]: one of 'table' and 'query' is wanted"),
    ({**TABLE, "mode": "bulk"}, "[source]: the column 'incrementing' means nothing with mode = \"bulk\""),
    ({**TABLE, "mode": "timestamp+incrementing"}, "[source]: the column 'timestamp' is wanted with mode ="),
    ({**TABLE, "url": "postgres://h"}, "[source]: url 'postgres://h' is none such as jdbc:postgresql:"),
    ({**TABLE, "delay": "soon"}, "[source]: 'soon' is no time such as '5 seconds'"),
]


@pytest.mark.parametrize(("table", "message"), BAD)
def test_invalid_options_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_source(Options(table, TOPIC), "p.toml")
    assert str(caught.value).startswith(f"p.toml {message}")


@pytest.mark.parametrize("errors", [{"policy": "dead-letter"}, {"policy": "skip", "topic": "t"}])
def test_dead_letters_want_a_topic(errors: dict[str, str]) -> None:
    with pytest.raises(PipelineError, match=r"^p\.toml \[errors\]: policy = \"dead-letter\" wants a 'topic'"):
        parse_table(Options, {"source": FILES, "sink": TOPIC, "errors": errors}, "p.toml")


def test_sizes_and_times() -> None:
    assert [parse_size(text) for text in ("10", "2 kB", "16 MB", "1g")] == [10, 2048, 16 << 20, 1 << 30]
    assert [parse_time(text) for text in ("5 seconds", "200 milliseconds", "1.5 minutes")] == [5.0, 0.2, 90.0]


def test_what_goes_where() -> None:
    files = {"type": "files", "path": ["a.log", "b.log"]}
    assert describe(Options(files, TOPIC)) == "files ['a.log', 'b.log'] -> topic t, errors: fail"
    assert describe(
        Options(TABLE | {"url": "jdbc:postgresql://h/d?password=x"}, TOPIC, Errors("dead-letter", "dead"))
    ) == ("table t at jdbc:postgresql://h/d -> topic t, errors: dead")
