"""Ready-made job *log aggregation*: rotating log files of many hosts in one topic and one format, archived by time.

Answers to: nothing in Kafka; the use "log aggregation" of its documentation. Shell.

A record of the topic is one log record (:data:`RECORD`): its key is host and process, so that the records of a file,
and of the file that follows it, stay in order. A record that fits no format gets the level UNKNOWN, its text
as the message, and no timestamp.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

from kafkalite.pipelines.context import Context
from kafkalite.pipelines.jobs.durations import seconds
from kafkalite.pipelines.jobs.log_lines import CONTINUATION, LineParser
from kafkalite.pipelines.streams.values import from_json

if TYPE_CHECKING:
    from pyarrow import RecordBatch

RECORD = (
    "timestamp TIMESTAMP, host STRING, process STRING, level STRING, message STRING, logger STRING, file STRING, "
    "position BIGINT"
)
"""The value: ``timestamp`` in ISO 8601 and UTC, ``level`` one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL, UNKNOWN;
``position`` is that of the first line's first byte in ``file``."""
COLUMNS = ("value", "file", "position")
_BATCH = 10_000
"""Records in one Arrow batch."""
_CONTINUES = re.compile(CONTINUATION.encode())


@dataclass(frozen=True)
class Options:
    """The job's table ``[options]``.

    ``files`` are patterns of the files to read (none: this run only archives); ``formats`` their possible formats,
    tried in this order (see :mod:`kafkalite.pipelines.jobs.log_lines`); ``origin`` an expression that finds the groups
    ``host`` and ``process`` in a file's path, for lines without them (default: this machine, and the
    file's name); ``timezone`` is that of times without one. Lines of a stack trace belong to the record before them: a
    file's last record is sent when the next one begins, or when nothing was written for ``settle``.
    ``topic`` gets the records; it is created with ``partitions`` if it does not exist. ``archive`` is a folder for
    Parquet files of it, in folders ``date=2026-03-01/hour=13`` by the records' own times (UTC), without one by
    the time of arrival in the topic; empty: no archive. Lines that are gone before they were read stop the pipeline,
    unless ``fail_on_data_loss`` is false.
    """

    files: tuple[str, ...] = ()
    formats: tuple[str, ...] = ("kafkalite", "log4j", "python", "combined", "nginx-error", "syslog")
    origin: str = ""
    timezone: str = "UTC"
    settle: str = "5 seconds"
    topic: str = "logs"
    partitions: int = 3
    archive: str = ""
    fail_on_data_loss: bool = True

    def __post_init__(self) -> None:
        if not self.files and not self.archive:
            raise ValueError("neither 'files' to read nor an 'archive' to write")
        LineParser(self.formats, self.timezone)
        seconds(self.settle)
        try:
            unknown = set(re.compile(self.origin).groupindex) - {"host", "process"}
        except re.error as error:
            raise ValueError(f"origin = '{self.origin}': {error}") from None
        if unknown:
            raise ValueError(f"origin = '{self.origin}': there are the groups host and process, not {unknown.pop()}")


def start(context: Context, options: Options) -> list[StreamingQuery]:
    """Start the queries ``collect`` (files into the topic) and ``archive`` (the topic into files), or one of them."""
    context.ensure_topic(options.topic, options.partitions)
    queries = []
    if options.files:
        records = log_records(read_files(context, options), options)
        queries.append(context.write_topic(records, options.topic, query="collect"))
    if options.archive:
        rows = archived(context.read_topic(options.topic))
        folders = ("date", "hour")
        queries.append(context.write_files(rows, "parquet", options.archive, query="archive", partition_by=folders))
    return queries


def read_files(context: Context, options: Options) -> DataFrame:
    """The lines of the files, those of one record together."""
    reader = context.spark.readStream.format("kafkalite-files")
    return (
        reader.option("path", ",".join(options.files))
        .option("copies", "true")
        .option("continues", CONTINUATION)
        .option("settle", str(seconds(options.settle)))
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
        .load()
    )


def log_records(lines: DataFrame, options: Options) -> DataFrame:
    """``key`` and ``value`` for each log record of ``lines`` (``value``, ``file``, ``position``), in their order."""
    return lines.mapInArrow(LogLineRecords(options), "key STRING, value STRING")


def archived(records: DataFrame) -> DataFrame:
    """The rows of the archive from the topic's records: :data:`RECORD`, and the folders' ``date`` and ``hour``."""
    rows = from_json(records.withColumnRenamed("timestamp", "came"), RECORD, keep=("came",), errors="skip")
    when = sql.to_utc_timestamp(sql.coalesce("timestamp", "came"), sql.current_timezone())
    folders = {"date": sql.date_format(when, "yyyy-MM-dd"), "hour": sql.date_format(when, "HH")}
    return rows.withColumns(folders).drop("came")


class LogRecord(NamedTuple):
    """The text of one record, its lines together, and the position of its first line."""

    text: str
    file: str
    position: int


def joined(batches: Iterable[RecordBatch]) -> Iterator[LogRecord]:
    """The records of a task's lines (Arrow record batches of ``value``, ``file``, ``position``). A line that goes on
    with a record follows it in the same file."""
    lines: list[bytes] = []
    file, start, end = "", 0, -1
    for batch in batches:
        for line, path, position in zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True):
            # A line ends with one byte or two.
            follows = path == file and 0 < position - end <= 2
            if not (lines and follows and _CONTINUES.match(line)):
                if lines:
                    yield LogRecord(_text(lines), file, start)
                lines, file, start = [], path, position
            lines.append(line)
            end = position + len(line)
    if lines:
        yield LogRecord(_text(lines), file, start)


def iso(time: datetime) -> str:
    """A time in ISO 8601 and UTC: ``2026-03-01T12:00:00.123Z``."""
    text = time.astimezone(UTC).isoformat(timespec="microseconds")
    return text.removesuffix("+00:00").removesuffix("000") + "Z"


def _text(lines: list[bytes]) -> str:
    return b"\n".join(lines).decode(errors="replace")


class LogLineRecords:
    """Converts the lines of a task to records, in one pass."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._origin = re.compile(options.origin)

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Arrow record batches of lines into those of records: ``key``, ``value``."""
        import pyarrow as pa

        parser = LineParser(self._options.formats, self._options.timezone)
        records = joined(batches)
        while some := list(islice(records, _BATCH)):
            keys, values = zip(*(self._record(parser, record) for record in some), strict=True)
            yield pa.RecordBatch.from_pydict({"key": keys, "value": values})

    def _record(self, parser: LineParser, record: LogRecord) -> tuple[str, str]:
        line = parser.parse(record.text, datetime.now(UTC))
        host, process = self._named(record.file)
        host, process = line.host or host, line.process or process
        value = {
            "timestamp": iso(line.timestamp) if line.timestamp else None,
            "host": host,
            "process": process,
            "level": line.level,
            "message": line.message,
            "logger": line.logger,
            "file": record.file,
            "position": record.position,
        }
        return f"{host}/{process}", json.dumps(value, ensure_ascii=False)

    def _named(self, file: str) -> tuple[str, str]:
        """Host and process of a file, as far as its path has them."""
        match = self._origin.search(file) if self._options.origin else None
        found = match.groupdict() if match else {}
        name = file.rpartition("/")[2]
        return found.get("host") or socket.gethostname(), found.get("process") or name.partition(".")[0] or name
