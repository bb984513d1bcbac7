"""Open transactions that this broker coordinates, and their age.

Answers to: nothing in Kafka, which shows hanging transactions by ``kafka-transactions`` only. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkalite.common.clock import Clock
from kafkalite.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample

OPEN: Final = MetricDefinition(
    "kafkalite_transaction_coordinator_open_transactions",
    MetricKind.GAUGE,
    "Transactions that are not decided, or decided but not complete.",
)
OLDEST: Final = MetricDefinition(
    "kafkalite_transaction_coordinator_oldest_transaction_age_seconds",
    MetricKind.GAUGE,
    "Since the oldest of them began; 0 without one.",
    unit="seconds",
    remedy="It holds readers with read_committed back: kafka-transactions find-hanging --broker-id ID.",
)


class TransactionMetricsCollector:
    """Reads the :class:`TransactionCoordinator`."""

    DEFINITIONS = (OPEN, OLDEST)

    def __init__(self, transactions: TransactionCoordinator, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        starts = list(self._transactions.starts_of_open())
        age = max(0, self._clock.time_ms() - min(starts)) / 1000 if starts else 0.0
        yield [MetricSample(OPEN, (), len(starts)), MetricSample(OLDEST, (), age)]
