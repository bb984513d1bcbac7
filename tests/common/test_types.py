from __future__ import annotations

from operator import itemgetter

from kafkalite.common.types import side_by_side


def test_items_of_one_key_stand_next_to_each_other_in_the_order_of_their_first() -> None:
    items = ["b1", "a1", "b2", "c1", "a2"]
    assert side_by_side(items, itemgetter(0)) == ["b1", "b2", "a1", "a2", "c1"]
    assert side_by_side(items[:1], itemgetter(0)) == ["b1"]
    assert side_by_side([], itemgetter(0)) == []
