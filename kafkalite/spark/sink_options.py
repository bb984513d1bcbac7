"""The options of Spark's Kafka sink, and those of this sink alone.

Answers to: ``org.apache.spark.sql.kafka010.KafkaSourceProvider.kafkaParamsForProducer`` and
``org.apache.kafka.clients.producer.ProducerConfig``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkalite.record.compression import CODECS
from kafkalite.spark.client.config import ClientConfig, ClientConfigError
from kafkalite.spark.options import OptionError, boolean, kafka_options, positive

ROUND_ROBIN = "roundrobinpartitioner"
_PARTITIONERS = ("", "defaultpartitioner", "builtinpartitioner", "uniformstickypartitioner", ROUND_ROBIN)
_REFUSED = {
    "key.serializer": "Keys are serialized with ByteArraySerializer.",
    "value.serializer": "Value are serialized with ByteArraySerializer.",
    "transactional.id": "Each task attempt has a transaction of its own.",
}
BATCH_BYTES = 512 << 10
"""Default of ``kafka.batch.size``, in bytes: large, because a task has many rows and no row is urgent."""


@dataclass(frozen=True)
class SinkOptions:
    """Settings of a writer. Times in milliseconds, sizes in bytes.

    ``batch_id`` names a batch write that counts once; with a ``query`` it is the number of that query's micro-batch.
    ``exactly_once`` has a meaning for streams only. ``transaction_timeout_ms`` 0: as long as the broker allows.
    ``acks``: -1 all replicas in sync, 1 the leader, 0 none.
    """

    client: ClientConfig
    topic: str | None = None
    batch_id: str | None = None
    query: str | None = None
    exactly_once: bool = True
    fail_on_data_loss: bool = True
    acks: int = -1
    idempotent: bool = True
    codec: int = 0
    batch_bytes: int = BATCH_BYTES
    request_bytes: int = 1 << 20
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    transaction_timeout_ms: int = 0
    round_robin: bool = False
    ignore_keys: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """From the options of a DataFrame writer, names in any case. Raises :class:`OptionError`."""
        given = {name.lower(): value for name, value in options.items()}
        kafka = kafka_options(given)
        for name, why in _REFUSED.items():
            if name in kafka:
                raise OptionError(f"Kafka option '{name}' is not supported. {why}")
        if "bootstrap.servers" not in kafka:
            raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
        batch_id, query = _name(given, "kafkalite.batchId"), _name(given, "kafkalite.queryId")
        if query is not None and not (batch_id or "").isdecimal():
            raise OptionError(
                f"kafkalite.batchId is '{batch_id}': with kafkalite.queryId it must be the number of a micro-batch"
            )
        acks = _one_of(kafka, "acks", "all", {"all": -1, "-1": -1, "1": 1, "0": 1})
        try:
            client = ClientConfig.from_kafka(kafka, request_timeout_ms="30000")
        except ClientConfigError as error:
            raise OptionError(str(error)) from None
        return cls(
            client,
            topic=given.get("topic", "").strip() or None,
            batch_id=batch_id,
            query=query,
            exactly_once=boolean(given, "kafkalite.exactlyonce", "kafkalite.exactlyOnce", True),
            fail_on_data_loss=boolean(given, "failondataloss", "failOnDataLoss", True),
            acks=acks,
            idempotent=acks < 0 and boolean(kafka, "enable.idempotence", "kafka.enable.idempotence", True),
            codec=_one_of(kafka, "compression.type", "none", CODECS),
            batch_bytes=positive(kafka, "batch.size", "kafka.batch.size") or cls.batch_bytes,
            request_bytes=positive(kafka, "max.request.size", "kafka.max.request.size") or cls.request_bytes,
            delivery_timeout_ms=positive(kafka, "delivery.timeout.ms", "kafka.delivery.timeout.ms")
            or cls.delivery_timeout_ms,
            max_block_ms=positive(kafka, "max.block.ms", "kafka.max.block.ms") or cls.max_block_ms,
            transaction_timeout_ms=positive(kafka, "transaction.timeout.ms", "kafka.transaction.timeout.ms"),
            round_robin=_partitioner(kafka) == ROUND_ROBIN,
            ignore_keys=boolean(kafka, "partitioner.ignore.keys", "kafka.partitioner.ignore.keys", False),
        )


def _one_of(kafka: Mapping[str, str], name: str, default: str, allowed: Mapping[str, int]) -> int:
    value = kafka.get(name, default).strip().lower()
    if value not in allowed:
        raise OptionError(f"Invalid value {value} for kafka.{name}: it must be one of {', '.join(sorted(allowed))}")
    return allowed[value]


def _partitioner(kafka: Mapping[str, str]) -> str:
    """The class name in lower case, without its package."""
    name = kafka.get("partitioner.class", "").strip()
    short = name.rpartition(".")[2].lower()
    if short not in _PARTITIONERS:
        raise OptionError(
            f"Invalid value {name} for kafka.partitioner.class: it must be Kafka's default partitioner or its "
            "RoundRobinPartitioner"
        )
    return short


def _name(given: Mapping[str, str], option: str) -> str | None:
    text = given.get(option.lower())
    if text is None:
        return None
    if not text.strip() or len(text) > 200:
        raise OptionError(f"{option} is '{text}': it must be a name of 1 to 200 characters")
    return text.strip()
