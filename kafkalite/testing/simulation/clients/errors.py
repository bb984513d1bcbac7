"""Errors that Java's client retries, and errors that prove that nothing was written.

Answers to: ``org.apache.kafka.common.errors.{RetriableException,InvalidMetadataException}`` and their subclasses. Pure.
"""

from __future__ import annotations

from kafkalite.common.errors import ErrorCode

E = ErrorCode

RETRIABLE = frozenset(
    (
        E.CORRUPT_MESSAGE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.LEADER_NOT_AVAILABLE,
        E.NOT_LEADER_OR_FOLLOWER,
        E.REQUEST_TIMED_OUT,
        E.BROKER_NOT_AVAILABLE,
        E.REPLICA_NOT_AVAILABLE,
        E.NETWORK_EXCEPTION,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.NOT_CONTROLLER,
        E.CONCURRENT_TRANSACTIONS,
        E.KAFKA_STORAGE_ERROR,
        E.FETCH_SESSION_ID_NOT_FOUND,
        E.INVALID_FETCH_SESSION_EPOCH,
        E.LISTENER_NOT_FOUND,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        E.UNSTABLE_OFFSET_COMMIT,
        E.THROTTLING_QUOTA_EXCEEDED,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
    )
)
"""The same request may succeed later, perhaps at another broker."""

NOT_WRITTEN = frozenset(
    (
        E.CORRUPT_MESSAGE,
        E.MESSAGE_TOO_LARGE,
        E.INVALID_TOPIC_EXCEPTION,
        E.RECORD_LIST_TOO_LARGE,
        E.NOT_ENOUGH_REPLICAS,
        E.INVALID_REQUIRED_ACKS,
        E.INVALID_TIMESTAMP,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        E.INVALID_PRODUCER_EPOCH,
        E.INVALID_TXN_STATE,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.UNKNOWN_PRODUCER_ID,
        E.INVALID_RECORD,
        E.PRODUCER_FENCED,
        E.TRANSACTION_ABORTABLE,
    )
)
"""Answers to Produce that a broker gives before it appends: nothing of that request is in the log."""

COORDINATOR_MOVED = frozenset((E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR))
"""Errors after which the coordinator must be looked up again."""

FENCED = frozenset((E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED))
"""Errors for a producer whose transactional id another producer has, or whose transaction timed out."""
