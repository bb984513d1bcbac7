"""Spark's own Kafka source and kafkalite's have the same rows, schema, offsets and failures. Tests run with each.

``KAFKALITE_TEST_BROKER=kafka`` runs both against Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from integration.harness.raw import RawClient
from integration.harness.records import CODECS, FIRST_TIMESTAMP, Item, make_items
from integration.harness.wait import wait_for
from integration.spark.topics import Row, new_topic, produce, rows_of
from kafkalite.common.types import TopicPartition
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.fetch import LATEST, list_offsets

Load = Callable[..., DataFrame]
COUNT = 600
PARTITIONS = 3


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.full), "kafkalite"])
def source(request: pytest.FixtureRequest) -> str:
    """The format's name."""
    return str(request.param)


@pytest.fixture
def load(spark: SparkSession, shared_cluster: LocalCluster, source: str) -> Load:
    """``load(subscribe="t", kafka_isolation_level="read_committed", …)``: a batch query."""

    def make(**options: str) -> DataFrame:
        return with_options(spark.read.format(source), shared_cluster, options).load()

    return make


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """The records of the module's topic, one list for each codec."""
    return make_items(5, COUNT, PARTITIONS)


@pytest.fixture(scope="module")
def topic(shared_cluster: LocalCluster, items: list[Item]) -> str:
    """Three partitions with ``items``."""
    topic = new_topic(shared_cluster, "compatible", PARTITIONS)
    step = COUNT // len(CODECS)
    for number, codec in enumerate(CODECS):
        produce(shared_cluster, topic, items[number * step : (number + 1) * step], codec)
    return topic


def with_options(reader: Any, cluster: LocalCluster, options: dict[str, str]) -> Any:
    """A reader with ``options``, an underscore for a dot in ``kafka.*``."""
    reader = reader.option("kafka.bootstrap.servers", cluster.bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("_", ".") if name.startswith("kafka_") else name, value)
    return reader


def rows(frame: DataFrame) -> list[Row]:
    """The rows of a query, sorted by partition and offset."""
    found: list[Row] = []
    # Numbers, because Python's datetimes would be in the time zone of this machine.
    for row in frame.withColumn("timestamp", (frame.timestamp.cast("double") * 1000).cast("long")).collect():
        pairs = row["headers"] if "headers" in frame.columns else None
        headers = None if pairs is None else tuple((pair["key"], plain(pair["value"])) for pair in pairs)
        found.append((plain(row["key"]), plain(row["value"]), *row[2:7], headers))
    return sorted(found, key=lambda row: row[3:5])


def plain(value: bytearray | bytes | None) -> bytes | None:
    """Spark's binary value as ``bytes``."""
    return None if value is None else bytes(value)


def expected(topic: str, items: list[Item], keep: Callable[[Row], bool]) -> list[Row]:
    """The expected rows of the module's topic, without headers."""
    return [(*row[:7], None) for row in rows_of(topic, items) if keep(row)]


def failure(action: Callable[[], object]) -> str:
    """The error of a query that must fail."""
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def test_the_schema_is_sparks(load: Load, topic: str) -> None:
    plain = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    assert load(subscribe=topic).schema == StructType.fromDDL(plain)
    with_headers = StructType.fromDDL(f"{plain}, headers array<struct<key: string, value: binary>>")
    assert load(subscribe=topic, includeHeaders="true").schema == with_headers


def test_every_row_of_every_codec(load: Load, topic: str, items: list[Item]) -> None:
    assert rows(load(subscribe=topic, includeHeaders="true")) == rows_of(topic, items)


def test_filters_limits_and_aggregates_are_right(load: Load, topic: str, items: list[Item]) -> None:
    """Spark computes them from the columns."""
    frame = load(subscribePattern=topic[:-2] + ".*")
    assert frame.where("partition = 1 and offset >= 10").count() == len(
        [row for row in rows_of(topic, items) if row[3] == 1 and row[4] >= 10]
    )
    assert len(frame.limit(7).collect()) == 7


def test_a_query_reads_the_given_offsets_of_each_partition(load: Load, topic: str, items: list[Item]) -> None:
    starts = {topic: {"0": 10, "1": -2, "2": 50}}
    ends = {topic: {"0": 20, "1": 5, "2": -1}}
    frame = load(subscribe=topic, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends))
    wanted = {0: (10, 20), 1: (0, 5), 2: (50, COUNT)}
    assert rows(frame) == expected(topic, items, lambda row: wanted[row[3]][0] <= row[4] < wanted[row[3]][1])


