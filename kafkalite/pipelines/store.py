"""Small files and renames on any file system that Spark knows, for state that must be durable between micro-batches.

Answers to: Spark's ``CheckpointFileManager``; nothing in Kafka. Blocking shell around Hadoop's ``FileSystem``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession


class Store:
    """Files below the folder ``base`` (a path or an address)."""

    def __init__(self, spark: SparkSession, base: str) -> None:
        jvm: Any = spark._jvm
        jsc: Any = spark._jsc
        self._hadoop = jvm.org.apache.hadoop.fs
        self._base = base.rstrip("/")
        configuration = jsc.hadoopConfiguration()
        root = self._path("")
        self._fs = root.getFileSystem(configuration)
        self._context = self._hadoop.FileContext.getFileContext(self._fs.getUri(), configuration)
        gateway: Any = spark.sparkContext._gateway
        self._overwrite = gateway.new_array(self._hadoop.Options.Rename, 1)
        self._overwrite[0] = self._hadoop.Options.Rename.OVERWRITE

    def join(self, name: str) -> str:
        """The whole path of a name below the folder."""
        return f"{self._base}/{name}" if name else self._base

    def read(self, name: str) -> Any:
        """The JSON in a file; ``None`` without such a file."""
        path = self._path(name)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            return json.loads(bytes(stream.readAllBytes()))
        finally:
            stream.close()

    def write(self, name: str, value: object) -> None:
        """Replace a file by ``value`` as JSON, atomically and durably."""
        fresh = self._path(f"{name}.new")
        stream = self._fs.create(fresh, True)
        stream.write(json.dumps(value).encode())
        stream.hsync()
        stream.close()
        self._context.rename(fresh, self._path(name), self._overwrite)

    def walk(self, name: str) -> Iterator[str]:
        """All files below a folder; none if the folder does not exist."""
        if not self._fs.exists(self._path(name)):
            return
        found = self._fs.listFiles(self._path(name), True)
        base = len(self._fs.makeQualified(self._path("")).toString().rstrip("/")) + 1
        while found.hasNext():
            yield found.next().getPath().toString()[base:]

    def move(self, name: str, final: str) -> None:
        """Rename a file, unless it was renamed already."""
        source, target = self._path(name), self._path(final)
        if self._fs.exists(source):
            self._fs.mkdirs(target.getParent())
            self._context.rename(source, target, self._overwrite)

    def remove(self, name: str) -> None:
        """Remove a folder."""
        self._fs.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._hadoop.Path(self.join(name))
