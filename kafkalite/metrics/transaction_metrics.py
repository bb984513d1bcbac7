"""Open transactions that this broker coordinates, their age, and what keeps decided ones from their end.

Answers to: the gauges of ``kafka.coordinator.transaction.TransactionMarkerChannelManager`` and the sensor of
``TransactionStateManager``; ``kafkalite_…`` to nothing in Kafka, which shows hanging transactions by
``kafka-transactions`` only. Deterministic.
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
UNKNOWN: Final = MetricDefinition(
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
    MetricKind.GAUGE,
    "Decided transactions of which a partition has no leader that the marker could be sent to.",
    bean="kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize",
    remedy="They hold readers with read_committed back: kafka-topics --describe --unavailable-partitions.",
)
REPEATED: Final = MetricDefinition(
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize",
    MetricKind.GAUGE,
    "Transactions with all their markers whose end could not be written to ZooKeeper yet.",
    bean="kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=LogAppendRetryQueueSize",
    remedy="Their producers wait: see the broker's log, and kafka_server_sessionexpirelistener_sessionstate.",
)
LOADS_WINDOW: Final = 30.0
"""Seconds."""


def _load(attribute: str, which: str) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_transaction_coordinator_metrics_{attribute.replace('-', '_')}",
        MetricKind.GAUGE,
        f"{which} time that it took to claim a state partition and to read its transactional ids from ZooKeeper, of "
        f"those that this broker took over in the last {LOADS_WINDOW:g} s; 0 without one.",
        unit="milliseconds",
        bean=f"kafka.server:type=transaction-coordinator-metrics ({attribute})",
        remedy="Producers wait as long: ZooKeeper is slow, or there are many transactional ids.",
    )


LONGEST_LOAD: Final = _load("partition-load-time-max", "Longest")
MEAN_LOAD: Final = _load("partition-load-time-avg", "Mean")


class TransactionMetricsCollector:
    """Reads the :class:`TransactionCoordinator`."""

    DEFINITIONS = (OPEN, OLDEST, UNKNOWN, REPEATED, LONGEST_LOAD, MEAN_LOAD)

    def __init__(self, transactions: TransactionCoordinator, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        starts = list(self._transactions.starts_of_open())
        age = max(0, self._clock.time_ms() - min(starts)) / 1000 if starts else 0.0
        after = self._clock.monotonic() - LOADS_WINDOW
        loads = [1000 * seconds for at, seconds in self._transactions.loads if at > after]
        yield [
            MetricSample(OPEN, (), len(starts)),
            MetricSample(OLDEST, (), age),
            MetricSample(UNKNOWN, (), self._transactions.without_leader),
            MetricSample(REPEATED, (), self._transactions.repeated_completions),
            MetricSample(LONGEST_LOAD, (), max(loads, default=0.0)),
            MetricSample(MEAN_LOAD, (), sum(loads) / len(loads) if loads else 0.0),
        ]
