"""Groups by state, and what their coordinator did."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.group_stats import GroupStats
from kafkalite.coordinator.group.states import GroupState
from kafkalite.metrics.consumer_group_sampler import NO_OFFSET, ConsumerGroupSample, GroupSample
from kafkalite.metrics.group_coordinator_metrics import GroupCoordinatorMetricsCollector
from tests.metrics.test_collectors import values


class Groups:
    stats = GroupStats(rebalances=4, commits=70, deletions=1)

    def states(self) -> Counter[GroupState]:
        return Counter({GroupState.STABLE: 2, GroupState.EMPTY: 1})


class Sampler:
    latest: ConsumerGroupSample | None = None


def test_groups_by_state_offsets_and_counts() -> None:
    sampler = Sampler()
    collector = GroupCoordinatorMetricsCollector(cast("Any", Groups()), cast("Any", sampler))
    manager = "kafka_coordinator_group_groupmetadatamanager_"
    coordinator = "kafka_server_group_coordinator_metrics_"
    expected = {
        (manager + "numgroups",): 3,
        (manager + "numoffsets",): 0,
        (manager + "numgroupspreparingrebalance",): 0,
        (manager + "numgroupscompletingrebalance",): 0,
        (manager + "numgroupsstable",): 2,
        (manager + "numgroupsdead",): 0,
        (manager + "numgroupsempty",): 1,
        (coordinator + "group_completed_rebalance_count",): 4,
        (coordinator + "offset_commit_count",): 70,
        (coordinator + "offset_deletion_count",): 1,
    }
    assert values(collector) == expected
    offsets = {TopicPartition("t", 0): 7, TopicPartition("t", 1): NO_OFFSET}
    sampler.latest = ConsumerGroupSample(0.0, {"g": GroupSample(1, offsets)}, {})
    assert values(collector) == expected | {(manager + "numoffsets",): 1}
