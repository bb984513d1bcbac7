"""DataFrames written to topics: each row is written once, by Kafka's rules; both sources read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from integration.harness.records import CODECS
from integration.spark.topics import new_topic
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.spark.attempts import PREFIX
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.transactions import TransactionClient

PARTITIONS = 3
ROWS = 600
Read = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, shared_cluster: LocalCluster) -> Read:
    """``read("topic")``: a frame of all its records, by default with Spark's own source."""

    def make(topic: str, source: str = "kafka", isolation: str = "read_uncommitted") -> DataFrame:
        return (
            spark.read.format(source)
            .option("kafka.bootstrap.servers", shared_cluster.bootstrap)
            .option("kafka.isolation.level", isolation)
            .option("includeHeaders", "true")
            .option("subscribe", topic)
            .load()
        )

    return make


@pytest.fixture
def transactions(shared_cluster: LocalCluster) -> Iterator[TransactionClient]:
    config = ClientConfig.from_kafka({"bootstrap.servers": shared_cluster.bootstrap})
    with ClusterConnections(config) as cluster:
        yield TransactionClient(cluster)


def left_open(transactions: TransactionClient, topic: str) -> list[str]:
    """The open transactions of writes whose names contain ``topic``.

    Other open transactions belong to tests on the other worker, which share the cluster: one of them kills a pipeline
    in the middle of its transaction, which stays open until the pipeline runs again.
    """
    return [name for name in transactions.open_transactions(f"{PREFIX}.") if topic in name]


def write(frame: DataFrame, cluster: LocalCluster, source: str = "kafkalite", **options: str) -> None:
    """Write a frame; underscores stand for dots in options that begin with ``kafka``."""
    writer = frame.write.format(source).mode("append").option("kafka.bootstrap.servers", cluster.bootstrap)
    for name, value in options.items():
        writer = writer.option(name.replace("_", ".") if name.startswith("kafka") else name, value)
    writer.save()


def numbers(spark: SparkSession, count: int = ROWS) -> DataFrame:
    return spark.range(count).selectExpr("cast(id as string) key", "concat('value ', id) value")


def test_both_sinks_write_the_same_rows_with_all_codecs_keys_and_headers(
    spark: SparkSession, shared_cluster: LocalCluster, read: Read
) -> None:
    """Both sources read the rows of both sinks, in the partitions of Java's partitioner."""
    ours, theirs = (new_topic(shared_cluster, name, PARTITIONS) for name in ("ours", "theirs"))
    frame = numbers(spark).selectExpr(
        "if(cast(key as int) % 7 = 0, null, cast(value as binary)) value",
        "key",
        "if(cast(key as int) % 5 = 0, null, array(struct('name' as key, cast(key as binary) as value))) headers",
        "cast(key as int) % 5 codec",
    )
    for number, codec in enumerate(CODECS):
        part = frame.where(f"codec = {number}").drop("codec")
        write(part, shared_cluster, topic=ours, kafka_compression_type=codec, kafka_batch_size="3000")
    write(frame.drop("codec"), shared_cluster, "kafka", topic=theirs)
    columns = ["cast(cast(key as string) as int) number", "value", "headers", "partition"]
    found = [
        read(topic, source).selectExpr(*columns).orderBy("number").collect()
        for topic in (ours, theirs)
        for source in ("kafka", "kafkalite")
    ]
    assert len(found[0]) == ROWS
    assert found == found[:1] * 4


def test_a_row_may_name_its_topic_and_partition(spark: SparkSession, shared_cluster: LocalCluster, read: Read) -> None:
    first, second = (new_topic(shared_cluster, "by-row", PARTITIONS) for _ in range(2))
    frame = spark.range(60).selectExpr(
        f"if(id % 2 = 0, '{first}', '{second}') topic",
        "cast(id % 3 as int) partition",
        "'the same' key",
        "cast(id as string) value",
    )
    write(frame, shared_cluster)
    for rest, topic in enumerate((first, second)):
        rows = read(topic).selectExpr("cast(cast(value as string) as int) v", "partition").collect()
        assert sorted(rows) == [(v, v % 3) for v in range(60) if v % 2 == rest]
    write(frame, shared_cluster, topic=second)
    assert read(second).count() == 90, "the option goes before the column"


