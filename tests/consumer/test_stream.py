"""Records that count as read, records that are dropped, records that are not fetched twice."""

from __future__ import annotations

import threading

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.consumer.stream import Record, Stream

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def records(tp: TopicPartition, *offsets: int) -> list[Record]:
    return [Record(tp.topic, tp.partition, offset, -1, None, b"%d" % offset) for offset in offsets]


def begun(starts: dict[TopicPartition, int | None], *, chunks: int = 10) -> tuple[Stream, int]:
    stream = Stream(chunks)
    generation, fetch = stream.begin(starts)
    assert fetch == starts
    return stream, generation


def offset(stream: Stream) -> int | None:
    record = stream.next(0)
    return None if record is None else record.offset


def test_a_record_counts_once_the_next_is_asked_for() -> None:
    stream, generation = begun({T0: 5})
    assert stream.put(generation, T0, records(T0, 5, 9))
    assert stream.read() == {T0: 5}
    assert offset(stream) == 5 and stream.read() == {T0: 5}
    assert offset(stream) == 9 and stream.read() == {T0: 6}
    assert offset(stream) is None and stream.read() == {T0: 10}


def test_settling_counts_what_is_in_hand() -> None:
    stream, generation = begun({T0: 0})
    stream.put(generation, T0, records(T0, 0, 1))
    stream.next(0)
    stream.settle()
    stream.settle()
    assert stream.read() == {T0: 1}
    assert offset(stream) == 1


def test_an_ended_generation_is_dropped() -> None:
    stream, generation = begun({T0: 0, T1: None})
    stream.put(generation, T0, records(T0, 0, 1, 2))
    stream.next(0)
    stream.next(0)
    assert stream.end() == {T0: 1}
    assert offset(stream) is None and stream.read() == {}
    assert not stream.put(generation, T0, records(T0, 3))
    stream.move(generation, T0, 99)
    assert stream.read() == {}


def test_the_record_in_process_is_not_fetched_again_by_the_same_member() -> None:
    stream, generation = begun({T0: 0})
    stream.put(generation, T0, records(T0, 0, 4))
    stream.next(0)
    stream.next(0)
    committed = stream.end()
    generation, fetch = stream.begin({T0: committed[T0], T1: None})
    assert fetch == {T0: 5, T1: None}
    assert stream.read() == {T0: 1}
    stream.put(generation, T0, records(T0, 5))
    assert offset(stream) == 5 and stream.read() == {T0: 5}


@pytest.mark.parametrize("start", [0, 4, None])
def test_the_record_in_process_does_not_count_after_a_start_elsewhere(start: int | None) -> None:
    """Another program moved the offset, or nothing was committed: reading begins at the committed offset."""
    stream, generation = begun({T0: 0})
    stream.put(generation, T0, records(T0, 0, 1))
    stream.next(0)
    stream.next(0)
    stream.end()
    _, fetch = stream.begin({T0: start})
    assert fetch == {T0: start}
    assert offset(stream) is None
    assert stream.read() == ({} if start is None else {T0: start})


def test_a_reset_is_part_of_the_next_commit() -> None:
    stream, generation = begun({T0: None})
    assert stream.read() == {}
    stream.move(generation, T0, 7)
    assert stream.read() == {T0: 7}


def test_room() -> None:
    stream, generation = begun({T0: 0}, chunks=1)
    assert stream.wait_for_room(0)
    stream.put(generation, T0, records(T0, 0, 1))
    assert not stream.wait_for_room(0)
    stream.next(0)
    assert not stream.wait_for_room(0)
    stream.next(0)
    assert stream.wait_for_room(0)
    stream.put(generation, T0, records(T0, 2))
    stream.end()
    assert stream.wait_for_room(0)


def test_a_failure_comes_after_the_waiting_records_and_ends_with_a_new_generation() -> None:
    stream, generation = begun({T0: 0})
    stream.put(generation, T0, records(T0, 0))
    stream.fail(ValueError("broken"))
    assert offset(stream) == 0
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            stream.next(0)
    stream.begin({T0: 1})
    assert stream.next(0) is None


@pytest.mark.parametrize("wake", ["put", "close", "fail"])
def test_a_waiting_reader_is_woken(wake: str) -> None:
    stream, generation = begun({T0: 0})
    seen: list[object] = []

    def read() -> None:
        try:
            seen.append(stream.next(None))
        except ValueError as error:
            seen.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    if wake == "put":
        stream.put(generation, T0, records(T0, 0))
    elif wake == "close":
        stream.close()
    else:
        stream.fail(ValueError("broken"))
    reader.join(10)
    assert seen == {"put": records(T0, 0), "close": [None], "fail": ["broken"]}[wake]
