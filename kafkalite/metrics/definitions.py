"""What a metric is: its name, its labels, its unit, the bean of Kafka that it answers to, what it means.

Answers to: ``com.yammer.metrics.core.MetricName`` and ``org.apache.kafka.common.MetricName``. Pure.

Names are those that the JMX exporter gives to Kafka's beans with ``lowercaseOutputName``:
``kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec`` is ``kafka_server_brokertopicmetrics_bytesin_total``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

QUANTILES: Final = (("0.50", 0.5), ("0.75", 0.75), ("0.95", 0.95), ("0.98", 0.98), ("0.99", 0.99), ("0.999", 0.999))
"""The percentiles that Kafka's beans have, as labels and as fractions."""


class MetricKind(Enum):
    """What its values are."""

    COUNTER = "counter"
    """A number that only grows until the broker starts again; ``_total`` is added to the name."""
    GAUGE = "gauge"
    SUMMARY = "summary"
    """Percentiles of the latest values, by the label ``quantile``, and how many there were: ``_count``."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric. ``remedy`` says what to do when it is bad; it is empty where no value is bad."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    bean: str = ""
    remedy: str = ""


class MetricSample(NamedTuple):
    """One value; ``labels`` in the order of the definition's. ``quantile`` only for a percentile of a summary."""

    metric: MetricDefinition
    labels: tuple[str, ...]
    value: float
    quantile: str | None = None


class Collector(Protocol):
    """Reads the counts of one part of the broker at a scrape."""

    @property
    def DEFINITIONS(self) -> Sequence[MetricDefinition]:  # noqa: N802
        """Everything that :meth:`collect` may return."""

    def collect(self) -> Iterator[list[MetricSample]]:
        """The samples of now, in pieces, each of which takes a few milliseconds. Called on the reactor."""


def percentiles(
    metric: MetricDefinition, labels: tuple[str, ...], count: int, values: Sequence[float]
) -> list[MetricSample]:
    """The samples of a summary of which ``values`` are the latest, sorted; without any, they are 0, as Kafka's."""
    last = len(values) - 1
    samples = [
        MetricSample(metric, labels, values[min(last, int(len(values) * fraction))] if values else 0.0, label)
        for label, fraction in QUANTILES
    ]
    samples.append(MetricSample(metric, labels, count))
    return samples
