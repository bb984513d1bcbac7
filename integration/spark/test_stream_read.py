"""Running streaming queries of kafkalite's source: new partitions, rare records, and the lags for listeners."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.harness.admin import ask_controller
from integration.harness.records import FIRST_TIMESTAMP, Item
from integration.harness.wait import wait_for
from integration.spark.topics import new_topic, produce
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.spark.lag import LagListener, QueryLag


def values(first: int, count: int, partition: int = 0) -> list[Item]:
    """Numbered records."""
    return [Item(partition, FIRST_TIMESTAMP, None, b"%d" % (first + number), ()) for number in range(count)]


class Running:
    """A query that keeps the values of its micro-batches."""

    def __init__(
        self,
        spark: SparkSession,
        cluster: LocalCluster,
        folder: Path,
        *,
        available_now: bool = False,
        first: Callable[[], None] = lambda: None,
        **options: str,
    ) -> None:
        """``first`` is called within the first micro-batch."""
        self.batches: list[list[int]] = []
        self._first = first
        trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": "200 milliseconds"}
        reader = spark.readStream.format("kafkalite").option("kafka.bootstrap.servers", cluster.bootstrap)
        self.query: StreamingQuery = (
            reader.options(**options)
            .load()
            .writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", str(folder))
            .trigger(**trigger)
            .start()
        )

    def _keep(self, batch: DataFrame, _number: int) -> None:
        if not self.batches:
            self._first()
        self.batches.append(sorted(int(row["value"]) for row in batch.collect()))

    def seen(self) -> list[int]:
        """All values so far."""
        error = self.query.exception()
        assert error is None, error
        return sorted(value for batch in self.batches for value in batch)

    def progress(self) -> tuple[Any, Any]:
        """The end offsets of the last micro-batch with rows, and the latest offsets in its progress."""
        last = [one for one in self.query.recentProgress if one.numInputRows][-1].sources[0]
        return json.loads(last.endOffset), json.loads(last.latestOffset)


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[list[QueryLag]]:
    """The lags that the listener has reported."""
    said: list[QueryLag] = []
    listener = LagListener(said.append)
    spark.streams.addListener(listener)
    yield said
    spark.streams.removeListener(listener)


def test_a_running_query_reads_new_partitions_and_reports_its_lag(
    spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path, listener: list[QueryLag]
) -> None:
    topic = new_topic(shared_cluster, "running", 1)
    produce(shared_cluster, topic, values(0, 30))
    options: dict[str, Any] = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "20",
        "kafka.metadata.max.age.ms": "1000",
    }
    running = Running(spark, shared_cluster, tmp_path / "c", **options)
    try:
        wait_for(lambda: running.seen() == list(range(30)), "the first records", timeout=90)
        assert [len(batch) for batch in running.batches] == [20, 10], "at most so many at once"
        wait_for(lambda: len(listener) >= 2, "two reports", timeout=30)
        assert listener[0].metrics == {
            "minOffsetsBehindLatest": 10,
            "maxOffsetsBehindLatest": 10,
            "avgOffsetsBehindLatest": 10.0,
        }
        assert listener[1].metrics["maxOffsetsBehindLatest"] == 0
        more: Any = NewPartitions(topic, 2)
        ask_controller(shared_cluster.bootstrap, lambda admin: admin.create_partitions([more]))
        produce(shared_cluster, topic, values(30, 5, 1))
        wait_for(lambda: running.seen() == list(range(35)), "the new partition's records", timeout=60)
        ends = {topic: {"0": 30, "1": 5}}
        wait_for(lambda: running.progress() == (ends, ends), "the last progress, in Spark's own JSON")
    finally:
        running.query.stop()


def test_available_now_ends_at_the_offsets_of_its_start(
    spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = new_topic(shared_cluster, "now", 1)
    produce(shared_cluster, topic, values(0, 30))

    def run(**more: Any) -> list[list[int]]:
        more |= {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
        running = Running(spark, shared_cluster, tmp_path / "c", available_now=True, **more)
        assert running.query.awaitTermination(120)
        return running.batches

    come_later = run(first=lambda: produce(shared_cluster, topic, values(30, 7)))
    assert come_later == [list(range(20)), list(range(20, 30))]
    assert run() == [list(range(30, 37))]


def test_latest_is_fixed_when_the_query_first_starts(
    spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The query stops before the first record; records that come before its next start are read."""
    topic = new_topic(shared_cluster, "latest", 1)
    produce(shared_cluster, topic, values(0, 5))
    done = tmp_path / "c" / "commits" / "0"
    running = Running(spark, shared_cluster, tmp_path / "c", subscribe=topic)
    try:
        wait_for(done.is_file, "the beginning is noted", timeout=90)
        assert running.seen() == []
    finally:
        running.query.stop()
    produce(shared_cluster, topic, values(5, 4))
    # Remove the commit of the first micro-batch, as if the process had died in that micro-batch.
    done.unlink()
    done.with_name(".0.crc").unlink(missing_ok=True)
    running = Running(spark, shared_cluster, tmp_path / "c", subscribe=topic)
    try:
        wait_for(lambda: running.seen() == [5, 6, 7, 8], "what came in between", timeout=90)
    finally:
        running.query.stop()
