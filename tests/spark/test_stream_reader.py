"""A stream's planning: how far the next micro-batch goes, and what may not be missed. The cluster is a stand-in."""

from __future__ import annotations

from json import dumps, loads
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from kafkalite.common.types import TopicPartition
from kafkalite.spark.errors import KafkaDataLossError
from kafkalite.spark.offsets import Offsets
from kafkalite.spark.options import SourceOptions
from kafkalite.spark.reading import RangePartition
from kafkalite.spark.stream_reader import StreamReader

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
Json = dict[str, dict[str, int]]


class Offers:
    """The offsets in the cluster's answers."""

    def __init__(self, latest: Offsets, earliest: Offsets | None = None) -> None:
        self.ends = latest
        self.starts = earliest or {}
        self.closed = False
        self.known: Offsets | None = None

    def latest(self, known: Offsets | None = None) -> Offsets:
        self.known = known
        return dict(self.ends)

    def earliest(self, partitions: Any) -> Offsets:
        return {partition: self.starts[partition] for partition in partitions if partition in self.starts}

    def resolve(self, limit: object, *, starting: bool) -> Offsets:
        assert starting
        assert limit
        return dict(self.starts)

    def close(self) -> None:
        self.closed = True


class Time:
    """A clock that tests move, in seconds."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def reader(offers: Offers, now: Time | None = None, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | options
    made = StreamReader(SourceOptions.parse(given, streaming=True), now or Time())
    made._reader = offers  # type: ignore[assignment]
    return made


def json(*ends: int) -> Json:
    return {"t": {str(number): end for number, end in enumerate(ends)}}


def step(source: StreamReader, start: Json) -> Json:
    return source.latestOffset(start, source.getDefaultReadLimit())


def ranges(source: StreamReader, start: Json, end: Json) -> list[tuple[int, int, int]]:
    tasks = source.partitions(start, end)
    assert all(isinstance(task, RangePartition) for task in tasks)
    return [(task.wanted.partition.partition, task.wanted.start, task.wanted.end) for task in tasks]


def test_the_beginning() -> None:
    assert reader(Offers({}, {P0: 3, P1: 4})).initialOffset() == json(3, 4)


def test_the_beginning_stays() -> None:
    """Spark asks for it again when it plans the first micro-batch."""
    offers = Offers({}, {P0: 3})
    source = reader(offers)
    assert source.initialOffset() == json(3)
    offers.starts = {P0: 5}
    assert source.initialOffset() == json(3)


# trap: kafkalite/spark/stream_reader.py: A stream that starts at the end: Spark stores a position only where a
# micro-batch ends.
@pytest.mark.parametrize(
    ("options", "empty"),
    [
        ({}, True),
        ({"startingOffsets": '{"t":{"0":-1}}'}, True),
        ({"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "latest"}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"t":{"0":3}}'}, False),
        ({"startingTimestamp": "7"}, False),
    ],
)
def test_a_beginning_at_an_end_is_in_the_checkpoint_before_anything_is_read(
    options: dict[str, str], empty: bool
) -> None:
    offers = Offers({P0: 9}, {P0: 3})
    source = reader(offers, None, **options)
    begin = source.initialOffset()
    first = step(source, begin)
    assert first == (begin if empty else json(9))
    assert ranges(source, source.initialOffset(), first) == ([] if empty else [(0, 3, 9)])
    assert step(source, first) == json(9)
    # The process ends before the first micro-batch is done; another does it again, when the end has moved.
    offers.starts = {P0: 8}
    again = reader(offers, None, **options)
    if empty:
        assert ranges(again, again.initialOffset(), first) == []
        assert ranges(again, first, json(9)) == [(0, 3, 9)], "nothing is left out"
    else:
        assert ranges(again, again.initialOffset(), first) == [(0, 8, 9)]


def test_available_now_does_not_end_before_the_beginning() -> None:
    offers = Offers({P0: 4}, {P0: 6})
    source = reader(offers)
    source.prepareForTriggerAvailableNow()
    begin = source.initialOffset()
    assert step(source, begin) == begin == json(6)
    offers.ends = {P0: 100}
    assert step(source, begin) == begin


def test_without_a_limit_all_records_are_read() -> None:
    source = reader(Offers({P0: 9, P1: 5}))
    assert isinstance(source.getDefaultReadLimit(), ReadAllAvailable)
    assert source.reportLatestOffset() is None
    assert step(source, json(0, 5)) == json(9, 5)
    assert source.reportLatestOffset() == json(9, 5)


def test_at_most() -> None:
    source = reader(Offers({P0: 300, P1: 100}), maxOffsetsPerTrigger="40")
    assert source.getDefaultReadLimit() == ReadMaxRows(40)
    assert step(source, json(0, 0)) == json(30, 10)
    assert source.reportLatestOffset() == json(300, 100), "limits apart"
    assert source.latestOffset(json(0, 0), ReadAllAvailable()) == json(300, 100), "Trigger.Once has no limits"


def test_at_most_of_partitions_that_are_new() -> None:
    source = reader(Offers({P0: 100, P1: 110}, {P1: 10}), maxOffsetsPerTrigger="20")
    assert step(source, {"t": {"0": 0}}) == json(10, 20)


def test_at_least_or_after_a_while() -> None:
    time, offers = Time(), Offers({P0: 50, P1: 0})
    source = reader(offers, time, minOffsetsPerTrigger="100", maxTriggerDelay="60s")
    assert source.getDefaultReadLimit() == ReadMinRows(100)
    assert step(source, json(0, 0)) == json(50, 0), "the first does not wait, as in Spark"
    offers.ends = {P0: 90, P1: 0}
    assert step(source, json(50, 0)) == json(50, 0)
    time.now += 59
    assert step(source, json(50, 0)) == json(50, 0)
    time.now += 1
    assert step(source, json(50, 0)) == json(90, 0)
    offers.ends = {P0: 190, P1: 0}
    assert step(source, json(90, 0)) == json(190, 0)


def test_both_limits_hold_whichever_comes_back() -> None:
    time, offers = Time(), Offers({P0: 500})
    source = reader(offers, time, minOffsetsPerTrigger="100", maxOffsetsPerTrigger="200", maxTriggerDelay="60s")
    assert step(source, {"t": {"0": 0}}) == {"t": {"0": 200}}
    assert step(source, {"t": {"0": 450}}) == {"t": {"0": 450}}


def test_available_now_ends_at_the_ends_of_the_start() -> None:
    offers = Offers({P0: 10})
    source = reader(offers, maxOffsetsPerTrigger="7", minOffsetsPerTrigger="5")
    source.prepareForTriggerAvailableNow()
    offers.ends = {P0: 99}
    assert step(source, {"t": {"0": 0}}) == {"t": {"0": 7}}
    assert step(source, {"t": {"0": 7}}) == {"t": {"0": 10}}, "a rest below the minimum is read, too"
    assert step(source, {"t": {"0": 10}}) == {"t": {"0": 10}}


def test_tasks() -> None:
    source = reader(Offers({}))
    assert ranges(source, json(0, 5), json(9, 5)) == [(0, 0, 9)]
    assert ranges(reader(Offers({}), minPartitions="3"), json(0), json(9)) == [(0, 0, 3), (0, 3, 6), (0, 6, 9)]


def test_a_stream_goes_on_from_the_checkpoint_of_an_earlier_version() -> None:
    """The last lines of two files below ``offsets`` of a checkpoint, as Spark stored them."""
    start: Json = loads('{"in": {"0": 136, "1": 140}}')
    end: Json = loads('{"in": {"0": 148, "1": 152}}')
    source = reader(Offers({TopicPartition("in", 0): 148, TopicPartition("in", 1): 152}), subscribe="in")
    assert ranges(source, start, end) == [(0, 136, 148), (1, 140, 152)]
    assert dumps(step(source, start)) == dumps(end), "an earlier version reads it, too, after a downgrade"


def test_a_new_partition_is_read_from_its_beginning() -> None:
    assert ranges(reader(Offers({}, {P1: 0})), json(3), json(3, 8)) == [(1, 0, 8)]


LOSSES = [
    ("ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", json(3), json(3, 8), {P1: 2}, [(1, 2, 8)]),
    ("INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", json(3), json(5, 8), {}, [(0, 3, 5)]),
    ("PARTITIONS_DELETED", json(3, 3), json(5), {}, [(0, 3, 5)]),
    ("PARTITION_OFFSET_CHANGED", json(9, 0), json(4, 2), {}, [(1, 0, 2)]),
]


@pytest.mark.parametrize(("kind", "start", "end", "earliest", "rest"), LOSSES, ids=[loss[0] for loss in LOSSES])
def test_losses(kind: str, start: Json, end: Json, earliest: Offsets, rest: list[tuple[int, int, int]]) -> None:
    with pytest.raises(KafkaDataLossError, match=rf"\[KAFKA_DATA_LOSS\.{kind}\].*failOnDataLoss to false.*t-"):
        ranges(reader(Offers({}, earliest)), start, end)
    assert ranges(reader(Offers({}, earliest), failOnDataLoss="false"), start, end) == rest


def test_stop_closes() -> None:
    offers = Offers({})
    reader(offers).stop()
    assert offers.closed
    StreamReader(reader(offers).options).stop()
