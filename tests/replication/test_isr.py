"""The ISR's state machine."""

from __future__ import annotations

import pytest

from kafkalite.replication.isr import IllegalIsrTransitionError, IsrState, IsrStatus, committed


@pytest.mark.parametrize(
    ("state", "status", "proposed", "maximal"),
    [
        (committed((1, 2), 5), IsrStatus.COMMITTED, (1, 2), (1, 2)),
        # A replica that is being added counts at once.
        (committed((1, 2), 5).expand(3), IsrStatus.PENDING_EXPAND, (1, 2, 3), (1, 2, 3)),
        # One that is being removed counts until ZooKeeper has acknowledged.
        (committed((1, 2, 3), 5).shrink(frozenset({2})), IsrStatus.PENDING_SHRINK, (1, 3), (1, 2, 3)),
    ],
)
def test_maximal_is_the_widest(
    state: IsrState, status: IsrStatus, proposed: tuple[int, ...], maximal: tuple[int, ...]
) -> None:
    assert (state.status, state.proposed, state.maximal, state.zk_version) == (status, proposed, maximal, 5)


@pytest.mark.parametrize(
    ("state", "size"),
    [
        (committed((1, 2), 5), 2),
        (committed((1,), 5).expand(2), 1),
        (committed((1, 2), 5).shrink(frozenset({2})), 1),
    ],
)
def test_a_replica_is_certain_only_before_its_removal_and_after_its_addition(state: IsrState, size: int) -> None:
    assert state.certain_size == size


@pytest.mark.parametrize(
    "step",
    [
        lambda: committed((1,), 0).expand(2).expand(3),
        lambda: committed((1,), 0).expand(2).shrink(frozenset({1})),
        lambda: committed((1, 2), 0).shrink(frozenset({2})).expand(3),
        lambda: committed((1,), 0).expand(1),
        lambda: committed((1,), 0).shrink(frozenset({1})),
        lambda: committed((1,), 0).shrink(frozenset({2})),
    ],
)
def test_illegal_steps(step: object) -> None:
    with pytest.raises(IllegalIsrTransitionError):
        step()  # type: ignore[operator]
