"""Batch queries by kafkalite's source alone: bad input, cut connections, stale caches."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from integration.conftest import TEST_OVERRIDES, launcher
from integration.harness.records import FIRST_TIMESTAMP, Item
from integration.spark.topics import new_topic, produce
from kafkalite.embedded.cluster import LocalCluster


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker that the tests restart and whose files they change."""
    cluster = LocalCluster(tmp_path_factory.mktemp("broker"), 1, overrides=TEST_OVERRIDES, launcher=launcher())
    cluster.start()
    yield cluster
    cluster.close()


def load(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    """A query; underscores stand for dots in options that begin with ``kafka``."""
    reader = spark.read.format("kafkalite").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("_", ".") if name.startswith("kafka") else name, value)
    return reader.load()


def failure(frame: DataFrame) -> str:
    """The error of a query that must fail."""
    with pytest.raises(Exception) as caught:
        frame.count()
    return str(caught.value)


def values(count: int) -> list[Item]:
    """``count`` records for one partition."""
    return [Item(0, FIRST_TIMESTAMP, None, b"value-%d" % number, ()) for number in range(count)]


def segment(cluster: LocalCluster, topic: str) -> Path:
    """The file with a topic's records."""
    (found,) = cluster.broker_dir(1).glob(f"**/{topic}-0/*.log")
    return found


def two_batches(cluster: LocalCluster, name: str) -> tuple[str, Path]:
    """A new topic with two batches, offsets 0 to 9 and 10 to 19, and its segment file."""
    topic = new_topic(cluster, name)
    produce(cluster, topic, values(10))
    produce(cluster, topic, values(10))
    return topic, segment(cluster, topic)


def test_a_corrupt_batch_fails_the_query(spark: SparkSession, broker: LocalCluster) -> None:
    topic, path = two_batches(broker, "corrupt")
    with path.open("r+b") as file:
        file.seek(path.read_bytes().rindex(b"value-3"))
        file.write(b"V")
    said = failure(load(spark, broker.bootstrap, subscribe=topic))
    assert f"topic {topic}, partition 0: the record batch at offset 10 (to 19) cannot be read: " in said
    assert "Record batch is corrupt (stored crc = " in said
    before = load(spark, broker.bootstrap, subscribe=topic, endingOffsets=json.dumps({topic: {"0": 10}}))
    assert before.count() == 10
    unchecked = load(spark, broker.bootstrap, subscribe=topic, kafka_check_crcs="false")
    assert unchecked.count() == 20


@pytest.mark.full
def test_a_truncated_segment_fails_the_query(spark: SparkSession, broker: LocalCluster) -> None:
    topic, path = two_batches(broker, "cut-off")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 20)
    said = failure(load(spark, broker.bootstrap, subscribe=topic, kafkaConsumer_pollTimeoutMs="1500"))
    assert f"topic {topic}, partition 0: cannot read from offset 0 (of 0 to 19): " in said
    assert f"{path} cannot be read at byte 0: it ends 20 bytes before" in broker.log_file(1).read_text()
    broker.restart_broker(1)
    assert load(spark, broker.bootstrap, subscribe=topic).count() == 10


@pytest.mark.full
def test_an_end_offset_beyond_the_log_fails_the_query(spark: SparkSession, broker: LocalCluster) -> None:
    topic = new_topic(broker, "early")
    produce(broker, topic, values(5))
    frame = load(
        spark,
        broker.bootstrap,
        subscribe=topic,
        endingOffsets=json.dumps({topic: {"0": 9}}),
        kafkaConsumer_pollTimeoutMs="1500",
    )
    said = failure(frame)
    assert f"Cannot fetch record for offset 5 of {topic}-0 in 1500 milliseconds: the partition ends at 5" in said


def test_a_query_fails_without_a_broker(spark: SparkSession) -> None:
    frame = load(
        spark,
        "127.0.0.1:1",
        **{"subscribe": "t", "kafka.default.api.timeout.ms": "500", "fetchOffset.retryIntervalMs": "10"},
    )
    began = time.monotonic()
    assert "no broker of 127.0.0.1:1 can be reached" in failure(frame)
    assert time.monotonic() - began < 60


def test_a_query_reconnects_after_a_broker_restart(spark: SparkSession, broker: LocalCluster) -> None:
    """Workers keep connections and leaders from task to task, but not across a broker's restart."""
    topic = new_topic(broker, "restart")
    produce(broker, topic, values(5))
    frame = load(spark, broker.bootstrap, subscribe=topic)
    assert frame.count() == 5
    broker.restart_broker(1)
    produce(broker, topic, values(5))
    assert load(spark, broker.bootstrap, subscribe=topic).count() == 10
