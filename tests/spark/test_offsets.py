"""Offsets: Spark's JSON, limits, and how ranges are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.spark.offsets import (
    EARLIEST,
    LATEST,
    ByTime,
    Everywhere,
    OffsetError,
    OffsetRange,
    Specific,
    check_limits,
    lag,
    offsets_from_json,
    offsets_to_json,
    parse_offsets,
    parse_partitions,
    rate_limit,
    split,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_json_is_sparks_and_in_order() -> None:
    offsets = {B0: 7, TopicPartition("a", 10): 3, A1: 2, A0: 1}
    text = offsets_to_json(offsets)
    assert list(text) == ["a", "b"]
    assert list(text["a"].items()) == [("0", 1), ("1", 2), ("10", 3)]
    assert offsets_from_json(text) == offsets


def test_options_json() -> None:
    assert parse_offsets('{"a":{"0":23,"1":-1},"b":{"0":-2}}') == {A0: 23, A1: LATEST, B0: EARLIEST}
    assert parse_partitions('{"a":[0,1],"b":[0]}') == [A0, A1, B0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a":1}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":1.5}}'])
def test_options_json_that_is_none(text: str) -> None:
    with pytest.raises(OffsetError, match=r"Expected e\.g\. .*topicA.*, got "):
        parse_offsets(text)


@pytest.mark.parametrize("text", ["{", "[]", '{"a":1}', '{"a":["x"]}'])
def test_partitions_that_are_none(text: str) -> None:
    with pytest.raises(OffsetError, match=r"Expected e\.g\. "):
        parse_partitions(text)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (Everywhere(EARLIEST), Everywhere(LATEST)),
        (Specific({A0: 3}), Specific({A0: 3})),
        (Specific({A0: EARLIEST}), Specific({A0: LATEST})),
        (Specific({A0: 5}), Specific({A0: LATEST})),
        (Specific({A0: 5}), Everywhere(LATEST)),
        (ByTime(9, {}), ByTime(3, {})),
        (ByTime(None, {A0: 3}), ByTime(None, {A0: 9})),
    ],
)
def test_limits_that_may_make_a_range(start: Specific, end: Specific) -> None:
    check_limits(start, end)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (Specific({A0: 1}), Specific({A1: 1}), "should have the same topic-partitions.* a-0, .* a-1"),
        (
            Specific({A0: 4}),
            Specific({A0: 3}),
            "start offset 4 is greater than the end offset 3 for topic a partition 0",
        ),
        (ByTime(None, {A0: 1}), ByTime(None, {B0: 1}), "should have the same topic-partitions"),
        (ByTime(None, {A0: 9}), ByTime(None, {A0: 1}), "start timestamp 9 is greater than the end timestamp 1"),
    ],
)
def test_limits_that_never_make_a_range(start: Specific, end: Specific, message: str) -> None:
    with pytest.raises(OffsetError, match=message):
        check_limits(start, end)


def sizes(pieces: list[OffsetRange]) -> list[tuple[str, int, int]]:
    return [(str(piece.partition), piece.start, piece.end) for piece in pieces]


def test_nothing_to_cut() -> None:
    ranges = [OffsetRange(A0, 0, 10), OffsetRange(A1, 5, 5), OffsetRange(B0, 7, 3)]
    assert split(ranges) == [OffsetRange(A0, 0, 10)]
    assert split([], 4, 4) == []


@pytest.mark.parametrize(
    ("ranges", "wanted", "pieces"),
    [
        # The result of Spark's calculator.
        ([(A0, 0, 4)], 3, [("a-0", 0, 1), ("a-0", 1, 2), ("a-0", 2, 4)]),
        ([(A0, 0, 100), (A1, 0, 100)], 1, [("a-0", 0, 100), ("a-1", 0, 100)]),
        (
            [(A0, 0, 100), (A1, 0, 100)],
            4,
            [("a-0", 0, 50), ("a-0", 50, 100), ("a-1", 0, 50), ("a-1", 50, 100)],
        ),
        ([(A0, 0, 5), (A1, 0, 21)], 4, [("a-0", 0, 5), ("a-1", 0, 7), ("a-1", 7, 14), ("a-1", 14, 21)]),
        (
            [(A0, 0, 5), (A1, 0, 5), (B0, 0, 21)],
            6,
            [("a-0", 0, 5), ("a-1", 0, 5), ("b-0", 0, 5), ("b-0", 5, 10), ("b-0", 10, 15), ("b-0", 15, 21)],
        ),
        ([(A0, 0, 2)], 5, [("a-0", 0, 1), ("a-0", 1, 2)]),
    ],
)
def test_at_least_so_many(
    ranges: list[tuple[TopicPartition, int, int]], wanted: int, pieces: list[tuple[str, int, int]]
) -> None:
    assert sizes(split([OffsetRange(*item) for item in ranges], wanted)) == pieces


def test_at_most_so_large() -> None:
    assert sizes(split([OffsetRange(A0, 0, 10), OffsetRange(A1, 3, 5)], 0, 4)) == [
        ("a-0", 0, 3),
        ("a-0", 3, 6),
        ("a-0", 6, 10),
        ("a-1", 3, 5),
    ]


def test_what_is_cut_is_still_everything() -> None:
    whole = [OffsetRange(A0, 17, 1234), OffsetRange(A1, 0, 7), OffsetRange(B0, 99, 100_099)]
    for wanted, largest in ((0, 0), (1, 100), (7, 0), (50, 333), (1000, 999)):
        pieces = split(whole, wanted, largest)
        assert all(not largest or piece.size <= largest for piece in pieces)
        for one in whole:
            mine = [piece for piece in pieces if piece.partition == one.partition]
            assert mine[0].start == one.start
            assert mine[-1].end == one.end
            assert all(before.end == after.start for before, after in pairwise(mine))


def test_rate_limit_is_shared_by_size() -> None:
    start, end = {A0: 0, A1: 100, B0: 5}, {A0: 900, A1: 190, B0: 15}
    assert rate_limit(100, start, end) == {A0: 90, A1: 109, B0: 6}
    assert rate_limit(10_000, start, end) == end
    assert rate_limit(1, start, end) == {A0: 1, A1: 101, B0: 6}, "small ones are not starved"


def test_rate_limit_of_nothing_new() -> None:
    assert rate_limit(10, {A0: 5}, {A0: 5}) == {A0: 5}
    assert rate_limit(10, {A0: 5}, {A0: 3, B0: 7}) == {A0: 3, B0: 7}, "what is wrong is for others to say"


def test_lag() -> None:
    assert lag({A0: 5, A1: 5}, {A0: 7, A1: 11}) == {
        "minOffsetsBehindLatest": 2,
        "maxOffsetsBehindLatest": 6,
        "avgOffsetsBehindLatest": 4.0,
    }
    assert lag({}, {A0: 1}) == {}
    assert lag({A0: 1}, {}) == {}
