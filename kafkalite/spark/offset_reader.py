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
        return self._attempts(self._partitions)

    def earliest(self, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        """First offsets of all partitions to read, or of those of ``partitions`` that exist."""

        def ask() -> Offsets:
            there = self._partitions()
            return self._list(EARLIEST, there if partitions is None else there & set(partitions))

        return {} if partitions is not None and not partitions else self._attempts(ask)

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """Ends of the partitions. If one lies before its ``known`` end, the cluster is asked again, as a new leader
        may not know its end yet."""
        found = self._attempts(lambda: self._list(LATEST, self._partitions()))
        for _ in range(self._options.offset_attempts - 1):
            if all(known.get(partition, 0) <= offset for partition, offset in found.items()) if known else True:
                break
            time.sleep(self._options.offset_retry_ms / 1000)
            found = self._attempts(lambda: self._list(LATEST, self._partitions()))
        return found

    def resolve(self, limit: Limit, *, starting: bool) -> Offsets:
        """The offsets that a limit means now. Raises :class:`~kafkalite.spark.offsets.OffsetError` where it names
        other partitions than there are, or a time after all records (for a start, unless that is to mean the end)."""
        return self._attempts(lambda: self._resolve(limit, starting))

    def _resolve(self, limit: Limit, starting: bool) -> Offsets:
        there = self._partitions()
        if isinstance(limit, Everywhere):
            return self._list(limit.offset, there)
        if isinstance(limit, Specific):
            if limit.offsets.keys() != there:
                raise OffsetError(
                    "Partitions specified for Kafka start offsets don't match what are assigned. Maybe topic "
                    "partitions are created or deleted while the query is running. Use -1 for latest, -2 for "
                    f"earliest. Specified: {names(limit.offsets)} Assigned: {names(there)}"
                )
            return self._bind(limit.offsets)
        return self._bind(self._at_times(limit, there, starting))

    def _at_times(self, limit: ByTime, there: set[TopicPartition], starting: bool) -> Offsets:
        times = limit.timestamps if limit.timestamp is None else dict.fromkeys(there, limit.timestamp)
        if times.keys() != there:
            position = "start" if starting else "end"
            raise OffsetError(
                f"Partitions specified for Kafka timestamp based {position} offsets don't match what are assigned. "
                "Maybe topic partitions are created or deleted while the query is running, or you didn't specify all "
                f"the partitions. Specified: {names(times)} Assigned: {names(there)}"
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
        there = {
            TopicPartition(state.name, number) for state in found if not state.internal for number in state.leaders
        }
        return there & set(wanted.partitions) if wanted.partitions else there

    def _topics(self, asked: Collection[str] | None) -> dict[str, TopicState]:
        states = self._cluster.topics(asked)
        for state in states.values():
            if state.error and asked is not None:
                code = ErrorCode(state.error)
                what = "This server does not host this topic-partition." if code == _UNKNOWN else code.name
                kind = "UnknownTopicOrPartitionException" if code == _UNKNOWN else "KafkaException"
                raise _TopicError(f"{kind}: topic {state.name}: {what}", passing=code in RETRIABLE)
        return states

    def _attempts(self, body: Callable[[], T]) -> T:
        attempt = 1
        while True:
            try:
                return body()
            except (KafkaClientError, OffsetError) as error:
                passing = error.passing if isinstance(error, _TopicError) else not isinstance(error, _FINAL)
                if not passing or attempt >= self._options.offset_attempts:
                    raise
                log.warning("Error in attempt %d getting Kafka offsets: %s", attempt, error)
                attempt += 1
            time.sleep(self._options.offset_retry_ms / 1000)
            self._cluster.close()
            self._cluster.forget()


class _TopicError(KafkaClientError):
    """A topic that cannot be read; ``passing``: trying again may help."""

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


_FINAL = (AuthenticationError, OffsetError)
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
