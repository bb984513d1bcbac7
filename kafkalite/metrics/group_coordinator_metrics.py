"""The groups that this broker coordinates: how many, in which state, and what it did for them.

Answers to: ``kafka.coordinator.group.{GroupMetadataManager,GroupCoordinatorMetrics}``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkalite.coordinator.group.group_coordinator import GroupCoordinator
from kafkalite.coordinator.group.states import GroupState
from kafkalite.metrics.consumer_group_sampler import NO_OFFSET, ConsumerGroupSampler
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample


def _manager(bean: str, meaning: str, remedy: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_coordinator_group_groupmetadatamanager_{bean.lower()}",
        MetricKind.GAUGE,
        meaning,
        bean=f"kafka.coordinator.group:type=GroupMetadataManager,name={bean}",
        remedy=remedy,
    )


def _coordinator(attribute: str, meaning: str) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_group_coordinator_metrics_{attribute.replace('-', '_')}",
        MetricKind.GAUGE,
        meaning,
        bean=f"kafka.server:type=group-coordinator-metrics ({attribute})",
    )


GROUPS: Final = _manager("NumGroups", "Groups that this broker coordinates, empty ones included.")
OFFSETS: Final = _manager("NumOffsets", "Offsets that the coordinated groups have committed, as of the latest sample.")
_STATES: Final = {
    state: _manager(
        f"NumGroups{state.value}", f"Groups that this broker coordinates in the state {state.value}.", remedy
    )
    for state, remedy in (
        (GroupState.PREPARING_REBALANCE, "If it stays above 0, a member does not join: see max.poll.interval.ms."),
        (GroupState.COMPLETING_REBALANCE, "If it stays above 0, the leader of a group does not assign."),
        (GroupState.STABLE, ""),
        (GroupState.DEAD, ""),
        (GroupState.EMPTY, ""),
    )
}
REBALANCES: Final = _coordinator(
    "group-completed-rebalance-count", "Rebalances that a group's leader completed, since the broker's start."
)
COMMITS: Final = _coordinator(
    "offset-commit-count", "Offsets that groups committed outside of transactions, since the broker's start."
)
DELETIONS: Final = _coordinator(
    "offset-deletion-count", "Offsets that administrators deleted, since the broker's start."
)


class GroupCoordinatorMetricsCollector:
    """Reads the :class:`GroupCoordinator`, and the offsets from the latest sample of ``sampler``."""

    DEFINITIONS = (GROUPS, OFFSETS, *_STATES.values(), REBALANCES, COMMITS, DELETIONS)

    def __init__(self, groups: GroupCoordinator, sampler: ConsumerGroupSampler) -> None:
        self._groups = groups
        self._sampler = sampler

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        states = self._groups.states()
        sample = self._sampler.latest
        offsets = 0
        for group in list(sample.groups.values()) if sample is not None else ():
            offsets += sum(offset != NO_OFFSET for offset in group.offsets.values())
            yield []
        stats = self._groups.stats
        yield [
            MetricSample(GROUPS, (), states.total()),
            MetricSample(OFFSETS, (), offsets),
            *(MetricSample(metric, (), states[state]) for state, metric in _STATES.items()),
            MetricSample(REBALANCES, (), stats.rebalances),
            MetricSample(COMMITS, (), stats.commits),
            MetricSample(DELETIONS, (), stats.deletions),
        ]
