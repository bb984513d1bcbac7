"""The codecs of record batches, with an upper bound on what they unfold to.

Answers to: ``org.apache.kafka.common.compress``. Pure.
"""

from __future__ import annotations

from kafkalite.common.types import Buffer


def compress(codec: int, data: Buffer, *, magic: int = 2) -> bytes:
    """``data`` compressed by ``codec`` (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd) as batches of ``magic`` carry it."""
    raise NotImplementedError


def decompress(codec: int, data: Buffer, max_size: int = 32 << 20, *, magic: int = 2) -> Buffer:
    """The reverse. Raises ``CorruptRecordError``, and ``ApiError`` (MESSAGE_TOO_LARGE) past ``max_size`` bytes."""
    raise NotImplementedError
