"""Codecs both ways, against other implementations, and within bounds."""

from __future__ import annotations

import gzip
import random

import pytest
from kafka import codec as library

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.record import lz4
from kafkalite.record.batch import CorruptRecordError
from kafkalite.record.compression import compress, decompress
from kafkalite.record.lz4 import xxh32

RANDOM = random.Random(7).randbytes(150_000)
SAMPLES = [b"", b"a", b"hello" * 20, RANDOM, RANDOM[:1000] * 200]
KINDS = [(codec, magic) for codec in range(5) for magic in range(3) if codec < 4 or magic == 2]


@pytest.mark.parametrize(("codec", "magic"), KINDS)
def test_there_and_back(codec: int, magic: int) -> None:
    for data in SAMPLES:
        assert bytes(decompress(codec, compress(codec, memoryview(data), magic=magic), magic=magic)) == data


@pytest.mark.parametrize(
    ("codec", "encode", "decode"),
    [
        (1, library.gzip_encode, library.gzip_decode),
        (2, library.snappy_encode, library.snappy_decode),
        (3, library.lz4_encode, library.lz4_decode),
        (4, library.zstd_encode, library.zstd_decode),
    ],
)
def test_against_the_client_library(codec: int, encode: object, decode: object) -> None:
    assert callable(encode) and callable(decode)
    for data in SAMPLES[1:]:
        assert bytes(decompress(codec, encode(data))) == data
        assert decode(compress(codec, data)) == data


def test_snappy_without_framing_and_concatenated() -> None:
    from cramjam import snappy

    assert bytes(decompress(2, bytes(snappy.compress_raw(RANDOM)))) == RANDOM
    assert bytes(decompress(2, compress(2, b"one ") + compress(2, b"two"))) == b"one two"


def test_gzip_of_several_members() -> None:
    several = gzip.compress(b"a" * 500) + gzip.compress(b"b" * 20)
    for tail in (b"", bytes(9), b"tail"):
        assert bytes(decompress(1, several + tail)) == b"a" * 500 + b"b" * 20


def test_lz4_header_of_magic_0_is_kafkas_broken_one() -> None:
    # Kafka 3.9.1 writes checksum 0x1a for magic 0 and 0x82 otherwise, over the same descriptor.
    assert compress(3, b"x", magic=0)[:7].hex() == "04224d1860401a"
    assert compress(3, b"x", magic=1)[:7].hex() == "04224d18604082"
    with pytest.raises(CorruptRecordError, match="checksum"):
        decompress(3, compress(3, b"x", magic=0), magic=1)
    assert bytes(decompress(3, compress(3, b"x", magic=1), magic=0)) == b"x"


def test_lz4_linked_blocks_and_content_size() -> None:
    from cramjam import lz4 as native

    text = b"".join(b"line %d of a text that repeats itself\n" % (i % 977) for i in range(9000))
    frame = bytes(native.compress(text))
    assert bytes(decompress(3, frame)) == text
    sized = lz4.MAGIC + b"\x68\x40" + len(text).to_bytes(8, "little")
    sized += bytes([xxh32(sized[4:]) >> 8 & 0xFF]) + compress(3, text)[7:]
    assert bytes(decompress(3, sized)) == text


@pytest.mark.parametrize(("data", "expected"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)])
def test_xxhash_of_known_texts(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected


def test_xxhash_of_a_long_text() -> None:
    assert xxh32(b"Nobody inspects the spammish repetition") == 0xE2293B2F


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_output_is_bounded(codec: int) -> None:
    bomb = compress(codec, bytes(3_000_000))
    assert len(decompress(codec, bomb, 3_000_000)) == 3_000_000
    with pytest.raises(ApiError) as caught:
        decompress(codec, bomb, 1_000_000)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_of_many_small_blocks_is_not_refused_for_its_bound() -> None:
    # Flushed often, zstd has many blocks that could be 128 KiB each; the content counts, not what could be.
    from cramjam import zstd

    packed = b"".join(bytes(zstd.compress(b"abc%d" % i * 9)) for i in range(100))
    assert len(decompress(4, packed, 1 << 16)) == sum(len(b"abc%d" % i * 9) for i in range(100))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_bad_bytes_raise_one_kind_of_error(codec: int) -> None:
    rng = random.Random(codec)
    good = compress(codec, RANDOM[:2000] * 3)
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        data = bytes(bad[: rng.randint(0, len(bad))])
        try:
            assert len(decompress(codec, data, 100_000)) <= 100_000
        except (CorruptRecordError, ApiError):
            pass


@pytest.mark.parametrize(("codec", "magic"), [(4, 1), (4, 0), (5, 2), (7, 2)])
def test_codecs_that_do_not_exist(codec: int, magic: int) -> None:
    for call in (compress, decompress):
        with pytest.raises(ApiError) as caught:
            call(codec, b"abc", magic=magic)
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
