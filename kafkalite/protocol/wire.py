"""Pieces of the wire format that the codecs of our own share: varints, strings, counts, tagged fields.

Answers to: ``org.apache.kafka.common.protocol.{Readable,Writable}`` and ``common.utils.ByteUtils``. Pure.

Readers take a position and return the one behind what they read. They raise :class:`ProtocolError`, and
``struct.error``, ``IndexError`` or ``ValueError`` at the end of the bytes, which :data:`MALFORMED` lists.
"""

from __future__ import annotations

import struct
from collections.abc import Container

from kafkalite.protocol.errors import ProtocolError

MALFORMED = (struct.error, IndexError, ValueError)
"""What a reader may raise beside :class:`ProtocolError` where the bytes end too early or are no UTF-8."""

MOST_TAGS = 10_000
"""Most tagged fields of one structure that are read, because a stranger may send a quarter of a million, which takes a
tenth of a second. Kafka's own messages have few."""

Bytes = bytes | bytearray | memoryview

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")


def read_uvarint(body: Bytes, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes."""
    byte = body[pos]
    if byte < 0x80:
        return byte, pos + 1
    value = shift = 0
    while True:
        byte = body[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint of more than five bytes")


def write_uvarint(value: int) -> bytes:
    """The reverse of :func:`read_uvarint`."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_count(body: Bytes, pos: int, flexible: bool) -> tuple[int, int]:
    """How many elements an array has; -1: null."""
    if flexible:
        count, pos = read_uvarint(body, pos)
        return count - 1, pos
    return INT32.unpack_from(body, pos)[0], pos + 4


def write_count(count: int, flexible: bool) -> bytes:
    """The reverse of :func:`read_count`."""
    return write_uvarint(count + 1) if flexible else INT32.pack(count)


def read_string(body: Bytes, pos: int, flexible: bool) -> tuple[str | None, int]:
    """A string, or ``None``."""
    if flexible:
        size, pos = read_uvarint(body, pos)
        size -= 1
    else:
        size = INT16.unpack_from(body, pos)[0]
        pos += 2
    if size < 0:
        return None, pos
    end = pos + size
    if end > len(body):
        raise ProtocolError(f"a string of {size} bytes runs past the end")
    return str(body[pos:end], "utf-8"), end


def read_text(body: Bytes, pos: int, flexible: bool) -> tuple[str, int]:
    """A string that must not be null."""
    text, pos = read_string(body, pos, flexible)
    if text is None:
        raise ProtocolError("a string is null that must not be")
    return text, pos


def write_string(text: str | None, flexible: bool) -> bytes:
    """The reverse of :func:`read_string`."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    raw = text.encode()
    return write_uvarint(len(raw) + 1) + raw if flexible else INT16.pack(len(raw)) + raw


def _tag_count(body: Bytes, pos: int) -> tuple[int, int]:
    count, pos = read_uvarint(body, pos)
    if count > MOST_TAGS:
        raise ProtocolError(f"{count} tagged fields in one structure (at most {MOST_TAGS} are read)")
    return count, pos


def skip_tags(body: Bytes, pos: int) -> int:
    """The position behind a section of tagged fields."""
    if body[pos] == 0:
        return pos + 1
    count, pos = _tag_count(body, pos)
    for _ in range(count):
        _, pos = read_uvarint(body, pos)
        size, pos = read_uvarint(body, pos)
        pos += size
        if pos > len(body):
            raise ProtocolError("a tagged field runs past the end")
    return pos


def read_tags(body: Bytes, pos: int, known: Container[int]) -> tuple[dict[int, Bytes], int]:
    """Tagged fields, undecoded, by tag; only the ``known`` ones."""
    if body[pos] == 0:
        return {}, pos + 1
    tags: dict[int, Bytes] = {}
    count, pos = _tag_count(body, pos)
    for _ in range(count):
        tag, pos = read_uvarint(body, pos)
        size, pos = read_uvarint(body, pos)
        end = pos + size
        if end > len(body):
            raise ProtocolError("a tagged field runs past the end")
        if tag in known:
            tags[tag] = body[pos:end]
        pos = end
    return tags, pos


def write_tags(tags: dict[int, bytes]) -> bytes:
    """The reverse of :func:`read_tags`; tags in ascending order."""
    out = [write_uvarint(len(tags))]
    for tag, value in sorted(tags.items()):
        out += (write_uvarint(tag), write_uvarint(len(value)), value)
    return b"".join(out)


NodeEndpoint = tuple[int, str, int, str | None]
"""Id, host, port and rack of a broker that an answer points at (KIP-951)."""


def write_endpoints(endpoints: list[NodeEndpoint]) -> bytes:
    """Where the leaders are that an answer names: the same tagged field in Produce and in Fetch."""
    out = [write_count(len(endpoints), True)]
    for node, host, port, rack in endpoints:
        out += (INT32.pack(node), write_string(host, True), INT32.pack(port), write_string(rack, True), b"\0")
    return b"".join(out)
