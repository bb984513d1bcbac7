"""The samples of all collectors as families of ``prometheus_client``.

Answers to: Prometheus's JMX exporter, which reads Kafka's beans. Deterministic, but for the counts of the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from wsgiref.types import WSGIApplication

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Metric,
    PlatformCollector,
    ProcessCollector,
    make_wsgi_app,
)
from prometheus_client.registry import Collector as FamilyCollector

from kafkalite.metrics.definitions import Collector, MetricDefinition, MetricKind, MetricSample
from kafkalite.metrics.scrape_metrics import ScrapeMetricsCollector, ScrapeTimes
from kafkalite.metrics.text_page import OnReactor, TextPage, text_page_app


class BrokerMetrics(FamilyCollector):
    """A collector of ``prometheus_client``: gathers the pieces on the reactor, one at a time."""

    def __init__(self, collectors: Sequence[Collector], on_reactor: OnReactor) -> None:
        self._collectors = collectors
        self._on_reactor = on_reactor

    def collect(self) -> Iterable[Metric]:
        """Every family, with its samples. Called in the thread that serves the page."""
        families: dict[MetricDefinition, Metric] = {}
        for collector in self._collectors:
            for definition in collector.DEFINITIONS:
                families[definition] = Metric(definition.name, definition.meaning, definition.kind.value)
            for sample in self._samples(collector.collect()):
                add_sample(families[sample.metric], sample)
        return families.values()

    def _samples(self, pieces: Iterator[list[MetricSample]]) -> Iterator[MetricSample]:
        # The reactor serves clients between two pieces.
        while (piece := self._on_reactor(lambda: next(pieces, None))) is not None:
            yield from piece


def add_sample(family: Metric, sample: MetricSample) -> None:
    """Add ``sample`` to its family. An empty label is left out: the series is the sum over its values."""
    metric = sample.metric
    labels = {name: value for name, value in zip(metric.labels, sample.labels, strict=False) if value}
    name = metric.name
    if sample.quantile is not None:
        labels["quantile"] = sample.quantile
    elif metric.kind is MetricKind.COUNTER:
        name += "_total"
    elif metric.kind is MetricKind.SUMMARY:
        name += "_count"
    family.add_sample(name, labels, sample.value)


def metrics_app(collectors: Sequence[Collector], on_reactor: OnReactor) -> WSGIApplication:
    """Serves the broker's metrics and those of its process and its Python runtime."""
    times = ScrapeTimes()
    collectors = (*collectors, ScrapeMetricsCollector(times))
    process = _process_registry()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerMetrics(collectors, on_reactor))
    registry.register(process)
    return text_page_app(TextPage(collectors, on_reactor, process, times), make_wsgi_app(registry))


def _process_registry() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    for of_process in (ProcessCollector, PlatformCollector, GCCollector):
        of_process(registry=registry)
    return registry
