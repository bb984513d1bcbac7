"""Spark's source and sink, and a pipeline, as an ordinary user over SASL_SSL with a few ACLs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType
from pyspark.sql import DataFrame, SparkSession

from integration.harness.logins import grant
from integration.harness.wait import wait_for
from integration.security.conftest import SecuredCluster
from kafkalite.embedded.security import ADMIN, CLIENT
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.pipeline import parse
from kafkalite.pipelines.runner import load_job
from kafkalite.spark.attempts import PREFIX

SOURCE, TARGET, FORBIDDEN = "spark-source", "spark-target", "forbidden"
ROWS = 200


@pytest.fixture(scope="module")
def cluster(secured: SecuredCluster) -> SecuredCluster:
    """Topics of which the user ``client`` may write and read all but one."""
    login = secured.login(ADMIN)
    admin = AdminClient(login)
    for future in admin.create_topics([NewTopic(topic, 2, 2) for topic in (SOURCE, TARGET, FORBIDDEN)]).values():
        future.result(30)
    topic, transaction = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
    grant(
        login,
        CLIENT,
        *((topic, "spark-*", operation) for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE)),
        *((transaction, f"{PREFIX}*", operation) for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)),
        (ResourceType.GROUP, f"{PREFIX}*", AclOperation.READ),
    )
    client = AdminClient(secured.login(CLIENT))
    wait_for(lambda: set(client.list_topics(timeout=10).topics) == {SOURCE, TARGET}, "the user sees two of the topics")
    return secured


def options(cluster: SecuredCluster) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in cluster.java_login(CLIENT).items()}


def frame(spark: SparkSession, cluster: SecuredCluster, topic: str, source: str = "kafkalite") -> DataFrame:
    reader = spark.read.format(source).options(**options(cluster)).option("subscribe", topic)
    return reader.option("kafka.isolation.level", "read_committed").load()


def numbers(spark: SparkSession, cluster: SecuredCluster, topic: str, source: str = "kafkalite") -> list[int]:
    rows = frame(spark, cluster, topic, source).selectExpr("cast(cast(value as string) as int) v").collect()
    return sorted(row.v for row in rows)


def write(spark: SparkSession, cluster: SecuredCluster, topic: str, **more: str) -> None:
    rows = spark.range(ROWS).selectExpr("cast(id as string) value")
    writer = rows.write.format("kafkalite").mode("append").options(**options(cluster), **more)
    writer.option("topic", topic).save()


def test_a_batch_is_written_and_read(spark: SparkSession, cluster: SecuredCluster) -> None:
    """Once, in transactions; Spark's own source reads the same."""
    write(spark, cluster, SOURCE, **{"kafkalite.batchId": "load"})
    write(spark, cluster, SOURCE, **{"kafkalite.batchId": "load"})
    for source in ("kafkalite", "kafka"):
        assert numbers(spark, cluster, SOURCE, source) == list(range(ROWS))


def test_a_stream_is_copied_exactly_once(spark: SparkSession, cluster: SecuredCluster, tmp_path: Path) -> None:
    stream = spark.readStream.format("kafkalite").options(**options(cluster)).option("subscribe", SOURCE)
    stream = stream.option("startingOffsets", "earliest")
    for _ in range(2):
        query = (
            stream.load()
            .selectExpr("value")
            .writeStream.format("kafkalite")
            .options(**options(cluster))
            .option("topic", TARGET)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert numbers(spark, cluster, TARGET) == list(range(ROWS))


def test_what_is_not_granted_is_refused(spark: SparkSession, cluster: SecuredCluster) -> None:
    with pytest.raises(Exception, match=r"TOPIC_AUTHORIZATION_FAILED|[Nn]ot authorized"):
        write(spark, cluster, FORBIDDEN)
    with pytest.raises(Exception, match=r"TOPIC_AUTHORIZATION_FAILED|[Nn]ot authorized"):
        frame(spark, cluster, FORBIDDEN).collect()


@pytest.mark.full
def test_a_pipeline_copies_files_to_a_topic(spark: SparkSession, cluster: SecuredCluster, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.csv").write_text("".join(f"{number},row {number}\n" for number in range(ROWS)))
    kafka = "".join(
        f"kafka.{json.dumps(name)} = {json.dumps(text)}\n" for name, text in cluster.java_login(CLIENT).items()
    )
    text = f"""
        name = "films"
        job = "connect"
        trigger.once = true
        {kafka}
        [source]
        type = "files"
        path = "{files}/*.csv"
        format = "csv"
        schema = "number INT NOT NULL, title STRING"
        [sink]
        type = "topic"
        topic = "spark-films"
        key = ["number"]
        partitions = 2
    """
    pipeline = parse(text, "secured.toml")
    loaded = load_job(pipeline)
    for query in loaded.module.start(Context(spark, pipeline, tmp_path / "state"), loaded.options):
        query.awaitTermination()
    found = frame(spark, cluster, "spark-films").selectExpr("cast(value as string) v").collect()
    assert sorted(json.loads(row.v)["number"] for row in found) == list(range(ROWS))
