"""LZ4 frames as Kafka writes and reads them, block by block, and the xxHash32 of their descriptor.

Answers to: ``org.apache.kafka.common.compress.{Lz4BlockInputStream,Lz4BlockOutputStream}`` and ``net.jpountz.xxhash``
as they use it. Pure.

Kafka's Java readers accept independent blocks only, so those are written. For magic 0 Kafka computed the
descriptor's checksum over the frame's magic number, too (KAFKA-3160), and its readers of magic 0 still ignore it:
such frames are written with the wrong checksum byte and read without a check of it.
"""

from __future__ import annotations

import struct

from cramjam import lz4 as _lz4

from kafkalite.common.types import Buffer
from kafkalite.record.batch import CorruptRecordError

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_M = 0xFFFFFFFF
_STRIPE = struct.Struct("<4I")


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _M


def xxh32(data: Buffer, seed: int = 0) -> int:
    """The 32-bit xxHash of ``data``. Written for the few bytes of a frame header, not for bulk."""
    length, pos = len(data), 0
    if length >= 16:
        lanes = [(seed + _P1 + _P2) & _M, (seed + _P2) & _M, seed, (seed - _P1) & _M]
        while pos + 16 <= length:
            words = _STRIPE.unpack_from(data, pos)
            lanes = [
                (_rotate((lane + word * _P2) & _M, 13) * _P1) & _M for lane, word in zip(lanes, words, strict=True)
            ]
            pos += 16
        hashed = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _M
    else:
        hashed = (seed + _P5) & _M
    hashed = (hashed + length) & _M
    while pos + 4 <= length:
        hashed = (_rotate((hashed + _WORD.unpack_from(data, pos)[0] * _P3) & _M, 17) * _P4) & _M
        pos += 4
    while pos < length:
        hashed = (_rotate((hashed + data[pos] * _P5) & _M, 11) * _P1) & _M
        pos += 1
    hashed = ((hashed ^ (hashed >> 15)) * _P2) & _M
    hashed = ((hashed ^ (hashed >> 13)) * _P3) & _M
    return hashed ^ (hashed >> 16)


MAGIC = b"\x04\x22\x4d\x18"
_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_WRITE_BLOCK = 1 << 16
_DESCRIPTOR = b"\x60\x40"  # version 1, independent blocks, no checksums; blocks of 64 KiB
_WORD = struct.Struct("<I")
_UNCOMPRESSED = 0x80000000

_HEADER = MAGIC + _DESCRIPTOR + bytes([(xxh32(_DESCRIPTOR) >> 8) & 0xFF])
_BROKEN_HEADER = MAGIC + _DESCRIPTOR + bytes([(xxh32(MAGIC + _DESCRIPTOR) >> 8) & 0xFF])


def encode(data: Buffer, *, broken_checksum: bool = False) -> bytes:
    """``data`` as one LZ4 frame; ``broken_checksum``: with the wrong checksum byte of magic 0."""
    out = [_BROKEN_HEADER if broken_checksum else _HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _WRITE_BLOCK):
        block = view[start : start + _WRITE_BLOCK]
        packed = bytes(_lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            out += (_WORD.pack(len(packed)), packed)
        else:
            out += (_WORD.pack(len(block) | _UNCOMPRESSED), bytes(block))
    out.append(_WORD.pack(0))
    return b"".join(out)


def decode(data: memoryview, max_size: int, *, ignore_checksum: bool = False) -> bytes | None:
    """The content of one LZ4 frame, or None when it is larger than ``max_size``. Raises ``CorruptRecordError``.

    Linked blocks, which Kafka's Java readers refuse but other clients may have stored, are accepted, too.
    """
    try:
        flags, pos, block_size, linked = _read_descriptor(data, ignore_checksum)
        out: list[Buffer] = []
        total = 0
        window = b""
        scratch = memoryview(bytearray(block_size))
        while word := _WORD.unpack_from(data, pos)[0]:
            size = word & ~_UNCOMPRESSED
            block = data[pos + 4 : pos + 4 + size]
            if size > block_size or len(block) < size:
                raise CorruptRecordError(f"lz4 block of {size} bytes is cut short or larger than {block_size}")
            pos += 4 + size + (4 if flags & 0x10 else 0)
            if word & _UNCOMPRESSED:
                plain = bytes(block)
            elif linked and window:
                plain = _decode_linked(block, window, block_size)
            else:
                plain = bytes(scratch[: _lz4.decompress_block_into(block, scratch, output_len=block_size)])
            total += len(plain)
            if total > max_size:
                return None
            out.append(plain)
            if linked:
                window = (window + plain)[-65536:]
        return b"".join(out)
    except CorruptRecordError:
        raise
    except Exception as error:
        raise CorruptRecordError(f"lz4: {error}") from error


def _read_descriptor(data: memoryview, ignore_checksum: bool) -> tuple[int, int, int, bool]:
    if data[:4] != MAGIC:
        raise CorruptRecordError("lz4: not a frame")
    flags, sizes = data[4], data[5]
    if flags >> 6 != 1 or flags & 0x01:
        raise CorruptRecordError(f"lz4: unsupported frame flags {flags:#04x}")
    block_size = _BLOCK_SIZES.get((sizes >> 4) & 0x07)
    if block_size is None:
        raise CorruptRecordError(f"lz4: unsupported block size in {sizes:#04x}")
    end = 14 if flags & 0x08 else 6
    if not ignore_checksum and data[end] != (xxh32(data[4:end]) >> 8) & 0xFF:
        raise CorruptRecordError("lz4: checksum of the frame descriptor is wrong")
    return flags, end + 1, block_size, not flags & 0x20


def _decode_linked(block: memoryview, window: bytes, block_size: int) -> bytes:
    """One block that may copy from the 64 KiB before it: plain LZ4, since the codec takes no dictionary."""
    out = bytearray(window)
    start, pos, end = len(window), 0, len(block)
    while pos < end:
        token = block[pos]
        pos += 1
        count, pos = _read_length(block, pos, token >> 4)
        if pos + count > end:
            raise CorruptRecordError("lz4: literals are cut short")
        out += block[pos : pos + count]
        pos += count
        if pos >= end:
            break
        back = block[pos] | block[pos + 1] << 8
        pos += 2
        count, pos = _read_length(block, pos, token & 0x0F)
        count += 4
        origin = len(out) - back
        if back == 0 or origin < 0 or len(out) + count - start > block_size:
            raise CorruptRecordError("lz4: a copy leaves its bounds")
        if back >= count:
            out += out[origin : origin + count]
        else:
            pattern = bytes(out[origin:])
            out += (pattern * (count // back + 1))[:count]
    return bytes(out[start:])


def _read_length(block: memoryview, pos: int, nibble: int) -> tuple[int, int]:
    if nibble < 15:
        return nibble, pos
    length = 15
    while True:
        byte = block[pos]
        pos += 1
        length += byte
        if byte != 255:
            return length, pos
