"""The tables of a Connect pipeline's file: ``[source]``, ``[sink]``, ``[errors]``.

Answers to: ``org.apache.kafka.connect.runtime.{SourceConnectorConfig,SinkConnectorConfig}``. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kafkalite.pipelines.connect.sql import database_kind
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.options import parse_table

Format = Literal["text", "csv", "json"]
_SIZE = re.compile(r"\s*(\d+)\s*([kmg]?)b?\s*", re.IGNORECASE)
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(millisecond|second|minute|hour)s?\s*")
_SECONDS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}


def parse_size(text: str) -> int:
    """Bytes of ``16 MB``, ``512k``, ``100``. Raises ``ValueError``."""
    match = _SIZE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is no size such as '16 MB'")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]


def parse_time(text: str) -> float:
    """Seconds of ``5 seconds``, ``200 milliseconds``. Raises ``ValueError``."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time such as '5 seconds'")
    return float(match[1]) * _SECONDS[match[2]]


@dataclass(frozen=True)
class RecordFormat:
    """The conversion of bytes to columns. ``schema`` is a list of columns as in SQL (``id INT NOT NULL, name STRING``);
    ``reader`` are options of Spark's readers of that format (``sep``, ``nullValue``, ``timestampFormat``, …)."""

    format: Format
    schema: str | None = None
    reader: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FilesSource:
    """``type = "files"``: ``path`` are patterns of files that grow; ``header``: the first line of a CSV file names its
    columns; ``max_bytes_per_trigger`` bounds a micro-batch, ``tasks`` how many read at once. ``copies``: what a file
    loses that is cut (copytruncate) is read from the copy beside it."""

    type: Literal["files"]
    path: tuple[str, ...]
    format: Format = "text"
    schema: str | None = None
    header: bool = False
    max_bytes_per_trigger: str = "16 MB"
    tasks: int = 4
    copies: bool = False
    fail_on_data_loss: bool = True
    reader: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parse_size(self.max_bytes_per_trigger)
        if self.header and self.format != "csv":
            raise ValueError("'header' is for format = \"csv\"")
        if self.tasks < 1:
            raise ValueError("'tasks' must be at least 1")


@dataclass(frozen=True)
class JdbcSource:
    """``type = "jdbc"``: the new rows of ``table`` (or of the ``query``) with every trigger, as ``mode`` finds them:
    all of them (``bulk``), by a column that only grows (``incrementing``), by that of the last change (``timestamp``),
    or by both. Rows younger than ``delay`` wait: transactions that are still open may have older ones."""

    type: Literal["jdbc"]
    url: str
    table: str | None = None
    query: str | None = None
    mode: Literal["bulk", "incrementing", "timestamp", "timestamp+incrementing"] = "incrementing"
    incrementing: str | None = None
    timestamp: str | None = None
    delay: str = "1 second"
    user: str | None = None
    password: str | None = None
    driver: str | None = None
    fetch_size: int = 1000

    def __post_init__(self) -> None:
        parse_time(self.delay)
        database_kind(self.url)
        if (self.table is None) == (self.query is None):
            raise ValueError("one of 'table' and 'query' is wanted")
        for name in ("incrementing", "timestamp"):
            if (name in self.mode) != (getattr(self, name) is not None):
                wanted = "is wanted" if name in self.mode else "means nothing"
                raise ValueError(f"the column '{name}' {wanted} with mode = \"{self.mode}\"")


@dataclass(frozen=True)
class TopicSource:
    """``type = "topic"``: the records of a topic. ``key_schema`` are the columns of the key, which is of ``key_format``
    (a single column may be plain text). ``metadata`` adds ``_topic``, ``_partition``, ``_offset`` and
    ``_timestamp``."""

    type: Literal["topic"]
    topic: str
    format: Format = "json"
    schema: str | None = None
    key_format: Format = "text"
    key_schema: str | None = None
    metadata: bool = False
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int = 100_000
    fail_on_data_loss: bool = True
    reader: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicSink:
    """``type = "topic"``: rows as records. ``key`` names the key's columns: one alone is text, several are JSON.
    ``format`` of the value: json, csv, or text (the only column). ``partitions``: the topic is created where it is not
    there."""

    type: Literal["topic"]
    topic: str
    key: tuple[str, ...] = ()
    format: Format = "json"
    partitions: int | None = None
    writer: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FileSink:
    """``type = "parquet"``, ``"csv"`` or ``"json"``: files below ``path``, in folders by ``partition_by``; ``writer``
    are options of Spark's writer (``compression``, ``header``, ``sep``, …)."""

    type: Literal["parquet", "csv", "json"]
    path: str
    partition_by: tuple[str, ...] = ()
    writer: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JdbcSink:
    """``type = "jdbc"``: rows are inserted into ``table``, or take the place of the one with the same ``key``. A record
    whose value is null deletes that row where ``delete`` says so."""

    type: Literal["jdbc"]
    url: str
    table: str
    key: tuple[str, ...]
    delete: bool = False
    user: str | None = None
    password: str | None = None
    driver: str | None = None
    batch_size: int = 1000

    def __post_init__(self) -> None:
        database_kind(self.url)


@dataclass(frozen=True)
class Errors:
    """The handling of a record that does not fit the schema: the pipeline fails, skips it, or writes it to
    ``topic``, with the reason in its headers."""

    policy: Literal["fail", "skip", "dead-letter"] = "fail"
    topic: str | None = None

    def __post_init__(self) -> None:
        if (self.policy == "dead-letter") != (self.topic is not None):
            raise ValueError("policy = \"dead-letter\" wants a 'topic', and only that one does")


Source = FilesSource | JdbcSource | TopicSource
Sink = TopicSink | FileSink | JdbcSink
_SOURCES: dict[str, type[Any]] = {"files": FilesSource, "jdbc": JdbcSource, "topic": TopicSource}
_SINKS: dict[str, type[Any]] = {
    "topic": TopicSink, "parquet": FileSink, "csv": FileSink, "json": FileSink, "jdbc": JdbcSink,
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """The three tables; ``errors`` may be left out."""

    source: Mapping[str, object]
    sink: Mapping[str, object]
    errors: Errors = Errors()


def parse_source(options: Options, where: str) -> Source:
    """Of the type that the table names. Raises :class:`PipelineError`."""
    source: Source = parse_table(
        _type(_SOURCES, options.source, f"{where} [source]"), options.source, f"{where} [source]"
    )
    return source


def parse_sink(options: Options, where: str) -> Sink:
    """Of the type that the table names. Raises :class:`PipelineError`."""
    sink: Sink = parse_table(_type(_SINKS, options.sink, f"{where} [sink]"), options.sink, f"{where} [sink]")
    return sink


def _type(known: Mapping[str, type[Any]], table: Mapping[str, object], where: str) -> type[Any]:
    kind = table.get("type")
    if kind is None:
        raise PipelineError(f"{where}: the key 'type' is missing: one of {', '.join(known)}")
    if not isinstance(kind, str) or kind not in known:
        raise PipelineError(f"{where}: no type {kind!r}; known are {', '.join(known)}")
    return known[kind]
