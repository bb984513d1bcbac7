"""xxHash32, for the one checksum byte of an LZ4 frame's descriptor (and its optional content checksums).

Answers to: ``net.jpountz.xxhash`` as ``Lz4BlockInputStream`` uses it. Pure.
"""

from __future__ import annotations

import struct

from kafkalite.common.types import Buffer

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_M = 0xFFFFFFFF
_STRIPE = struct.Struct("<4I")
_WORD = struct.Struct("<I")


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
