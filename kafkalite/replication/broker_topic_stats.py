"""What producers, consumers and followers sent and read, by topic: plain integers that a scrape reads.

Answers to: ``kafka.server.{BrokerTopicStats,BrokerTopicMetrics}``. Deterministic.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Final

from kafkalite.common.recent_times import WINDOW
from kafkalite.record.convert import RecordConversionStats
from kafkalite.record.faults import InvalidRecordsError, RecordFault


@dataclass(slots=True)
class BrokerTopicMetrics:
    """Counts since the broker's start; ``…_bytes`` are bytes of record batches as they stand in the log.

    A request counts once for each partition that it names, as in Kafka. ``failed_produce`` and ``failed_fetch`` count
    what the broker did not expect, and batches that the validator refused; a client that asks the wrong broker is not
    counted. ``invalid_…`` and ``no_key_…`` are batches, the latter records, that the validator refused for this fault.
    """

    bytes_in: int = 0
    messages_in: int = 0
    bytes_out: int = 0
    bytes_rejected: int = 0
    total_produce_requests: int = 0
    total_fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    reassignment_bytes_in: int = 0
    reassignment_bytes_out: int = 0
    produce_message_conversions: int = 0
    fetch_message_conversions: int = 0
    invalid_magic_number_records: int = 0
    invalid_message_crc_records: int = 0
    invalid_offset_or_sequence_records: int = 0
    no_key_compacted_topic_records: int = 0

    def add(self, other: BrokerTopicMetrics) -> None:
        """Add the counts of ``other``."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def refused(self, error: InvalidRecordsError) -> None:
        """Records were refused with ``error``: count its fault."""
        if error.fault is not None:
            name = _FAULTS[error.fault]
            setattr(self, name, getattr(self, name) + error.count)


_FAULTS: Final = {
    RecordFault.MAGIC_NUMBER: "invalid_magic_number_records",
    RecordFault.MESSAGE_CRC: "invalid_message_crc_records",
    RecordFault.OFFSET_OR_SEQUENCE: "invalid_offset_or_sequence_records",
    RecordFault.NO_KEY: "no_key_compacted_topic_records",
}

_COUNTS = attrgetter(*(field.name for field in fields(BrokerTopicMetrics)))


class ConversionStats:
    """Requests whose records were converted: how many, and what each of the latest cost."""

    __slots__ = ("count", "latest")

    def __init__(self) -> None:
        self.count = 0
        self.latest: deque[RecordConversionStats] = deque(maxlen=WINDOW)

    def add(self, conversion: RecordConversionStats) -> None:
        """One more request, whose conversions cost ``conversion`` together."""
        self.count += 1
        self.latest.append(conversion)


@dataclass(slots=True)
class DelayedFetchStats:
    """Fetches that were answered because their wait was over, by who had sent them."""

    follower_expired: int = 0
    consumer_expired: int = 0


@dataclass(slots=True)
class IsrStats:
    """How often ISRs of partitions led here lost and won members, and how many changes ZooKeeper did not take."""

    shrinks: int = 0
    expands: int = 0
    failed_updates: int = 0


class BrokerTopicStats:
    """The counts of each topic of which this broker holds a replica, and of requests for any of them."""

    def __init__(self) -> None:
        self.produce_conversions = ConversionStats()
        self.fetch_conversions = ConversionStats()
        self.delayed_fetches = DelayedFetchStats()
        self.topics: dict[str, BrokerTopicMetrics] = {}
        self._replicas: Counter[str] = Counter()
        self._gone = BrokerTopicMetrics()

    def enter(self, topic: str) -> BrokerTopicMetrics:
        """This broker holds one more replica of ``topic``; returns the counts that the topic's replicas share."""
        self._replicas[topic] += 1
        metrics = self.topics.get(topic)
        if metrics is None:
            metrics = self.topics[topic] = BrokerTopicMetrics()
        return metrics

    def leave(self, topic: str) -> None:
        """This broker holds one replica of ``topic`` fewer. After the last its counts stay in :meth:`total` only."""
        self._replicas[topic] -= 1
        if not self._replicas[topic]:
            del self._replicas[topic]
            self._gone.add(self.topics.pop(topic))

    def total(self) -> BrokerTopicMetrics:
        """The counts of all topics since the start; they never go back."""
        # Without add, because a broker may have 10,000 topics, and a scrape must not hold the reactor.
        counts = zip(_COUNTS(self._gone), *map(_COUNTS, self.topics.values()), strict=True)
        return BrokerTopicMetrics(*map(sum, counts))
