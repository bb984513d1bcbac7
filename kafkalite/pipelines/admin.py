"""The topics of pipelines: checked, and created if they do not exist.

Answers to: ``org.apache.kafka.connect.util.TopicAdmin``. Blocking shell around librdkafka.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.pipeline import Pipeline
from kafkalite.spark.client.config import ClientConfig, ClientConfigError

TIMEOUT = 15.0
"""Seconds for a cluster to answer."""
PATIENCE = 5.0
"""Seconds within which every broker knows a new topic."""


def check_topics(pipeline: Pipeline, topics: Collection[str]) -> None:
    """Raises :class:`PipelineError` if the cluster does not answer, or lacks one of ``topics``."""
    admin = _admin(pipeline)
    deadline = time.monotonic() + PATIENCE
    while True:
        there = _topics(pipeline, admin)
        missing = [topic for topic in topics if topic not in there]
        if not missing:
            return
        if time.monotonic() > deadline:
            servers = pipeline.kafka["bootstrap.servers"]
            raise PipelineError(
                f"{pipeline.where}: no topic '{missing[0]}' at {servers}: create it, or correct its name"
            )
        time.sleep(0.25)


def ensure_topic(pipeline: Pipeline, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Create ``topic`` if it does not exist. Raises :class:`PipelineError`."""
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


def librdkafka_settings(kafka: Mapping[str, str]) -> dict[str, Any]:
    """The addresses, TLS and SASL of a pipeline's client, under librdkafka's names. Raises ``ClientConfigError``."""
    config = ClientConfig.from_kafka(kafka)
    told: dict[str, Any] = {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in config.bootstrap_servers),
        "client.id": kafka.get("client.id", "kafkalite-pipeline"),
        "security.protocol": config.security_protocol,
    }
    if config.tls:
        ssl = config.ssl
        told |= {
            "ssl.ca.location": ssl.truststore_location,
            "ssl.ca.pem": ssl.truststore_certificates,
            "ssl.certificate.location": ssl.keystore_location,
            "ssl.key.location": ssl.keystore_location,
            "ssl.certificate.pem": ssl.keystore_certificate_chain,
            "ssl.key.pem": ssl.keystore_key,
            "ssl.key.password": ssl.key_password,
            "ssl.endpoint.identification.algorithm": "https" if ssl.check_hostname else "none",
        }
    if config.sasl is not None:
        sasl = config.sasl
        told |= {
            "sasl.mechanism": sasl.mechanism,
            "sasl.username": sasl.username or None,
            "sasl.password": sasl.password or None,
            "sasl.kerberos.service.name": sasl.service or None,
            "sasl.kerberos.keytab": sasl.keytab or None,
            "sasl.kerberos.principal": sasl.principal or None,
        }
    return {name: value for name, value in told.items() if value is not None}


def _admin(pipeline: Pipeline) -> Any:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        settings = librdkafka_settings(pipeline.kafka)
    except ClientConfigError as error:
        raise PipelineError(f"{pipeline.where} [kafka]: {error}") from None
    try:
        return AdminClient({**settings, "log_level": 0})
    except KafkaException as error:
        # As where librdkafka was built without the mechanism.
        raise PipelineError(f"{pipeline.where} [kafka]: {error.args[0].str()}") from None


def _topics(pipeline: Pipeline, admin: Any) -> Collection[str]:
    from confluent_kafka import KafkaException

    try:
        return set(admin.list_topics(timeout=TIMEOUT).topics)
    except KafkaException as error:
        servers = pipeline.kafka["bootstrap.servers"]
        raise PipelineError(f"{pipeline.where}: no broker of {servers} answers: {error.args[0].str()}") from None
