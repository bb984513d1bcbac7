"""Ranges over sorted streams."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.consumer.assignor import ThreadId, assign, threads_of


def shares(members: Mapping[str, Mapping[str, int]], partitions: Mapping[str, list[int]]) -> dict[str, dict[str, str]]:
    """Topic → stream → its partitions, as digits."""
    result: dict[str, dict[str, str]] = {}
    for tp, thread in sorted(assign(members, partitions).items()):
        streams = result.setdefault(tp.topic, {})
        streams[str(thread)] = streams.get(str(thread), "") + str(tp.partition)
    return result


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        ({"a": {"t": 1}}, {"t": [0, 1, 2]}, {"t": {"a-0": "012"}}),
        ({"b": {"t": 1}, "a": {"t": 1}}, {"t": [2, 0, 1]}, {"t": {"a-0": "01", "b-0": "2"}}),
        ({"a": {"t": 1}, "b": {"t": 1}, "c": {"t": 1}}, {"t": [0, 1]}, {"t": {"a-0": "0", "b-0": "1"}}),
        ({"a": {"t": 2}, "b": {"t": 1}}, {"t": [0, 1, 2, 3, 4]}, {"t": {"a-0": "01", "a-1": "23", "b-0": "4"}}),
        (
            {"a": {"t": 1, "u": 1}, "b": {"u": 1}},
            {"t": [0, 1], "u": [0, 1]},
            {"t": {"a-0": "01"}, "u": {"a-0": "0", "b-0": "1"}},
        ),
        ({"a": {"t": 1}}, {"t": [], "u": [0]}, {}),
        ({}, {"t": [0]}, {}),
    ],
)
def test_ranges(
    members: Mapping[str, Mapping[str, int]], partitions: Mapping[str, list[int]], expected: dict[str, dict[str, str]]
) -> None:
    assert shares(members, partitions) == expected


def test_every_partition_has_one_reader() -> None:
    for streams in range(1, 8):
        for count in range(20):
            owners = assign({f"m{n}": {"t": 1} for n in range(streams)}, {"t": list(range(count))})
            assert sorted(tp.partition for tp in owners) == list(range(count))
            loads = [list(owners.values()).count(ThreadId(f"m{n}", 0)) for n in range(streams)]
            assert max(loads) - min(loads) <= 1 and loads == sorted(loads, reverse=True)


def test_the_order_is_javas() -> None:
    """Java compares UTF-16: a character beyond the first plane sorts before U+FFxx. Streams sort as text: 10 < 9."""
    assert [t.consumer for t in threads_of("t", {"\uff00": {"t": 1}, "\U00010000": {"t": 1}})] == [
        "\U00010000",
        "\uff00",
    ]
    assert [t.number for t in threads_of("t", {"a": {"t": 11}})][:3] == [0, 1, 10]
    assert str(ThreadId("group_host-1-ab", 0)) == "group_host-1-ab-0"
    assert assign({"a": {"t": 1}}, {"t": [3]}) == {TopicPartition("t", 3): ThreadId("a", 0)}
