"""Errors between a Spark process and a cluster.

Answers to: ``org.apache.kafka.common.errors`` and ``org.apache.spark.sql.kafka010.KafkaExceptions``. Pure.

Spark's processes pass exceptions by pickle, which makes each again from its ``args``.
"""

from __future__ import annotations

from kafkalite.common.errors import ErrorCode


class KafkaClientError(Exception):
    """A request failed and is not tried again. The text names the request and the broker, and says what to do."""


class BrokerUnreachableError(KafkaClientError):
    """A broker cannot be reached, or the connection was lost: whether it carried the request out is unknown."""


class AuthenticationError(KafkaClientError):
    """A broker refused the credentials, or its certificate is not trusted."""


class OffsetOutOfRangeError(KafkaClientError):
    """A partition does not have the offset, and not only until its leader is up to date."""

    def __init__(self, message: str, topic: str = "", partition: int = -1, offset: int = -1) -> None:
        super().__init__(message, topic, partition, offset)
        self.topic = topic
        self.partition = partition
        self.offset = offset

    def __str__(self) -> str:
        return str(self.args[0])


RETRIABLE = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    )
)
"""Errors that may pass: the same request may succeed later, perhaps at another broker."""
