"""Errors of reads and writes for users, in the words of Spark's Kafka source.

Answers to: ``org.apache.spark.sql.kafka010.KafkaExceptions``. Pure.
"""

from __future__ import annotations

_LOST = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed. If you don't want your "
    "streaming query to fail on such cases, set the source option failOnDataLoss to false. Reason: "
)


class KafkaDataLossError(Exception):
    """Records that were asked for are gone (``KAFKA_DATA_LOSS``); ``failOnDataLoss`` decides whether it is raised."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason

    def __str__(self) -> str:
        return f"[KAFKA_DATA_LOSS.{self.kind}] {_LOST}{self.reason}"


class KafkaReadError(Exception):
    """Records cannot be read; the text names topic, partition and offset."""


class KafkaWriteError(Exception):
    """Rows cannot be written; the text names topic, partition and offset."""
