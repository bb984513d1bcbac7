"""The context of a job: the session, its file, and inputs and outputs that continue where the last run stopped.

Answers to: ``org.apache.kafka.connect.sink.SinkTaskContext`` and ``org.apache.kafka.streams.StreamsBuilder``. Shell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.failures import summary
from kafkalite.pipelines.pipeline import Pipeline

FORMAT = "kafkalite"


@dataclass(frozen=True)
class Context:
    """One run of ``pipeline``; ``state`` is its folder on this machine. ``moved`` is given the numbers of rows that
    Spark's own progress lacks."""

    spark: SparkSession
    pipeline: Pipeline
    state: Path
    moved: Callable[[str, int], None] = lambda _query, _rows: None

    def read_topic(self, topic: str, **options: str) -> DataFrame:
        """The stream of ``topic`` from its beginning (``startingOffsets``): key, value, topic, partition, offset,
        timestamp, timestampType. Rows of open and aborted transactions are left out."""
        settings = self._source_options(topic, options)
        return self.spark.readStream.format(FORMAT).options(**settings).load()

    def read_topic_once(self, topic: str, **options: str) -> DataFrame:
        """The present content of ``topic``, as a batch."""
        return self.spark.read.format(FORMAT).options(**self._source_options(topic, options)).load()

    def write_topic(self, frame: DataFrame, topic: str, *, query: str, mode: str = "append") -> StreamingQuery:
        """Write each row of a stream (``key`` or none, ``value``, perhaps ``headers``) once into ``topic``.

        With an empty ``topic``, each row's own column ``topic`` names its topic. No topic is created.
        """
        if mode == "append":
            return self._writer(frame, query, mode).format(FORMAT).options(**self._sink_options(topic)).start()

        def write(batch: DataFrame, number: int) -> None:
            # Spark lets sinks in Python only append. A batch's write under the query's own id is equivalent.
            self.write_once(batch, topic, number)

        return self.write_each(frame, write, query=query, mode=mode)

    def write_once(self, frame: DataFrame, topic: str, number: int) -> None:
        """Write each row of ``frame`` once into ``topic`` (or the topic in its column ``topic``), in the function of
        :meth:`write_each`: ``number`` is that of the micro-batch, which may have only one such write."""
        stream = self.spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        once = {"kafkalite.queryId": stream, "kafkalite.batchId": str(number)}
        frame.write.format(FORMAT).options(**self._sink_options(topic), **once).mode("append").save()

    def write_each(
        self, frame: DataFrame, function: Callable[[DataFrame, int], None], *, query: str, mode: str = "append"
    ) -> StreamingQuery:
        """Pass each micro-batch of a stream to ``function``, with its number; an interrupted one is repeated with the
        same number."""

        def run(batch: DataFrame, number: int) -> None:
            try:
                function(batch, number)
            except Exception as error:
                # An error of Java's that Python passes back to Java loses its cause on the way.
                raise PipelineError(summary(error)) from None

        return self._writer(frame, query, mode).foreachBatch(run).start()

    def write_files(
        self, frame: DataFrame, format: str, path: str, *, query: str, partition_by: Sequence[str] = (), **options: str
    ) -> StreamingQuery:
        """Write each row of a stream once into files below ``path`` (``format``: parquet, csv, json), in folders by the
        values of the columns ``partition_by``; ``options`` are those of Spark's writer."""
        from kafkalite.pipelines.connect.sinks import Files

        return self.write_each(frame, Files(format, path, partition_by, options).write, query=query)

    def ensure_topic(self, topic: str, partitions: int = 3, **configs: str) -> None:
        """Create ``topic`` if it does not exist; ``cleanup_policy="compact"`` is ``cleanup.policy``."""
        from kafkalite.pipelines.admin import ensure_topic

        ensure_topic(self.pipeline, topic, partitions, {key.replace("_", "."): value for key, value in configs.items()})

    def _source_options(self, topic: str, options: dict[str, str]) -> dict[str, str]:
        settings = {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
        return {**settings, **self.pipeline.kafka_options(), "subscribe": topic, **options}

    def _sink_options(self, topic: str) -> dict[str, str]:
        return self.pipeline.kafka_options() | ({"topic": topic} if topic else {})

    def _writer(self, frame: DataFrame, query: str, mode: str) -> DataStreamWriter:
        return (
            frame.writeStream.queryName(f"{self.pipeline.name}.{query}")
            .outputMode(mode)
            .option("checkpointLocation", self.checkpoint(query))
            .trigger(**self.pipeline.trigger.spark())
        )

    def checkpoint(self, query: str) -> str:
        """The folder of the checkpoint of ``query``."""
        base = self.pipeline.checkpoints or str(self.state / "checkpoints")
        return f"{base.rstrip('/')}/{query}"
