"""The page as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample, percentiles
from kafkalite.metrics.exposition import BrokerMetrics

COUNTER = MetricDefinition("kafka_c", MetricKind.COUNTER, "Counts.", ("topic", "partition"))
GAUGE = MetricDefinition("kafka_g", MetricKind.GAUGE, "Is.")
SUMMARY = MetricDefinition("kafka_s", MetricKind.SUMMARY, "Took.", ("request",))


class Pieces:
    """A collector of one piece a test; ``calls`` are the pieces that were asked for."""

    DEFINITIONS = (COUNTER, GAUGE, SUMMARY)

    def __init__(self, *pieces: list[MetricSample]) -> None:
        self._pieces = pieces

    def collect(self) -> Iterator[list[MetricSample]]:
        yield from self._pieces


def page(*pieces: list[MetricSample]) -> list[str]:
    """The lines of the page without comments."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerMetrics([Pieces(*pieces)], lambda call: call()))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_a_label_without_a_value_is_left_out() -> None:
    assert page(
        [MetricSample(COUNTER, ("", ""), 3)], [MetricSample(COUNTER, ("t", "0"), 2), MetricSample(GAUGE, (), 1)]
    ) == [
        "kafka_c_total 3.0",
        'kafka_c_total{partition="0",topic="t"} 2.0',
        "kafka_g 1.0",
    ]


def test_a_summary_has_its_percentiles_and_its_count() -> None:
    values = [float(n) for n in range(1000)]
    assert page(percentiles(SUMMARY, ("Produce",), 5000, values)) == [
        f'kafka_s{{quantile="{label}",request="Produce"}} {value}'
        for label, value in zip(
            ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999"), (500.0, 750.0, 950.0, 980.0, 990.0, 999.0), strict=True
        )
    ] + ['kafka_s_count{request="Produce"} 5000.0']


@pytest.mark.parametrize("values", [(), (7.0,)])
def test_percentiles_of_few_values(values: tuple[float, ...]) -> None:
    expected = {values[0] if values else 0.0}
    assert {each.value for each in percentiles(SUMMARY, ("x",), 1, values) if each.quantile} == expected


def test_each_piece_is_collected_by_a_call_of_its_own() -> None:
    """The reactor serves clients between two calls."""
    calls: list[list[MetricSample] | None] = []
    collectors = [Pieces([MetricSample(GAUGE, (), 1)], [MetricSample(GAUGE, (), 2)])]
    metrics = BrokerMetrics(collectors, lambda call: calls.append(call()) or calls[-1])  # type: ignore[func-returns-value]
    metrics.collect()
    assert [len(piece) if piece is not None else None for piece in calls] == [1, 1, None]
