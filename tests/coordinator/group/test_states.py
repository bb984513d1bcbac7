"""The table of transitions, and its diagram in the documentation."""

from __future__ import annotations

from itertools import product

import pytest

from integration.blocks import blocks_of
from kafkalite.coordinator.group.states import (
    TRANSITIONS,
    GroupState,
    IllegalGroupTransitionError,
    check_transition,
    diagram,
)

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
# As kafka.coordinator.group.GroupMetadata.validPreviousStates has them.
LEGAL = {
    (EMPTY, PREPARING),
    (STABLE, PREPARING),
    (COMPLETING, PREPARING),
    (PREPARING, COMPLETING),
    (COMPLETING, STABLE),
    (PREPARING, EMPTY),
    (EMPTY, DEAD),
    (PREPARING, DEAD),
    (COMPLETING, DEAD),
    (STABLE, DEAD),
}


@pytest.mark.parametrize(("before", "after"), list(product(GroupState, GroupState)))
def test_every_pair_of_states(before: GroupState, after: GroupState) -> None:
    if (before, after) in LEGAL:
        check_transition("g", before, after)
    else:
        with pytest.raises(
            IllegalGroupTransitionError, match=f"group g cannot go from {before.value} to {after.value}"
        ):
            check_transition("g", before, after)


def test_the_names_are_kafkas() -> None:
    assert [state.value for state in GroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]


def test_the_diagram_has_every_transition_and_stands_in_the_documentation() -> None:
    drawn = diagram()
    assert drawn.count("-->") == sum(map(len, TRANSITIONS.values())) + 2
    [shown] = blocks_of("docs/groups.md", __file__)
    assert shown.text == f"{drawn}\n"
