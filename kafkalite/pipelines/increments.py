"""A table of files that each micro-batch adds to.

Answers to: ``org.apache.spark.sql.execution.streaming.CompactibleFileStreamLog``, for rows. Shell (Spark's files).

A micro-batch adds a folder with its number: if it runs again, the folder is overwritten, and no query reads it before
the next micro-batch. So a function of ``writeStream.foreachBatch`` can keep any state, exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

EVERY = 20
"""After this many micro-batches the table is written as a whole, and older folders are deleted."""
_MORE, _WHOLE = "more", "whole"


class Increments:
    """The table in ``folder`` (of any file system that Spark knows), with columns by ``schema`` (DDL).

    ``merge`` combines rows into fewer rows with the same meaning, such as sums by a key.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        schema: str,
        merge: Callable[[DataFrame], DataFrame] = lambda rows: rows,
        every: int = EVERY,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._schema = schema
        self._merge = merge
        self._every = every

    def before(self, number: int) -> DataFrame:
        """All rows that micro-batches before ``number`` have added, merged."""
        there = self._folders()
        whole = max((each for kind, each in there if kind == _WHOLE and each < number), default=-1)
        names = [(_WHOLE, whole)] if whole >= 0 else []
        names += sorted((kind, each) for kind, each in there if kind == _MORE and whole < each < number)
        if not names:
            return self._spark.createDataFrame([], self._schema)
        return self._merge(self._spark.read.schema(self._schema).parquet(*(self._path(*name) for name in names)))

    def add(self, number: int, rows: DataFrame) -> None:
        """Set the rows of the micro-batch ``number``, instead of any that an interrupted attempt wrote."""
        if (number + 1) % self._every:
            rows.write.mode("overwrite").parquet(self._path(_MORE, number))
            return
        everything = self._merge(self.before(number).unionByName(rows))
        files = int(self._spark.conf.get("spark.sql.shuffle.partitions") or 1)
        everything.coalesce(files).write.mode("overwrite").parquet(self._path(_WHOLE, number))
        # The input of this micro-batch stays, because a repeated one begins with the whole before it.
        older = number - self._every
        for kind, each in self._folders():
            if each < older:
                self._files().delete(self._hadoop(self._path(kind, each)), True)

    def _path(self, kind: str, number: int) -> str:
        return f"{self._folder}/{kind}-{number:010d}"

    def _folders(self) -> list[tuple[str, int]]:
        files, folder = self._files(), self._hadoop(self._folder)
        if not files.exists(folder):
            return []
        names = (status.getPath().getName().partition("-") for status in files.listStatus(folder))
        return [(kind, int(number)) for kind, _, number in names]

    def _files(self) -> Any:
        return self._hadoop(self._folder).getFileSystem(self._spark._jsc.hadoopConfiguration())

    def _hadoop(self, path: str) -> Any:
        assert self._spark._jvm is not None
        return self._spark._jvm.org.apache.hadoop.fs.Path(path)
