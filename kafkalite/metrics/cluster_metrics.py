"""The cluster as the controller knows it, in the spelling of kafka_exporter.

Answers to: ``kafka_brokers`` of kafka_exporter. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkalite.controller.controller import Controller
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample

BROKERS: Final = MetricDefinition(
    "kafka_brokers",
    MetricKind.GAUGE,
    "Registered brokers, from the controller only.",
    remedy="Start the brokers that are missing; without this series there is no controller.",
)


class ClusterMetricsCollector:
    """Reads the broker's :class:`Controller`; a broker that is not the controller shows nothing."""

    DEFINITIONS = (BROKERS,)

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        context = self._controller.context
        if context is not None:
            yield [MetricSample(BROKERS, (), len(context.brokers))]
