"""What a group coordinator did since the broker's start: plain integers that a scrape reads.

Answers to: ``kafka.coordinator.group.GroupCoordinatorMetrics`` (``group-coordinator-metrics``). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupStats:
    """Counts of one coordinator, over all its groups."""

    rebalances: int = 0
    """Generations that a group's leader assigned."""
    commits: int = 0
    """Offsets that groups committed, without those of transactions."""
    deletions: int = 0
    """Offsets that administrators deleted."""
