"""Committed offsets and lag of each group, from its coordinator.

Answers to: the series ``kafka_consumergroup_*`` of kafka_exporter. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from kafkalite.metrics.consumer_group_sampler import (
    NO_OFFSET,
    ConsumerGroupSample,
    ConsumerGroupSampler,
    GroupSample,
)
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample

_SLOW: Final = "Its members are too slow, too few or stopped: kafka-consumer-groups --describe --group GROUP."


def _gauge(name: str, meaning: str, labels: tuple[str, ...], unit: str = "", remedy: str = "") -> MetricDefinition:
    return MetricDefinition(f"kafka_consumergroup_{name}", MetricKind.GAUGE, meaning, labels, unit, remedy=remedy)


_OF_PARTITION: Final = ("consumergroup", "topic", "partition")
_OF_TOPIC: Final = ("consumergroup", "topic")

OFFSET: Final = _gauge(
    "current_offset",
    "Committed offset, from the group's coordinator; -1 where the group reads the topic and has committed none.",
    _OF_PARTITION,
    "offset",
)
LAG: Final = _gauge(
    "lag",
    "Records between the committed offset and the high watermark, which its leader told the coordinator; -1 without a "
    "committed offset. Left out while the partition has no leader that answers.",
    _OF_PARTITION,
    "records",
    _SLOW,
)
OFFSET_SUM: Final = _gauge("current_offset_sum", "Sum of the committed offsets of a topic.", _OF_TOPIC, "offset")
LAG_SUM: Final = _gauge("lag_sum", "Sum of the lags of a topic that are known.", _OF_TOPIC, "records", _SLOW)
MEMBERS: Final = _gauge(
    "members",
    "Members of the group. A group without a coordinator is shown, with 0, by the broker that would coordinate it.",
    ("consumergroup",),
    remedy="With 0 and a lag that grows: start its consumers.",
)
AGE: Final = MetricDefinition(
    "kafkalite_consumergroup_sample_age_seconds",
    MetricKind.GAUGE,
    "Age of this broker's offsets and lags of groups; 0 if it shows none.",
    unit="seconds",
    remedy="If it stays above 30: ZooKeeper is slow, or a leader does not answer.",
)


class ConsumerGroupMetricsCollector:
    """Shows the latest sample of a :class:`ConsumerGroupSampler`."""

    DEFINITIONS = (OFFSET, LAG, OFFSET_SUM, LAG_SUM, MEMBERS, AGE)
    _AT_ONCE: Final = 500
    """Samples in a piece, at least: a few milliseconds."""

    def __init__(self, sampler: ConsumerGroupSampler) -> None:
        self._sampler = sampler

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        piece = [MetricSample(AGE, (), self._sampler.age)]
        sample = self._sampler.latest
        if sample is not None:
            for name, group in sample.groups.items():
                for more in _group(name, group, sample):
                    piece += more
                    if len(piece) >= self._AT_ONCE:
                        yield piece
                        piece = []
        yield piece


def _group(name: str, group: GroupSample, sample: ConsumerGroupSample) -> Iterator[list[MetricSample]]:
    yield [MetricSample(MEMBERS, (name,), group.members)]
    for topic, partitions in groupby(group.offsets.items(), key=lambda item: item[0].topic):
        offsets = lags = 0
        for tp, offset in partitions:
            labels = (name, topic, str(tp.partition))
            piece = [MetricSample(OFFSET, labels, offset)]
            end = sample.ends.get(tp)
            if offset == NO_OFFSET:
                piece.append(MetricSample(LAG, labels, NO_OFFSET))
            else:
                offsets += offset
                if end is not None:
                    # An offset beyond the end was committed by hand, or before an unclean election.
                    lag = max(0, end - offset)
                    lags += lag
                    piece.append(MetricSample(LAG, labels, lag))
            yield piece
        yield [MetricSample(OFFSET_SUM, (name, topic), offsets), MetricSample(LAG_SUM, (name, topic), lags)]
