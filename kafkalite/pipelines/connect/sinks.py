"""Micro-batches into files, each once for every reader.

Answers to: Kafka Connect's HDFS and S3 sinks, which name files by offsets. Shell.

Spark's own file sink leaves the files of interrupted attempts among the others; only Spark knows which count. Here a
micro-batch is written into a hidden folder; a manifest with the final names is the decision; the files are then renamed
into place. A micro-batch that comes again finds the manifest, and goes on with the renaming.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

HIDDEN = "_kafkalite"
"""The folder below the target for what is on its way. Spark, Arrow and Hive pass over names with an underscore."""


@dataclass(frozen=True)
class Files:
    """Files of ``format`` below ``path``, in folders by the values of ``partition_by``."""

    format: str
    path: str
    partition_by: Sequence[str] = ()
    writer: Mapping[str, str] = field(default_factory=dict)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """The micro-batch ``batch_id`` of the query that calls this."""
        spark = frame.sparkSession
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId") or "batch"
        store = Store(spark, self.path)
        staged, manifest = f"{HIDDEN}/{query}", f"{HIDDEN}/{query}.json"
        decided = json.loads(store.read(manifest) or "{}")
        if decided.get("batch") != batch_id:
            target = store.join(staged)
            frame.write.format(self.format).options(**self.writer).partitionBy(*self.partition_by).mode(
                "overwrite"
            ).save(target)
            names = [name for name in store.walk(staged) if name.rpartition("/")[2].startswith("part-")]
            moves = {
                name: _final(name[len(staged) + 1 :], batch_id, number, query) for number, name in enumerate(names)
            }
            decided = {"batch": batch_id, "moves": moves}
            store.write(manifest, json.dumps(decided))
        for name, final in decided["moves"].items():
            store.move(name, final)
        store.remove(staged)


def _final(name: str, batch_id: int, number: int, query: str) -> str:
    """The place of a staged file: its folder, and a name by micro-batch."""
    folder, _, file = name.rpartition("/")
    suffix = file[file.index(".") :] if "." in file else ""
    return f"{folder}{'/' if folder else ''}part-{batch_id:06d}-{number:04d}-{query[:8]}{suffix}"


class Store:
    """Files below one folder of any file system that Spark knows."""

    def __init__(self, spark: SparkSession, base: str) -> None:
        self._jvm: Any = spark._jvm
        self._base = base.rstrip("/")
        jsc: Any = spark._jsc
        self._fs = self._path("").getFileSystem(jsc.hadoopConfiguration())

    def join(self, name: str) -> str:
        """The whole path of a name below the folder."""
        return f"{self._base}/{name}" if name else self._base

    def read(self, name: str) -> str | None:
        """The text of a file; ``None`` where there is none."""
        path = self._path(name)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Replace a file, all or nothing."""
        fresh = self._path(f"{name}.new")
        stream = self._fs.create(fresh, True)
        stream.write(text.encode())
        stream.hsync()
        stream.close()
        self._fs.delete(self._path(name), False)
        self._rename(fresh, self._path(name))

    def walk(self, name: str) -> Iterator[str]:
        """All files below a folder."""
        found = self._fs.listFiles(self._path(name), True)
        base = len(self._fs.makeQualified(self._path("")).toString().rstrip("/")) + 1
        while found.hasNext():
            yield found.next().getPath().toString()[base:]

    def move(self, name: str, final: str) -> None:
        """Rename a file, unless that was done."""
        source, target = self._path(name), self._path(final)
        if self._fs.exists(source):
            self._fs.mkdirs(target.getParent())
            self._rename(source, target)

    def remove(self, name: str) -> None:
        """Remove a folder."""
        self._fs.delete(self._path(name), True)

    def _rename(self, source: Any, target: Any) -> None:
        if not self._fs.rename(source, target):
            raise OSError(f"{source.toString()} cannot be renamed to {target.toString()}")

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.join(name))
