"""The data source ``kafkalite-files``: the lines of files that grow, as a stream.

Answers to: ``org.apache.kafka.connect.file.FileStreamSourceConnector``. Shell around
:mod:`kafkalite.pipelines.connect.growing`.

Options: ``path`` (patterns separated by commas), ``header`` (whether to skip a file's first line),
``maxBytesPerTrigger``, ``tasks`` (at most so many a micro-batch), ``failOnDataLoss``; ``copies`` (whether lines that a
file lost when it was cut by copytruncate are read from the copy); ``continues`` (an expression: lines that match at
their beginning stay in one micro-batch and one task with the record before them) and ``settle`` (after so many seconds
without a new line the last record is complete). Columns: ``value`` (the line without its end), ``file`` (its first
name), ``position`` (of the line's first byte).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from kafkalite.pipelines.connect.file_entries import FileLossError, FilesOffset, entries_from_json, entries_to_json
from kafkalite.pipelines.connect.growing import FileRange, GrowingFiles, into_tasks, ranges_between, read_range
from kafkalite.pipelines.connect.joined_lines import JoinedLines

log = logging.getLogger(__name__)
BLOCK = 4 << 20
"""Bytes that a task holds at once."""
SCHEMA = StructType(
    [StructField("value", BinaryType()), StructField("file", StringType()), StructField("position", LongType())]
)


@dataclass(frozen=True)
class FileOptions:
    """The options of a reader; sizes in bytes."""

    patterns: tuple[str, ...]
    header: bool = False
    max_bytes: int = 16 << 20
    tasks: int = 4
    fail_on_data_loss: bool = True
    copies: bool = False
    joined: JoinedLines | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> FileOptions:
        """From the options of a DataFrame reader, names in any case. Raises ``ValueError``."""
        given = {name.lower(): value for name, value in options.items()}
        patterns = tuple(filter(None, (each.strip() for each in given.get("path", "").split(","))))
        if not patterns:
            raise ValueError("kafkalite-files: the option 'path' is missing")
        continues = given.get("continues")
        joined = JoinedLines(re.compile(continues.encode()), float(given.get("settle", "5"))) if continues else None
        return cls(
            patterns,
            given.get("header", "false").lower() == "true",
            int(given.get("maxbytespertrigger", cls.max_bytes)),
            int(given.get("tasks", cls.tasks)),
            given.get("failondataloss", "true").lower() == "true",
            given.get("copies", "false").lower() == "true",
            joined,
        )


class LinesPartition(InputPartition):  # type: ignore[misc]
    """The range of one task."""

    def __init__(self, ranges: list[FileRange]) -> None:
        super().__init__(None)
        self.ranges = ranges


class FilesDataSource(DataSource):  # type: ignore[misc]
    """``spark.readStream.format("kafkalite-files")``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "kafkalite-files"

    def schema(self) -> StructType:
        """The columns."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> FilesStreamReader:  # noqa: ARG002, N802  (Spark's signature)
        """For streaming queries. Raises ``ValueError``."""
        return FilesStreamReader(FileOptions.parse(self.options))


class FilesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Checks the files at every trigger; without new lines there is no micro-batch."""

    def __init__(self, options: FileOptions) -> None:
        self.options = options
        self._files = GrowingFiles(options.patterns, options.joined, copies=options.copies)
        self._sizes: dict[str, int] | None = None
        self._once = False

    def initialOffset(self) -> FilesOffset:  # noqa: N802
        """Every file from its beginning."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The first micro-batch may be large."""
        return ReadMaxBytes(self.options.max_bytes)

    def latestOffset(self, start: FilesOffset, limit: ReadLimit) -> FilesOffset:  # noqa: N802
        """The end of the next micro-batch: ``start`` if there is none."""
        known = entries_from_json(start)
        if self._once and self._sizes is None:
            # Only now are the files of the checkpoint known, which may have been renamed since.
            self._sizes = {identity: seen.size for identity, seen in self._files.look(known).items()}
        most = None if isinstance(limit, ReadAllAvailable) else self.options.max_bytes
        ends = self._files.ends(known, most, self._sizes)
        if not ranges_between(known, ends):
            return start
        return entries_to_json(ends)

    def reportLatestOffset(self) -> FilesOffset | None:  # noqa: N802
        """The ends of the files at the last check, regardless of limits."""
        return entries_to_json(self._files.latest) or None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit all reading to the content at the first check."""
        self._once = True

    def partitions(self, start: FilesOffset, end: FilesOffset) -> list[InputPartition]:
        """The tasks of a micro-batch."""
        ranges = ranges_between(entries_from_json(start), entries_from_json(end))
        return [LinesPartition(each) for each in into_tasks(ranges, self.options.tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow record batches of a task. Raises :class:`FileLossError` if ``failOnDataLoss`` is set."""
        for each in partition.ranges:
            try:
                for position, data in read_range(each, BLOCK, copies=self.options.copies):
                    yield lines(data, position, each.entry.path, skip=int(self.options.header and position == 0))
            except FileLossError as error:
                if self.options.fail_on_data_loss:
                    raise
                log.warning("%s", error)

    def commit(self, end: FilesOffset) -> None:
        """Does nothing, because the query's position is in its checkpoint."""

    def stop(self) -> None:
        """Does nothing, because nothing is open."""


def lines(data: bytes, position: int, path: str, *, skip: int = 0) -> Any:
    """The lines of ``data``, which begins at ``position``, as a record batch, without the first ``skip``; no Python
    object is made of a line."""
    import numpy as np
    import pyarrow as pa

    bytes_ = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(bytes_ == 10)
    returns = (ends > 0) & (bytes_[ends - 1] == 13)
    # A line's end is one byte, or two; without them the lines stand one behind the other.
    keep = np.ones(len(bytes_), dtype=bool)
    keep[ends] = False
    keep[ends[returns] - 1] = False
    offsets = np.concatenate(([0], ends + 1 - np.cumsum(1 + returns))).astype(np.int32)
    starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64) + position
    count = len(ends)
    values = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(bytes_[keep].tobytes())]
    )
    batch = pa.RecordBatch.from_arrays(
        [values, pa.array([path] * count, pa.string()), pa.array(starts)], names=SCHEMA.names
    )
    return batch.slice(skip) if skip else batch