def test_a_named_write_happens_once(
    spark: SparkSession, shared_cluster: LocalCluster, read: Read, transactions: TransactionClient
) -> None:
    topic = new_topic(shared_cluster, "named", PARTITIONS)
    for _ in range(2):
        write(numbers(spark), shared_cluster, topic=topic, kafkalite_batchId=f"load of {topic}")
    assert read(topic, "kafkalite", "read_committed").count() == ROWS
    write(numbers(spark), shared_cluster, topic=topic, kafkalite_batchId=f"another of {topic}")
    assert read(topic, "kafka", "read_committed").count() == 2 * ROWS
    assert left_open(transactions, topic) == []


# trap: kafkalite/spark/writers.py: Spark has no Python sink for output mode `update`: a micro-batch written by hand
# must count once.
def test_a_micro_batch_written_by_hand_happens_once(
    spark: SparkSession, shared_cluster: LocalCluster, read: Read, transactions: TransactionClient
) -> None:
    """By its number: the same micro-batch again, also divided differently; the next one; and the first one, late."""
    topic = new_topic(shared_cluster, "by-hand", PARTITIONS)
    for number, tasks in ((0, 2), (0, 3), (1, 2), (0, 2)):
        frame = numbers(spark).repartition(tasks)
        write(frame, shared_cluster, topic=topic, kafkalite_queryId=f"query of {topic}", kafkalite_batchId=str(number))
    assert read(topic, "kafkalite", "read_committed").count() == 2 * ROWS
    assert left_open(transactions, topic) == []


@pytest.mark.parametrize(
    ("sink", "exactly_once"),
    [("kafkalite", "true"), ("kafkalite", "false"), ("kafka", "false")],
    ids=["once", "at-least-once", "of-spark"],
)
def test_a_stream_from_topic_to_topic(
    spark: SparkSession, shared_cluster: LocalCluster, read: Read, tmp_path: Path, sink: str, exactly_once: str
) -> None:
    source, target = (new_topic(shared_cluster, name, PARTITIONS) for name in ("from", "to"))
    write(numbers(spark), shared_cluster, topic=source)
    query = (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", shared_cluster.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS // 3)
        .load()
        .writeStream.format(sink)
        .option("kafka.bootstrap.servers", shared_cluster.bootstrap)
        .option("topic", target)
        .option("kafkalite.exactlyOnce", exactly_once)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = read(target, "kafkalite", "read_committed").selectExpr("cast(cast(key as string) as int) k").collect()
    assert sorted(row.k for row in found) == list(range(ROWS))


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ("'v' value", {}, "topic option required when no 'topic' attribute is present"),
        ("'k' key", {"topic": "t"}, "Required attribute 'value' not found"),
        ("1 value", {"topic": "t"}, "value attribute unsupported type int. value must be a(n) string or binary"),
        ("'v' value, '1' partition", {"topic": "t"}, "partition attribute unsupported type string"),
        ("'v' value, cast(null as string) topic", {}, "null topic present in the data"),
        ("'v' value, 9 partition", {"topic": "TOPIC"}, "Partition 9 of topic TOPIC with partition count 3"),
        ("'v' value", {"topic": "nowhere", "kafka_max_block_ms": "300"}, "Topic nowhere not present in metadata after"),
        (
            "repeat('x', 200000) value",
            {"topic": "TOPIC"},
            "1 records (200",
        ),
    ],
)
def test_a_bad_write_has_one_clear_error(
    spark: SparkSession, shared_cluster: LocalCluster, frame: str, options: dict[str, str], message: str, small: str
) -> None:
    given: dict[str, Any] = {name: value.replace("TOPIC", small) for name, value in options.items()}
    with pytest.raises(Exception) as caught:
        write(spark.sql(f"select {frame}"), shared_cluster, **given)
    assert message.replace("TOPIC", small) in str(caught.value)


@pytest.fixture(scope="module")
def small(shared_cluster: LocalCluster) -> str:
    """A topic of three partitions that refuses large batches."""
    return new_topic(shared_cluster, "small", PARTITIONS, max_message_bytes="100000")


def test_mode_overwrite_is_refused(spark: SparkSession, shared_cluster: LocalCluster) -> None:
    with pytest.raises(Exception, match="Save mode Overwrite not allowed for Kafka"):
        numbers(spark).write.format("kafkalite").mode("overwrite").option(
            "kafka.bootstrap.servers", shared_cluster.bootstrap
        ).option("topic", "t").save()
