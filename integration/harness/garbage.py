"""Request bodies and record batches that tests encode themselves: valid ones, and ones with a single defect."""

from __future__ import annotations

import struct

from crc32c import crc32c

from integration.harness.wire import string


def batch(values: list[bytes], *, crc: int | None = None) -> bytes:
    """A record batch of format 2; ``crc`` replaces the right checksum."""
    records = b""
    for number, value in enumerate(values):
        body = b"\x00" + varint(0) + varint(number) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    now = 1_700_000_000_000
    rest = struct.pack(">hiqqqhii", 0, len(values) - 1, now, now, -1, -1, -1, len(values)) + records
    checksum = crc32c(rest) if crc is None else crc
    return struct.pack(">qiibI", 0, len(rest) + 9, 0, 2, checksum) + rest


def varint(number: int) -> bytes:
    """``number`` as a zigzag varint."""
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
