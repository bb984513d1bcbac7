"""Bundles are bounded, in order, and lose nothing."""

from __future__ import annotations

import pytest

from kafkalite.zk.stores.fenced_write import MAX_BYTES, MAX_OPS, bundles, op_size
from kafkalite.zk.zk_client import Create, Delete, Op


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], []),
        ([1], [1]),
        ([1] * MAX_OPS, [MAX_OPS]),
        ([1] * (MAX_OPS + 1), [MAX_OPS, 1]),
        ([2] * MAX_OPS, [MAX_OPS // 2, MAX_OPS // 2]),
        ([MAX_OPS + 50, 1], [1, 1]),
    ],
)
def test_by_count(groups: list[int], expected: list[int]) -> None:
    ops: list[list[Op]] = [[Delete("/x")] * count for count in groups]
    packed = list(bundles(ops))
    assert [len(bundle) for bundle in packed] == expected
    assert [index for bundle in packed for index in bundle] == list(range(len(groups)))


# trap: kafkalite/zk/stores/fenced_write.py: A multi larger than `jute.maxbuffer` costs the connection: transactions are
# bounded.
def test_by_size() -> None:
    groups: list[list[Op]] = [[Create(f"/{index}", b"x" * 100_000)] for index in range(12)]
    packed = list(bundles(groups))
    assert len(packed) == 3
    assert all(sum(op_size(groups[index][0]) for index in bundle) <= MAX_BYTES for bundle in packed)
