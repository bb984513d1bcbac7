"""Records to send and to compare: seeded, of many sizes, with keys, headers, nulls and timestamps."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DAILY_CODECS = ("lz4",)
"""Codecs of the daily run of tests that start a Java program for each codec."""
FIRST_TIMESTAMP = 1_700_000_000_000


class Item(NamedTuple):
    """A record to send. ``timestamp`` is in milliseconds."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Read(NamedTuple):
    """A record that a consumer read."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def make_items(seed: int, count: int, partitions: int, *, headers: bool = True, nulls: bool = True) -> list[Item]:
    """``count`` records in random partitions (by a seed), one millisecond apart."""
    rng = random.Random(seed)
    items = []
    for number in range(count):
        # Half random bytes and half repeated text, so that codecs meet both incompressible and compressible data.
        size = rng.choice((0, 1, 10, 100, 100, 1000))
        value: bytes | None = rng.randbytes(size // 2) + b"kafkalite " * (size // 20)
        key: bytes | None = b"key-%d" % rng.randrange(50)
        if nulls and number % 97 == 5:
            key = None
        if nulls and number % 101 == 7:
            value = None
        some: Headers = ()
        if headers and number % 3 == 0:
            some = (("number", b"%d" % number), ("empty", b""), ("number", rng.randbytes(3)))
        items.append(Item(rng.randrange(partitions), FIRST_TIMESTAMP + number, key, value, some))
    return items


def checksum(records: Iterable[Item | Read]) -> dict[int, tuple[int, int]]:
    """Partition → (count, CRC over everything that was sent, in order)."""
    sums: dict[int, tuple[int, int]] = {}
    for record in records:
        count, crc = sums.get(record.partition, (0, 0))
        content = repr((record.timestamp, record.key, record.value, record.headers)).encode()
        sums[record.partition] = (count + 1, zlib.crc32(content, crc))
    return sums


def assert_same(sent: Sequence[Item], read: Sequence[Read]) -> None:
    """Counts and checksums of every partition are equal, and offsets run without gap or repetition."""
    assert len(read) == len(sent)
    assert checksum(read) == checksum(sent)
    for partition in {record.partition for record in read}:
        offsets = [record.offset for record in read if record.partition == partition]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), f"offsets of partition {partition}"
