"""What the requests cost whose records had to be converted.

Answers to: ``messageConversionsTimeHist`` and ``tempMemoryBytesHist`` of ``kafka.network.RequestMetrics``.
Deterministic.

Kafka's have a 0 for every other request of Produce and Fetch; here these are left out, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample, percentiles
from kafkalite.replication.broker_topic_stats import BrokerTopicStats


def _summary(name: str, meaning: str, unit: str) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_network_requestmetrics_{name.lower()}",
        MetricKind.SUMMARY,
        f"{meaning} Only of requests with records that had to be converted; _count is their number.",
        ("request",),
        unit,
        f"kafka.network:type=RequestMetrics,name={name},request={{Produce|Fetch}}",
        "See kafka_server_brokertopicmetrics_producemessageconversions_total and fetchmessageconversions_total.",
    )


TIME: Final = _summary("MessageConversionsTimeMs", "How long the conversion took.", "milliseconds")
MEMORY: Final = _summary(
    "TemporaryMemoryBytes",
    "Bytes of the records that were unpacked, and of the batches that were made of them.",
    "bytes",
)


class ConversionMetricsCollector:
    """Reads :class:`BrokerTopicStats`."""

    DEFINITIONS = (TIME, MEMORY)

    def __init__(self, stats: BrokerTopicStats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        for request, stats in (("Produce", self._stats.produce_conversions), ("Fetch", self._stats.fetch_conversions)):
            times = sorted(1000 * each.seconds for each in stats.latest)
            memory = sorted(each.memory for each in stats.latest)
            yield [
                *percentiles(TIME, (request,), stats.count, times),
                *percentiles(MEMORY, (request,), stats.count, memory),
            ]
