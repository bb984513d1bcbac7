"""Topics of pipelines: whether they are there, and made where they are not.

Answers to: ``org.apache.kafka.connect.util.TopicAdmin``. Blocking shell around librdkafka.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.pipeline import Pipeline

TIMEOUT = 15.0
"""Seconds for a cluster to answer."""
# What Spark's source and sink and librdkafka's clients call by the same name and mean in the same way.
_SHARED = ("bootstrap.servers", "client.id", "security.protocol", "sasl.username", "sasl.password", "ssl.ca.location")
_SHARED_SASL = ("sasl.mechanism", "sasl.mechanisms")


def check_topics(pipeline: Pipeline, topics: Collection[str]) -> None:
    """Raises :class:`PipelineError` where the cluster does not answer, or lacks one of ``topics``."""
    there = _topics(pipeline, _admin(pipeline))
    missing = [topic for topic in topics if topic not in there]
    if missing:
        servers = pipeline.kafka["bootstrap.servers"]
        raise PipelineError(f"{pipeline.where}: no topic '{missing[0]}' at {servers}: create it, or correct its name")


def ensure_topic(pipeline: Pipeline, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Create ``topic`` where it is not there. Raises :class:`PipelineError`."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    admin = _admin(pipeline)
    if topic in _topics(pipeline, admin):
        return
    new: Any = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(configs))
    try:
        admin.create_topics([new], request_timeout=TIMEOUT)[topic].result()
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise PipelineError(f"{pipeline.where}: topic '{topic}' cannot be created: {reason.str()}") from None


def _admin(pipeline: Pipeline) -> Any:
    from confluent_kafka.admin import AdminClient

    settings = {key: value for key, value in pipeline.kafka.items() if key in _SHARED + _SHARED_SASL}
    return AdminClient({**settings, "log_level": 0})


def _topics(pipeline: Pipeline, admin: Any) -> Collection[str]:
    from confluent_kafka import KafkaException

    try:
        return set(admin.list_topics(timeout=TIMEOUT).topics)
    except KafkaException as error:
        servers = pipeline.kafka["bootstrap.servers"]
        raise PipelineError(f"{pipeline.where}: no broker of {servers} answers: {error.args[0].str()}") from None
