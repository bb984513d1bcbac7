"""Seeded bad input: frames that are random, truncated, absurdly long, unknown, or nearly right."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from integration.harness.wire import CLIENT_ID, FETCH, LIST_OFFSETS, METADATA, PRODUCE, string

REQUEST_MAX = 104857600
KNOWN_KEYS = (0, 1, 2, 3, 10, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 43, 44, 45, 46, 60)


def batch(values: list[bytes], *, crc: int | None = None) -> bytes:
    """A record batch of format 2, by hand; ``crc`` instead of the right one."""
    from google_crc32c import value as crc32c

    records = b""
    for number, value in enumerate(values):
        body = b"\x00" + varint(0) + varint(number) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    now = 1_700_000_000_000
    rest = struct.pack(">hiqqqhii", 0, len(values) - 1, now, now, -1, -1, -1, len(values)) + records
    checksum = crc32c(rest) if crc is None else crc
    return struct.pack(">qiibI", 0, len(rest) + 9, 0, 2, checksum) + rest


def varint(number: int) -> bytes:
    """Zigzag."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def produce_body(topic: str, partition: int, records: bytes, acks: int = -1) -> bytes:
    """Produce, version 3 to 8."""
    head = struct.pack(">hhii", -1, acks, 5000, 1) + string(topic)
    return head + struct.pack(">iii", 1, partition, len(records)) + records


def fetch_body(topic: str, partition: int, offset: int, *, max_wait_ms: int = 0, max_bytes: int = 1 << 20) -> bytes:
    """Fetch, version 4."""
    head = struct.pack(">iiiibi", -1, max_wait_ms, 1, max_bytes, 0, 1) + string(topic)
    return head + struct.pack(">iiqi", 1, partition, offset, max_bytes)


def frame(api_key: int, version: int, body: bytes, correlation: int = 1) -> bytes:
    """A whole frame with its length."""
    header = struct.pack(">hhih", api_key, version, correlation, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


def garbage(seed: int, count: int, topic: str) -> Iterator[bytes]:
    """``count`` pieces of bad input."""
    chance = random.Random(seed)
    good = [
        frame(PRODUCE, 7, produce_body(topic, 0, batch([b"x" * 50, b"y"]))),
        frame(FETCH, 4, fetch_body(topic, 0, 0)),
        frame(METADATA, 1, struct.pack(">i", 1) + string(topic)),
        frame(LIST_OFFSETS, 1, struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, 0, -1)),
    ]
    for _ in range(count):
        yield chance.choice(KINDS)(chance, good, topic)


def _random_frame(chance: random.Random, _good: list[bytes], _topic: str) -> bytes:
    body = chance.randbytes(chance.randrange(200))
    return struct.pack(">i", len(body)) + body


def _absurd_length(chance: random.Random, _good: list[bytes], _topic: str) -> bytes:
    return struct.pack(">i", chance.choice((-1, -(1 << 31), (1 << 31) - 1, REQUEST_MAX + 1))) + chance.randbytes(20)


def _truncated(chance: random.Random, good: list[bytes], _topic: str) -> bytes:
    whole = chance.choice(good)
    return whole[: chance.randrange(1, len(whole))]


def _unknown(chance: random.Random, _good: list[bytes], _topic: str) -> bytes:
    key, version = chance.choice(
        ((chance.randrange(100, 32767), 0), (chance.choice(KNOWN_KEYS), chance.randrange(50, 32767)))
    )
    return frame(key, version, chance.randbytes(chance.randrange(60)))


def _random_body(chance: random.Random, _good: list[bytes], _topic: str) -> bytes:
    return frame(chance.choice(KNOWN_KEYS), chance.randrange(13), chance.randbytes(chance.randrange(120)))


def _flipped(chance: random.Random, good: list[bytes], _topic: str) -> bytes:
    whole = bytearray(chance.choice(good))
    for _ in range(chance.randrange(1, 4)):
        whole[chance.randrange(4, len(whole))] ^= 1 << chance.randrange(8)
    return bytes(whole)


def _bad_batch(chance: random.Random, _good: list[bytes], topic: str) -> bytes:
    records = bytearray(batch([chance.randbytes(chance.randrange(80))], crc=chance.getrandbits(32)))
    if chance.random() < 0.5:
        struct.pack_into(">i", records, 8, chance.choice((-1, 0, 5, 48, 49, 1 << 30, (1 << 31) - 1)))
    return frame(PRODUCE, 7, produce_body(topic, chance.randrange(3), bytes(records)))


def _flipped_batch(chance: random.Random, _good: list[bytes], topic: str) -> bytes:
    records = bytearray(batch([chance.randbytes(40), b"z"]))
    records[chance.randrange(len(records))] ^= 1 << chance.randrange(8)
    return frame(PRODUCE, chance.choice((3, 5, 7)), produce_body(topic, 0, bytes(records)))


def _nested_counts(chance: random.Random, _good: list[bytes], _topic: str) -> bytes:
    # an array that says it has two billion elements
    return frame(
        chance.choice((0, 1, 2, 3, 19)), chance.randrange(8), struct.pack(">i", (1 << 31) - 1) * chance.randrange(1, 6)
    )


KINDS = (
    _random_frame,
    _absurd_length,
    _truncated,
    _unknown,
    _random_body,
    _flipped,
    _bad_batch,
    _flipped_batch,
    _nested_counts,
)
