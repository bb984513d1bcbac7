"""Batches that the tests of this room share: Kafka's own bytes, and records of ours."""

from __future__ import annotations

from pathlib import Path

from kafkalite.record.records import Record

KAFKA_TIMES = (1700000000000, 1700000000500, 1699999999000)
APPEND_TIME = 1700000000999


def kafka_bytes() -> dict[tuple[int, int, int], bytes]:
    """What Kafka 3.9.1 wrote, by (magic, codec, timestamp type)."""
    out = {}
    for line in Path(__file__).with_name("kafka_records.txt").read_text().splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[0].isdigit():
            out[int(fields[0]), int(fields[1]), int(fields[2])] = bytes.fromhex(fields[3])
    return out


def kafka_commit_marker() -> bytes:
    """A control batch of Kafka's: commit of producer 11, epoch 2, coordinator epoch 13, at offset 42."""
    last = Path(__file__).with_name("kafka_records.txt").read_text().splitlines()[-1]
    return bytes.fromhex(last.split()[1])


def expected_records(magic: int, timestamp_type: int) -> list[Record]:
    """The records in :func:`kafka_bytes`."""
    times = KAFKA_TIMES if timestamp_type == 0 else (APPEND_TIME,) * 3
    if magic == 0:
        times = (-1,) * 3
    sequences = (2147483646, 2147483647, 1) if magic == 2 else (-1, -1, -1)
    headers = [("h", b"x"), ("n", None)] if magic == 2 else ()
    return [
        Record(100, times[0], b"k0", b"hello hello hello hello", (), sequences[0]),
        Record(101, times[1], None, b"v1", (), sequences[1]),
        Record(103, times[2], b"k2", None, headers, sequences[2]),
    ]


def records(count: int, *, timestamp: int = 1000, offset: int = 0) -> list[Record]:
    """``count`` small records with keys."""
    return [Record(offset + i, timestamp + i, b"key%d" % i, b"value%d" % i * 3) for i in range(count)]
