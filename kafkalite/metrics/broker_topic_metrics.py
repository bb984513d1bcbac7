"""Bytes, records and requests of producers, consumers and followers: of the broker and of each topic.

Answers to: the meters of ``kafka.server.BrokerTopicMetrics``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample
from kafkalite.replication.broker_topic_stats import BrokerTopicMetrics, BrokerTopicStats

_OF_TOPICS: Final = ("topic",)
_MEND: Final = "The client library has a defect: update it."


def _meter(bean: str, meaning: str, unit: str = "", remedy: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_brokertopicmetrics_{bean.lower()}",
        MetricKind.COUNTER,
        meaning,
        _OF_TOPICS,
        unit,
        f"kafka.server:type=BrokerTopicMetrics,name={bean}PerSec",
        remedy,
    )


_METERS: Final = {
    "messages_in": _meter("MessagesIn", "Records that producers sent.", "records"),
    "bytes_in": _meter("BytesIn", "Record batches that producers sent, as they were sent.", "bytes"),
    "bytes_out": _meter("BytesOut", "Record batches that consumers were sent.", "bytes"),
    "bytes_rejected": _meter(
        "BytesRejected",
        "Record batches that were refused because they are too large.",
        "bytes",
        "Raise max.message.bytes of the topic, or lower max.request.size of the producer.",
    ),
    "replication_bytes_in": _meter("ReplicationBytesIn", "Record batches that this broker's followers took.", "bytes"),
    "replication_bytes_out": _meter("ReplicationBytesOut", "Record batches that followers were sent.", "bytes"),
    "reassignment_bytes_in": _meter(
        "ReassignmentBytesIn", "Record batches that followers here took which a reassignment adds.", "bytes"
    ),
    "reassignment_bytes_out": _meter(
        "ReassignmentBytesOut", "Record batches that followers were sent which a reassignment adds.", "bytes"
    ),
    "total_produce_requests": _meter("TotalProduceRequests", "Appends, one for each partition of a request."),
    "total_fetch_requests": _meter("TotalFetchRequests", "Reads, one for each partition of a request."),
    "failed_produce_requests": _meter(
        "FailedProduceRequests",
        "Appends that failed, except those for which the client had asked the wrong broker or sent damaged bytes.",
        remedy="See the broker's log, and kafka_server_replicamanager_underminisrpartitioncount.",
    ),
    "failed_fetch_requests": _meter(
        "FailedFetchRequests", "Reads that failed in the broker.", remedy="See the broker's log: a disk may be failing."
    ),
    "produce_message_conversions": _meter(
        "ProduceMessageConversions",
        "Records of producers that were written into new batches, because they came in a format before 0.11 or with "
        "another codec than the topic's.",
        "records",
        "Each costs time of the reactor: update the producers, or set compression.type=producer.",
    ),
    "fetch_message_conversions": _meter(
        "FetchMessageConversions",
        "Records that were converted for consumers which know formats before 0.11 only.",
        "records",
        "Each costs time of the reactor: update the consumers.",
    ),
    "no_key_compacted_topic_records": _meter(
        "NoKeyCompactedTopicRecords",
        "Records that were refused, because a compacted topic needs keys.",
        "records",
        "Mend the producer, or the topic's cleanup.policy.",
    ),
    "invalid_magic_number_records": _meter(
        "InvalidMagicNumberRecords",
        "Batches that were refused, because they or the messages in them have different formats.",
        "batches",
        _MEND,
    ),
    "invalid_message_crc_records": _meter(
        "InvalidMessageCrcRecords",
        "Batches of producers and of leaders that were refused, because their CRCs do not fit their bytes.",
        "batches",
        "Something on the way changes bytes: suspect the network cards and the memory of both sides.",
    ),
    "invalid_offset_or_sequence_records": _meter(
        "InvalidOffsetOrSequenceRecords",
        "Batches that were refused for offsets that do not fit the number of records, for a negative sequence, or as "
        "control records of a client.",
        "batches",
        _MEND,
    ),
}


class BrokerTopicMetricsCollector:
    """Reads :class:`BrokerTopicStats`. The broker's own sums have an empty topic, which the page leaves out."""

    DEFINITIONS = tuple(_METERS.values())
    _AT_ONCE: Final = 100

    def __init__(self, stats: BrokerTopicStats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        yield _samples("", self._stats.total())
        topics = sorted(self._stats.topics)
        for start in range(0, len(topics), self._AT_ONCE):
            piece: list[MetricSample] = []
            for topic in topics[start : start + self._AT_ONCE]:
                metrics = self._stats.topics.get(topic)
                if metrics is not None:
                    piece += _samples(topic, metrics)
            yield piece


def _samples(topic: str, metrics: BrokerTopicMetrics) -> list[MetricSample]:
    return [MetricSample(metric, (topic,), getattr(metrics, field)) for field, metric in _METERS.items()]
