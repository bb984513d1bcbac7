"""Which partition a row goes to: Kafka's own hashes, and the order of the rules."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.spark import encode_kernels
from kafkalite.spark.columns import Columns, read_columns
from kafkalite.spark.partitioners import Partitioner, PartitionError

# Values of org.apache.kafka.common.utils.Utils.murmur2 from Kafka's own test.
MURMUR2 = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


def partitioner(counts: dict[str, int], sticky_bytes: int = 1000, seed: int = 1, **rules: bool) -> Partitioner:
    made = Partitioner(sticky_bytes, seed, **rules)
    for topic, count in counts.items():
        made.add(topic, dict.fromkeys(range(count), 1))
    return made


def columns(option: str | None = "t", /, **given: Any) -> Columns:
    return read_columns(pa.record_batch(given), option, 0)


def assigned(made: Partitioner, given: Columns) -> list[int]:
    return [made.slots[slot].partition for slot in made.assign(given, given.topic_names)]


@pytest.mark.parametrize(("data", "expected"), MURMUR2)
def test_murmur2(data: bytes, expected: int) -> None:
    padded = np.frombuffer(b"xx" + data + b"yy", np.uint8)
    assert int(encode_kernels.murmur2(padded, 2, 2 + len(data))) == expected % (1 << 32)


def test_rows_go_by_their_keys() -> None:
    keys = [data for data, _ in MURMUR2]
    given = columns(key=pa.array(keys), value=pa.array([b"v"] * len(keys)))
    for count in (1, 3, 7, 12):
        expected = [(value & 0x7FFFFFFF) % count for _, value in MURMUR2]
        assert assigned(partitioner({"t": count}), given) == expected


def test_a_partition_that_is_given_goes_before_the_key() -> None:
    given = columns(
        key=pa.array([b"21", b"21", None]),
        value=pa.array([b"v"] * 3),
        partition=pa.array([2, None, 0], pa.int32()),
    )
    assert assigned(partitioner({"t": 3}), given) == [2, (-973932308 & 0x7FFFFFFF) % 3, 0]


def test_rows_without_a_key_stick_to_a_partition() -> None:
    given = columns(value=pa.array([b"x" * 100] * 200))
    made = partitioner({"t": 4}, sticky_bytes=1000)
    found = assigned(made, given)
    runs = [found[at : at + 10] for at in range(0, 200, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in itertools.pairwise(runs))
    assert set(found) == {0, 1, 2, 3}
    # Neither the end of an Arrow batch nor a key makes a difference.
    mixed = columns(key=pa.array([None, b"21", None]), value=pa.array([b"x"] * 3))
    first, _, second = assigned(made, mixed)
    assert first == second


def test_keys_can_be_passed_over() -> None:
    given = columns(key=pa.array([data for data, _ in MURMUR2]), value=pa.array([b"v"] * len(MURMUR2)))
    assert len(set(assigned(partitioner({"t": 12}, ignore_keys=True), given))) == 1


def test_round_robin_ignores_keys_and_continues_after_the_last_partition() -> None:
    given = columns(key=pa.array([b"k"] * 4), value=pa.array([b"v"] * 4))
    made = partitioner({"t": 3}, seed=0, round_robin=True)
    found = assigned(made, given) + assigned(made, given)
    start = found[0]
    assert found == [(start + at) % 3 for at in range(8)]


def test_a_partition_without_a_leader_is_chosen_only_by_key_or_number() -> None:
    for rules in ({}, {"round_robin": True}):
        made = Partitioner(1, 3, **rules)
        made.add("t", {0: -1, 1: 5, 2: -1, 3: 5})
        assert set(assigned(made, columns(value=pa.array([b"v"] * 40)))) == {1, 3}
    made = Partitioner(1, 3)
    made.add("t", {0: -1, 1: -1})
    assert set(assigned(made, columns(value=pa.array([b"v"] * 40)))) == {0, 1}, "where none has, all may get one"


def test_topics_by_row() -> None:
    given = columns(
        None,
        key=pa.array([b"21"] * 4),
        value=pa.array([b"v"] * 4),
        topic=pa.array(["b", "a", "b", "a"]),
    )
    made = partitioner({"x": 5, "a": 3, "b": 7})
    assert made.missing(["a", "c"]) == ["c"]
    hashed = -973932308 & 0x7FFFFFFF
    found = [made.slots[slot] for slot in made.assign(given, given.topic_names)]
    b, a = TopicPartition("b", hashed % 7), TopicPartition("a", hashed % 3)
    assert found == [b, a, b, a]
    single = columns("a", key=pa.array([b"21"]), value=pa.array([b"v"]))
    assert [made.slots[slot] for slot in made.assign(single, ["a"])] == [a]


@pytest.mark.parametrize(
    ("topic", "partition", "message"),
    [
        (None, None, "null topic present in the data"),
        ("t", -1, "Invalid partition: -1 of topic t. Partition number should always be non-negative or null"),
        ("t", 3, "Partition 3 of topic t with partition count 3 is not present in metadata"),
    ],
)
def test_rows_without_a_valid_partition_are_refused(topic: str | None, partition: int | None, message: str) -> None:
    given = columns(
        None,
        value=pa.array([b"v", b"v"]),
        topic=pa.array(["t", topic]),
        partition=pa.array([0, partition], pa.int32()),
    )
    with pytest.raises(PartitionError, match=message) as caught:
        assigned(partitioner({"t": 3}), given)
    assert caught.value.row == 1


def test_grouping_keeps_the_order_of_each_slot() -> None:
    slots = np.array([2, 0, 2, 1, 0, 2], np.int64)
    starts, order = np.empty(5, np.int64), np.empty(6, np.int64)
    encode_kernels.group(slots, starts, order)
    assert starts.tolist() == [0, 2, 3, 6, 6]
    assert order.tolist() == [1, 4, 3, 0, 2, 5]


def test_one_machine_code_for_all_kinds_of_columns() -> None:
    test_topics_by_row()
    test_rows_go_by_their_keys()
    test_rows_without_a_key_stick_to_a_partition()
    test_a_partition_that_is_given_goes_before_the_key()
    assert len(encode_kernels.assign.signatures) == 1  # type: ignore[attr-defined]
