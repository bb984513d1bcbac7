"""Seeded bad bytes: they raise only ``ApiError`` and ``CorruptRecordError``, and take little memory."""

from __future__ import annotations

import random

import pytest

from kafkalite.common.errors import ApiError
from kafkalite.record.batch import CorruptRecordError, iter_headers
from kafkalite.record.convert import down_convert, records_of, up_convert
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import assemble, encode_batch
from kafkalite.record.validator import ValidationConfig, validate_for_leader

from .samples import records

CONFIGS = [
    ValidationConfig(),
    ValidationConfig(compacted=True, timestamp_type=1),
    ValidationConfig(compression_type="lz4"),
    ValidationConfig(target_magic=1),
]
GOOD = [encode_batch(records(5), codec=codec) for codec in range(5)]
GOOD += [encode_message_set(records(5), magic, codec=codec) for magic in range(2) for codec in range(4)]


def mutate(data: bytes, rng: random.Random) -> bytes:
    bad = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        kind, at = rng.randrange(5), rng.randrange(len(bad))
        if kind == 0:
            bad[at] = rng.randrange(256)
        elif kind == 1:
            bad[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"])
        elif kind == 2:
            del bad[at : at + rng.randrange(9)]
        elif kind == 3:
            bad[at:at] = rng.randbytes(rng.randrange(9))
        else:
            bad += data[: rng.randrange(len(data))]
        if not bad:
            return b"\0"
    return bytes(bad)


def with_right_crcs(data: bytes) -> bytes:
    """The same bad bytes behind right CRCs, so that they get past the first gate."""
    import struct
    import zlib

    out = bytearray(data)
    try:
        for pos, header in list(iter_headers(bytes(out), allow_partial_tail=True)):
            end = pos + header.size
            if header.magic == 2:
                out[pos:end] = assemble(header, bytes(out[pos + 61 : end]))
            else:
                struct.pack_into(">I", out, pos + 12, zlib.crc32(out[pos + 16 : end]))
    except CorruptRecordError:
        pass
    return bytes(out)


def attempt(data: bytes, config: ValidationConfig) -> int:
    survived = 0
    try:
        result = validate_for_leader(memoryview(bytearray(data)), 10, 1, config, 2000)
        offsets = [offset for header in result.headers for offset in (header.base_offset, header.last_offset)]
        assert offsets == sorted(offsets) and offsets[0] >= 10 and offsets[-1] == result.last_offset
        survived = 1
    except ApiError:
        pass
    for reader in (up_convert, lambda d: down_convert(d, 0, 3).data, read_all):
        try:
            reader(data)
        except (ApiError, CorruptRecordError):
            pass
    return survived


def read_all(data: bytes) -> None:
    for pos, header in iter_headers(data):
        records_of(data, header, pos)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_batches(seed: int) -> None:
    rng = random.Random(seed)
    survived = 0
    for _ in range(1200):
        data = mutate(rng.choice(GOOD), rng)
        if rng.random() < 0.7:
            data = with_right_crcs(data)
        survived += attempt(data, rng.choice(CONFIGS))
    assert 0 < survived < 1200


def test_random_bytes() -> None:
    rng = random.Random(99)
    for _ in range(1500):
        data = bytearray(rng.randbytes(rng.randrange(200)))
        if len(data) > 17:
            data[8:12] = (len(data) - 12).to_bytes(4, "big")
            data[16] = rng.randrange(4)
        attempt(with_right_crcs(bytes(data)), rng.choice(CONFIGS))
