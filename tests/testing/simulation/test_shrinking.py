"""Delta debugging finds the items that a failure needs, and asks no more often than it may."""

from __future__ import annotations

import random

import pytest

from kafkalite.testing.simulation.shrinking import shrink


@pytest.mark.parametrize("needed", [set(), {0}, {7}, {0, 19}, {3, 4, 5}, {1, 8, 13, 17}, set(range(20))])
def test_only_the_needed_items_stay(needed: set[int]) -> None:
    assert shrink(range(20), lambda items: needed <= set(items)) == sorted(needed)


def test_no_single_item_of_the_result_can_be_taken() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        sets = [set(rng.sample(range(15), rng.randint(1, 4))) for _ in range(3)]

        def fails(items: list[int], sets: list[set[int]] = sets) -> bool:
            return any(needed <= set(items) for needed in sets)

        found = shrink(range(15), fails)
        assert fails(found)
        assert not any(fails(found[:n] + found[n + 1 :]) for n in range(len(found))), f"seed {seed}: {found}"


def test_the_number_of_tries_is_bounded() -> None:
    asked: list[int] = []

    def fails(items: list[int]) -> bool:
        asked.append(len(items))
        return {0, 99} <= set(items)

    found = shrink(range(100), fails, tries=10)
    assert len(asked) == 10
    assert {0, 99} <= set(found)