def test_earliest_and_latest_read_all_records(load: Load, topic: str, items: list[Item]) -> None:
    frame = load(subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
    assert frame.count() == len(items)


def test_one_assigned_partition_is_read(load: Load, topic: str, items: list[Item]) -> None:
    frame = load(assign=json.dumps({topic: [1]}), endingOffsets=json.dumps({topic: {"1": 30}}))
    assert rows(frame) == expected(topic, items, lambda row: row[3] == 1 and row[4] < 30)


def test_a_query_reads_between_two_timestamps(load: Load, topic: str, items: list[Item]) -> None:
    first, last = FIRST_TIMESTAMP + 100, FIRST_TIMESTAMP + 400
    between = expected(topic, items, lambda row: first <= row[5] < last)
    frame = load(subscribe=topic, startingTimestamp=str(first), endingTimestamp=str(last))
    assert rows(frame) == between
    each = [json.dumps({topic: dict.fromkeys(map(str, range(PARTITIONS)), time)}) for time in (first, last)]
    frame = load(subscribe=topic, startingOffsetsByTimestamp=each[0], endingOffsetsByTimestamp=each[1])
    assert rows(frame) == between


def test_a_start_timestamp_after_all_records_fails_the_query_unless_its_strategy_is_latest(
    load: Load, topic: str
) -> None:
    later = str(FIRST_TIMESTAMP + 10_000)
    said = failure(lambda: load(subscribe=topic, startingTimestamp=later).count())
    assert f"No offset matched from request of topic-partition {topic}-" in said
    assert load(subscribe=topic, startingTimestamp=later, startingOffsetsByTimestampStrategy="latest").count() == 0


def test_partitions_are_split_among_tasks(load: Load, topic: str, items: list[Item]) -> None:
    frame = load(subscribe=topic, minPartitions="8")
    assert frame.rdd.getNumPartitions() == 9
    assert rows(frame) == expected(topic, items, lambda _: True)
    all_of_it = [json.dumps({topic: dict.fromkeys(map(str, range(PARTITIONS)), offset)}) for offset in (0, 150)]
    frame = load(
        subscribe=topic, startingOffsets=all_of_it[0], endingOffsets=all_of_it[1], maxRecordsPerPartition="100"
    )
    assert frame.rdd.getNumPartitions() == 2 * PARTITIONS


def test_read_committed_skips_aborted_transactions(load: Load, shared_cluster: LocalCluster) -> None:
    topic = new_topic(shared_cluster, "transactions")
    one, two, three = ([Item(0, FIRST_TIMESTAMP, None, b"%d" % n, ())] * (n + 2) for n in range(3))
    produce(shared_cluster, topic, one, transaction="commit")
    produce(shared_cluster, topic, two, transaction="abort")
    produce(shared_cluster, topic, three)
    wait_for(lambda: end(shared_cluster, topic, "read_committed") == end(shared_cluster, topic), "markers are written")
    everything = rows(load(subscribe=topic))
    assert [row[1] for row in everything] == [b"0"] * 2 + [b"1"] * 3 + [b"2"] * 4
    committed = load(subscribe=topic, kafka_isolation_level="read_committed")
    assert rows(committed) == [row for row in everything if row[1] != b"1"]


def end(cluster: LocalCluster, topic: str, isolation: str = "read_uncommitted") -> int:
    """The end offset of the only partition for readers with ``isolation``."""
    config = ClientConfig.from_kafka({"bootstrap.servers": cluster.bootstrap, "isolation.level": isolation})
    with ClusterConnections(config) as client:
        return list_offsets(client, {TopicPartition(topic, 0): LATEST})[TopicPartition(topic, 0)]


def test_deleted_records_fail_the_query_unless_data_loss_is_allowed(load: Load, shared_cluster: LocalCluster) -> None:
    topic = new_topic(shared_cluster, "gone")
    produce(shared_cluster, topic, make_items(1, 20, 1))
    (broker,) = leader(shared_cluster, topic)
    with RawClient(broker) as client:
        assert client.delete_records(topic, 8)[0] == 0
    starts = json.dumps({topic: {"0": 3}})
    said = failure(lambda: load(subscribe=topic, startingOffsets=starts).count())
    assert "Some data may have been lost because they are not available in Kafka any more" in said
    assert f"Could not read records in offset [3, 20) for topic partition {topic}-0" in said
    kept = load(subscribe=topic, startingOffsets=starts, failOnDataLoss="false")
    assert [row[4] for row in rows(kept)] == list(range(8, 20))
    none = load(
        subscribe=topic, startingOffsets=starts, endingOffsets=json.dumps({topic: {"0": 7}}), failOnDataLoss="false"
    )
    assert rows(none) == []


def leader(cluster: LocalCluster, topic: str) -> Iterator[str]:
    """The address of the broker that leads the only partition."""
    for broker in cluster.broker_ids:
        with RawClient(cluster.address(broker)) as client:
            if client.leads(topic, broker):
                yield cluster.address(broker)


def test_start_offsets_beyond_the_end_fail_the_query(load: Load, topic: str) -> None:
    starts = json.dumps({topic: {"0": 100_000, "1": 0, "2": 0}})
    said = failure(lambda: load(subscribe=topic, startingOffsets=starts).count())
    assert "100000" in said
    assert "greater than the resolved end offset" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"TOPIC":{"0":5}}'}, "don't match what are assigned"),
        ({"startingOffsets": "{"}, "Expected e.g. "),
        ({"kafka.auto.offset.reset": "earliest"}, "Kafka option 'auto.offset.reset' is not supported"),
        ({"assign": '{"TOPIC":[0]}'}, "Only one of the following options can be specified for Kafka source"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_invalid_options_are_refused(load: Load, topic: str, options: dict[str, str], message: str) -> None:
    given = {"subscribe": topic} | {name: value.replace("TOPIC", topic) for name, value in options.items()}
    assert message in failure(lambda: load(**given).count())


def test_a_missing_topic_fails_the_query(load: Load) -> None:
    said = failure(lambda: load(subscribe="nobody-made-this").count())
    assert "This server does not host this topic-partition" in said


# Streams


def run_stream(
    spark: SparkSession, cluster: LocalCluster, source: str, folder: Path, **options: str
) -> list[tuple[dict[str, dict[str, int]], list[Row]]]:
    """Run a query over all existing records; the end offsets in its checkpoint and the rows of each micro-batch."""
    batches: dict[int, list[Row]] = {}
    frame = with_options(spark.readStream.format(source), cluster, options).load()
    query = (
        frame.writeStream.foreachBatch(lambda batch, number: batches.update({number: rows(batch)}))
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return [(checkpoint(folder, number), batches[number]) for number in sorted(batches)]


def checkpoint(folder: Path, batch: int) -> dict[str, dict[str, int]]:
    """The offsets of the only source at the end of a micro-batch."""
    offsets: dict[str, dict[str, int]] = json.loads((folder / "offsets" / str(batch)).read_text().splitlines()[2])
    return offsets


def test_a_stream_limits_its_micro_batches_and_continues_from_its_checkpoint(
    spark: SparkSession, shared_cluster: LocalCluster, source: str, tmp_path: Path
) -> None:
    topic = new_topic(shared_cluster, "stream", 2)
    first, second = make_items(1, 50, 2), make_items(2, 30, 2)
    produce(shared_cluster, topic, first)
    options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    steps = run_stream(spark, shared_cluster, source, tmp_path / "c", maxOffsetsPerTrigger="20", **options)
    assert sorted((row for _, batch in steps for row in batch), key=lambda row: row[3:5]) == rows_of(topic, first)
    sizes = [len(batch) for _, batch in steps]
    assert len(sizes) in (3, 4)
    assert all(18 <= size <= 20 for size in sizes[:2])
    ends = {number: sum(item.partition == number for item in first) for number in (0, 1)}
    assert steps[-1][0] == {topic: {str(number): end for number, end in ends.items()}}
    produce(shared_cluster, topic, second)
    more = run_stream(spark, shared_cluster, source, tmp_path / "c", **options)
    assert len(more) == 1
    assert sorted(row[1] or b"" for row in more[0][1]) == sorted(item.value or b"" for item in second)
    assert min(row[4] for row in more[0][1] if row[3] == 0) == ends[0]


@pytest.mark.full
def test_a_stream_waits_for_enough_records(
    spark: SparkSession, shared_cluster: LocalCluster, source: str, tmp_path: Path
) -> None:
    """``minOffsetsPerTrigger`` and ``maxTriggerDelay`` of a running query; neither delays its first micro-batch."""
    topic = new_topic(shared_cluster, "enough")
    items = make_items(3, 90, 1)
    produce(shared_cluster, topic, items[:10])
    sizes: dict[int, int] = {}

    def run(delay: str) -> StreamingQuery:
        options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": "50"}
        reader = with_options(spark.readStream.format(source), shared_cluster, options | {"maxTriggerDelay": delay})
        query: StreamingQuery = (
            reader.load()
            .writeStream.foreachBatch(lambda batch, number: sizes.update({number: batch.count()}))
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        return query

    query = run("1h")
    wait_for(lambda: sizes == {0: 10}, "the first records", timeout=120)
    produce(shared_cluster, topic, items[10:40])
    for _ in range(2):
        wait_for(lambda: query.status["isTriggerActive"], "it looks", 60, 0.001)
        wait_for(lambda: not query.status["isTriggerActive"], "it has looked", 60, 0.001)
    produce(shared_cluster, topic, items[40:70])
    wait_for(lambda: sizes == {0: 10, 1: 60}, "as many as are waited for", timeout=60)
    query.stop()
    produce(shared_cluster, topic, items[70:])
    query = run("1s")
    wait_for(lambda: sizes == {0: 10, 1: 60, 2: 20}, "fewer, after the delay", timeout=120)
    query.stop()


def test_a_stream_begins_at_its_starting_offsets(
    spark: SparkSession, shared_cluster: LocalCluster, source: str, tmp_path: Path
) -> None:
    """Timestamps, patterns and lists of partitions work as for batches."""
    topic = new_topic(shared_cluster, "begins", 2)
    items = make_items(4, 60, 2)
    produce(shared_cluster, topic, items)
    time = FIRST_TIMESTAMP + 30
    wanted = expected(topic, items, lambda row: row[5] >= time)
    by_partition = json.dumps({topic: {"0": time, "1": time}})
    for number, options in enumerate(
        (
            {"subscribe": topic, "startingTimestamp": str(time)},
            {"subscribePattern": f"{topic[:-3]}.*", "startingOffsetsByTimestamp": by_partition},
        )
    ):
        ((_, found),) = run_stream(spark, shared_cluster, source, tmp_path / str(number), **options)
        assert found == wanted
    starts = json.dumps({topic: {"1": 5}})
    one = {"assign": json.dumps({topic: [1]}), "startingOffsets": starts}
    ((end, found),) = run_stream(spark, shared_cluster, source, tmp_path / "one", **one)
    assert found == expected(topic, items, lambda row: row[3] == 1 and row[4] >= 5)
    assert end == {topic: {"1": sum(item.partition == 1 for item in items)}}


@pytest.mark.full
def test_a_stream_loses_nothing_silently(
    spark: SparkSession, shared_cluster: LocalCluster, source: str, tmp_path: Path
) -> None:
    topic = new_topic(shared_cluster, "loss")
    produce(shared_cluster, topic, make_items(1, 10, 1))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    run_stream(spark, shared_cluster, source, tmp_path / "c", **options)
    produce(shared_cluster, topic, make_items(2, 10, 1))
    (broker,) = leader(shared_cluster, topic)
    with RawClient(broker) as client:
        assert client.delete_records(topic, 15)[0] == 0
    said = failure(lambda: run_stream(spark, shared_cluster, source, tmp_path / "c", **options))
    assert f"Could not read records in offset [10, 20) for topic partition {topic}-0" in said
    (kept,) = run_stream(spark, shared_cluster, source, tmp_path / "c", failOnDataLoss="false", **options)
    assert [row[4] for row in kept[1]] == list(range(15, 20))


def test_a_query_continues_its_checkpoint_with_the_other_source(
    spark: SparkSession, shared_cluster: LocalCluster, source: str, tmp_path: Path
) -> None:
    """Only the format's name changes, because both sources have the same checkpoints."""
    topic = new_topic(shared_cluster, "moves")
    produce(shared_cluster, topic, make_items(1, 10, 1))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    run_stream(spark, shared_cluster, source, tmp_path / "c", **options)
    produce(shared_cluster, topic, make_items(2, 5, 1))
    other = "kafkalite" if source == "kafka" else "kafka"
    ((end, batch),) = run_stream(spark, shared_cluster, other, tmp_path / "c", **options)
    assert [row[4] for row in batch] == list(range(10, 15))
    assert end == {topic: {"0": 15}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "is higher than the maxOffsetsPerTrigger"),
    ],
    ids=["end", "limits"],
)
def test_a_stream_refuses_invalid_options(
    spark: SparkSession,
    shared_cluster: LocalCluster,
    source: str,
    tmp_path: Path,
    options: dict[str, str],
    message: str,
) -> None:
    given = {"subscribe": "t"} | options
    assert message in failure(lambda: run_stream(spark, shared_cluster, source, tmp_path / "c", **given))
