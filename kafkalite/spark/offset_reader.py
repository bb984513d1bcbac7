"""The partitions to read and their offsets, as the driver asks the cluster for them.

Answers to: ``org.apache.spark.sql.kafka010.KafkaOffsetReaderAdmin``. Blocking shell.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.spark.client.cluster import ClusterConnections, TopicState
from kafkalite.spark.client.errors import RETRIABLE, AuthenticationError, KafkaClientError
from kafkalite.spark.client.fetch import NO_OFFSET, list_offsets
from kafkalite.spark.offsets import (
    EARLIEST,
    LATEST,
    ByTime,
    Everywhere,
    Limit,
    OffsetError,
    Offsets,
    Specific,
    names,
)
from kafkalite.spark.options import SourceOptions

T = TypeVar("T")
log = logging.getLogger(__name__)

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_FINAL = (AuthenticationError, OffsetError)
"""Errors that another attempt cannot mend."""


class OffsetReader:
    """Offsets of the topics that ``options`` name. Connects with the first call; close it.

    All methods raise ``KafkaClientError`` after ``fetchOffset.numRetries`` attempts.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = ClusterConnections(options.client)

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def partitions(self) -> set[TopicPartition]:
        """The partitions to read that exist now."""
        return self._retry(self._partitions)

    def earliest(self, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        """First offsets of all partitions to read, or of those of ``partitions`` that exist."""

        def ask() -> Offsets:
            existing = self._partitions()
            return self._list(EARLIEST, existing if partitions is None else existing & set(partitions))

        return {} if partitions is not None and not partitions else self._retry(ask)

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """Ends of the partitions. If one lies before its ``known`` end, the cluster is asked again, as a new leader
        may not know its end yet."""
        found = self._retry(lambda: self._list(LATEST, self._partitions()))
        for _ in range(self._options.offset_attempts - 1):
            if not known or all(known.get(partition, 0) <= offset for partition, offset in found.items()):
                break
            time.sleep(self._options.offset_retry_ms / 1000)
            found = self._retry(lambda: self._list(LATEST, self._partitions()))
        return found

    def resolve(self, limit: Limit, *, starting: bool) -> Offsets:
        """The offsets that a limit means now.

        Raises :class:`~kafkalite.spark.offsets.OffsetError` if the limit names other partitions than exist, or if a
        start is a time after the last record and the options do not make that the end of the partition.
        """
        return self._retry(lambda: self._resolve(limit, starting))

    def _resolve(self, limit: Limit, starting: bool) -> Offsets:
        existing = self._partitions()
        if isinstance(limit, Everywhere):
            return self._list(limit.offset, existing)
        if isinstance(limit, Specific):
            if limit.offsets.keys() != existing:
                raise OffsetError(
                    "Partitions specified for Kafka start offsets don't match what are assigned. Maybe topic "
                    "partitions are created or deleted while the query is running. Use -1 for latest, -2 for "
                    f"earliest. Specified: {names(limit.offsets)} Assigned: {names(existing)}"
                )
            return self._bind(limit.offsets)
        return self._bind(self._at_times(limit, existing, starting))

    def _at_times(self, limit: ByTime, existing: set[TopicPartition], starting: bool) -> Offsets:
        times = limit.timestamps if limit.timestamp is None else dict.fromkeys(existing, limit.timestamp)
        if times.keys() != existing:
            position = "start" if starting else "end"
            raise OffsetError(
                f"Partitions specified for Kafka timestamp based {position} offsets don't match what are assigned. "
                "Maybe topic partitions are created or deleted while the query is running, or you didn't specify all "
                f"the partitions. Specified: {names(times)} Assigned: {names(existing)}"
            )
        found = list_offsets(self._cluster, times)
        for partition, offset in found.items():
            if offset == NO_OFFSET:
                if starting and not limit.latest_if_none:
                    raise OffsetError(
                        f"No offset matched from request of topic-partition {partition} and timestamp "
                        f"{times[partition]}."
                    )
                found[partition] = LATEST
        return found

    def _bind(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """``offsets`` with numbers in place of "earliest" and "latest"."""
        open_ends = {partition: offset for partition, offset in offsets.items() if offset in (EARLIEST, LATEST)}
        return {**offsets, **(list_offsets(self._cluster, open_ends) if open_ends else {})}

    def _list(self, at: int, partitions: Collection[TopicPartition]) -> Offsets:
        return list_offsets(self._cluster, dict.fromkeys(partitions, at)) if partitions else {}

    def _partitions(self) -> set[TopicPartition]:
        wanted = self._options.topics
        if wanted.pattern is not None:
            pattern = re.compile(wanted.pattern)
            found = [state for name, state in self._topics(None).items() if pattern.search(name)]
        else:
            found = list(self._topics({*wanted.names, *(topic for topic, _ in wanted.partitions)}).values())
        existing = {
            TopicPartition(state.name, number) for state in found if not state.internal for number in state.leaders
        }
        return existing & set(wanted.partitions) if wanted.partitions else existing

    def _topics(self, asked: Collection[str] | None) -> dict[str, TopicState]:
        states = self._cluster.topics(asked)
        for state in states.values():
            if state.error and asked is not None:
                code = ErrorCode(state.error)
                what = "This server does not host this topic-partition." if code == _UNKNOWN else code.name
                kind = "UnknownTopicOrPartitionException" if code == _UNKNOWN else "KafkaException"
                raise _TopicError(f"{kind}: topic {state.name}: {what}", is_retriable=code in RETRIABLE)
        return states

    def _retry(self, body: Callable[[], T]) -> T:
        attempt = 1
        while True:
            try:
                return body()
            except (KafkaClientError, OffsetError) as error:
                is_retriable = error.is_retriable if isinstance(error, _TopicError) else not isinstance(error, _FINAL)
                if not is_retriable or attempt >= self._options.offset_attempts:
                    raise
                log.warning("Error in attempt %d getting Kafka offsets: %s", attempt, error)
                attempt += 1
            time.sleep(self._options.offset_retry_ms / 1000)
            self._cluster.close()
            self._cluster.forget()


class _TopicError(KafkaClientError):
    """A topic that cannot be read; ``is_retriable``: another attempt may succeed."""

    def __init__(self, message: str, is_retriable: bool) -> None:
        super().__init__(message)
        self.is_retriable = is_retriable
