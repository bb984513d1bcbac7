"""The checker of commits finds each violation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration.faults.commits import CommitTrail


def made() -> CommitTrail:
    """Two partitions, committed up to 20 and 7."""
    trail = CommitTrail()
    for partition, offset in ((0, 10), (0, 20), (1, 7)):
        trail.sent(partition, offset)
        trail.acknowledged(partition, offset)
    return trail


def test_a_valid_history_of_commits_has_no_violation() -> None:
    """An onlooker may see a commit before its acknowledgement, and another onlooker may lag."""
    trail = made()
    trail.seen("coordinator", {0: 20, 1: 7}, trail.floor())
    floor = trail.floor()
    trail.sent(0, 30)
    trail.seen("coordinator", {0: 30, 1: 7}, floor)
    trail.seen("cache", {0: 10, 1: -1}, {})
    trail.seen("cache", {0: 20, 1: 7}, {})
    assert trail.breaches == []
    assert trail.looks == 4


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        (lambda trail: trail.seen("x", {0: 10}, trail.floor()), "after 20 was acknowledged"),
        (lambda trail: trail.seen("x", {1: -1}, trail.floor()), "after 7 was acknowledged"),
        (lambda trail: (trail.seen("x", {0: 20}, {}), trail.seen("x", {0: 10}, {})), "went back from 20 to 10"),
        (lambda trail: trail.seen("x", {1: 8}, {}), "which no consumer committed"),
    ],
)
def test_each_violation_of_a_rule_is_found(plant: Callable[[CommitTrail], object], text: str) -> None:
    """Each case violates one rule."""
    trail = made()
    plant(trail)
    assert [text in breach for breach in trail.breaches] == [True]
