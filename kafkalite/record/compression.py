"""The codecs of record batches, with a limit on the decompressed size.

Answers to: ``org.apache.kafka.common.compress`` and ``CompressionType``. Pure.

Kafka decompresses as a stream and so never holds the whole; here the whole is held, so every codec computes an upper
bound of the size beforehand, from the compressed bytes themselves.
"""

from __future__ import annotations

import struct
import zlib

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.record.batch import CorruptRecordError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Codec names by their id, as ``compression.type`` and the tools write them."""
CODECS = {name: codec for codec, name in enumerate(NAMES)} | {"uncompressed": NONE}
"""Codec ids by the allowed values of ``compression.type`` (except ``producer``)."""
MAX_DECOMPRESSED_BYTES = 32 << 20
"""Bytes that one batch may decompress to, unless the caller sets another limit."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 << 10
_BE32 = struct.Struct(">I")
_LE32 = struct.Struct("<I")
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50
_ZSTD_MAX_BLOCK = 128 << 10


def compress(codec: int, data: Buffer, *, magic: int = 2) -> bytes:
    """Compress ``data`` by ``codec`` (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd) in the form of batches of ``magic``.

    Raises ``ApiError`` (UNSUPPORTED_COMPRESSION_TYPE) for zstd before magic 2 and for unknown codecs.
    """
    # Import late, because the codecs are one large native library, which a broker that passes batches on never needs.
    if codec == GZIP:
        from cramjam import gzip

        return bytes(gzip.compress(data))
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        from kafkalite.record import lz4

        return lz4.encode(data, broken_checksum=magic == 0)
    if codec == ZSTD and magic >= 2:
        from cramjam import zstd

        return bytes(zstd.compress(data, 3))
    if codec == NONE:
        return bytes(data)
    raise _unsupported(codec, magic)


def decompress(codec: int, data: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES, *, magic: int = 2) -> Buffer:
    """The inverse of :func:`compress`; with codec 0 the same buffer.

    Raises ``CorruptRecordError`` for bytes that are not in the codec's format, ``ApiError`` with MESSAGE_TOO_LARGE if
    they decompress to more than ``max_size`` bytes and with UNSUPPORTED_COMPRESSION_TYPE as :func:`compress`.
    """
    if codec == NONE:
        return data
    if codec > ZSTD or (codec == ZSTD and magic < 2):
        raise _unsupported(codec, magic)
    view = memoryview(data)
    try:
        if codec == GZIP:
            plain = _decompress_gzip(view, max_size)
        elif codec == SNAPPY:
            plain = _decompress_snappy(view, max_size)
        elif codec == LZ4:
            from kafkalite.record import lz4

            plain = lz4.decode(view, max_size, ignore_checksum=magic == 0)
        else:
            plain = _decompress_zstd(view, max_size)
    except CorruptRecordError:
        raise
    except Exception as error:  # the native codecs raise several unrelated classes for bad bytes
        raise CorruptRecordError(f"{NAMES[codec]}: {error}") from error
    if plain is None:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a {NAMES[codec]} batch unfolds to more than {max_size} bytes")
    return plain


def _unsupported(codec: int, magic: int) -> ApiError:
    name = NAMES[codec] if 0 <= codec < len(NAMES) else str(codec)
    return ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {name} cannot be used with magic {magic}")


def _decompress_gzip(view: memoryview, max_size: int) -> Buffer | None:
    from cramjam import gzip

    if len(view) < 18:
        raise CorruptRecordError(f"gzip: {len(view)} bytes are too few")
    claimed = _LE32.unpack_from(view, len(view) - 4)[0]
    if claimed <= min(max_size, len(view) * 1032):  # deflate cannot do better than 1032 to 1
        out = bytearray(claimed)
        try:
            if gzip.decompress_into(view, out) == claimed:
                return out
        except Exception:
            out.clear()  # several members, or a lie: the slower and exact way tells
    parts: list[bytes] = []
    total = 0
    rest: Buffer = view
    while len(rest):
        member = zlib.decompressobj(31)
        part = member.decompress(rest, max_size - total + 1)
        total += len(part)
        if total > max_size:
            return None
        if not member.eof:
            raise CorruptRecordError("gzip: the stream is cut short")
        parts.append(part)
        rest = member.unused_data
        if rest[:2] != b"\x1f\x8b":  # not another member: Java's reader passes over it, too
            break
    return b"".join(parts)


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    out = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        out += (_BE32.pack(len(block)), block)
    return b"".join(out)


def _decompress_snappy(view: memoryview, max_size: int) -> Buffer | None:
    from cramjam import snappy

    if view[:8] != _XERIAL_MAGIC:
        if snappy.decompress_raw_len(view) > max_size:
            return None
        return bytes(snappy.decompress_raw(view))
    parts: list[Buffer] = []
    total, pos, end = 0, len(_XERIAL_HEADER), len(view)
    while pos < end:
        if view[pos : pos + 8] == _XERIAL_MAGIC:  # streams that were written one after the other
            pos += len(_XERIAL_HEADER)
            continue
        size = _BE32.unpack_from(view, pos)[0]
        block = view[pos + 4 : pos + 4 + size]
        if len(block) < size:
            raise CorruptRecordError(f"snappy: block of {size} bytes is cut short")
        if size:
            total += snappy.decompress_raw_len(block)
            if total > max_size:
                return None
            parts.append(bytes(snappy.decompress_raw(block)))
        pos += 4 + size
    return b"".join(parts)


def _decompress_zstd(view: memoryview, max_size: int) -> Buffer | None:
    from cramjam import zstd

    bound = _zstd_bound(view, max_size)
    # For a producer's batch of many repeated bytes the bound is far below the limit. A bound above the limit may be too
    # high: then the buffer is as large as allowed, and the codec says whether that is enough.
    out = bytearray(min(bound, max_size))
    try:
        size: int = zstd.decompress_into(view, out)
    except Exception as error:
        if bound > max_size and "whole buffer" in str(error):
            return None
        raise
    return out if size == len(out) else memoryview(out)[:size]


def _zstd_bound(view: memoryview, max_size: int) -> int:
    """The most that the frames of ``view`` can decompress to, by their block headers; counts up to ``max_size``."""
    pos, end, bound = 0, len(view), 0
    while pos < end:
        magic = _LE32.unpack_from(view, pos)[0]
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE:
            pos += 8 + _LE32.unpack_from(view, pos + 4)[0]
            continue
        if magic != _ZSTD_MAGIC:
            raise CorruptRecordError("zstd: not a frame")
        descriptor = view[pos + 4]
        single = descriptor >> 5 & 1
        pos += 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
        last = 0
        while not last:
            block = view[pos] | view[pos + 1] << 8 | view[pos + 2] << 16
            last, kind, size = block & 1, block >> 1 & 3, block >> 3
            bound += size if kind < 2 else _ZSTD_MAX_BLOCK
            pos += 3 + (1 if kind == 1 else size)
            if bound > max_size:
                return bound
        pos += 4 if descriptor & 4 else 0
    return bound
