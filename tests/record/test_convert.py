"""Conversion up and down, for clients of every age."""

from __future__ import annotations

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.record.batch import check_crc, iter_headers
from kafkalite.record.convert import down_convert, records_of, up_convert
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record, encode_batch

from .samples import expected_records, kafka_bytes, kafka_commit_marker, records

KAFKA = kafka_bytes()


def read(data: bytes) -> tuple[list[int], list[Record]]:
    headers = list(iter_headers(data))
    assert all(check_crc(data, pos, header) for pos, header in headers)
    found = [record for pos, header in headers for record in records_of(data, header, pos)]
    return [header.magic for _, header in headers], found


@pytest.mark.parametrize("kind", sorted(kind for kind in KAFKA if kind[0] < 2))
def test_up(kind: tuple[int, int, int]) -> None:
    data = up_convert(KAFKA[kind])
    [(_, header)] = iter_headers(data)
    assert (header.magic, header.compression, header.timestamp_type) == (2, kind[1], kind[2])
    assert read(data) == ([2], expected_records(kind[0], kind[2]))


def test_up_leaves_magic_2_and_groups_the_rest() -> None:
    mixed = KAFKA[1, 0, 0] + KAFKA[1, 1, 0] + KAFKA[1, 1, 0] + KAFKA[2, 2, 0] + KAFKA[0, 0, 0] + b"tail"
    data = up_convert(mixed)
    assert read(data)[0] == [2] * 5
    assert KAFKA[2, 2, 0] in data


@pytest.mark.parametrize(
    ("codec", "timestamp_type", "magic"), [(c, t, m) for c in range(4) for t in range(2) for m in range(2)]
)
def test_down(codec: int, timestamp_type: int, magic: int) -> None:
    data, converted, next_offset = down_convert(KAFKA[2, codec, timestamp_type], magic, 0)
    assert (converted, next_offset) == (3, 104)
    magics, found = read(data)
    assert magics == [magic] * (1 if codec else 3)
    expected = expected_records(2, timestamp_type)
    assert [r.offset for r in found] == [100, 101, 103]
    assert [(r.key, r.value) for r in found] == [(r.key, r.value) for r in expected]
    assert [r.timestamp for r in found] == [r.timestamp if magic else -1 for r in expected]
    if not codec:
        # What the client library's old formats say of the same records is the same bytes.
        plain = [r._replace(headers=()) for r in expected]
        assert data == encode_message_set(plain, magic, timestamp_type=timestamp_type)


def test_down_from_the_middle() -> None:
    plain, packed = encode_batch(records(10)), encode_batch(records(10, offset=10), codec=1)
    found = read(down_convert(plain + packed, 1, 7).data)[1]
    assert [r.offset for r in found] == list(range(7, 20))
    # A compressed batch goes whole: the reader skips what it did not ask for, as it always did.
    assert [r.offset for r in read(down_convert(plain + packed, 1, 15).data)[1]] == list(range(10, 20))


def test_down_keeps_what_is_old_enough_and_drops_markers_and_tails() -> None:
    data = KAFKA[0, 1, 0] + KAFKA[1, 0, 0] + kafka_commit_marker() + KAFKA[2, 0, 0]
    assert down_convert(data[:-1], 1, 0)[:2] == (KAFKA[0, 1, 0] + KAFKA[1, 0, 0], 0)
    lowest, converted, _ = down_convert(data, 0, 0)
    assert read(lowest)[0] == [0] * 7
    assert converted == 6
    marker = kafka_commit_marker()
    behind = next(iter_headers(marker))[1].next_offset
    assert down_convert(marker, 1, 0) == down_convert(marker + KAFKA[2, 0, 0][:-1], 1, 0) == (b"", 0, behind)
    assert down_convert(marker[:-1], 1, 0) == (b"", 0, -1)


# trap: kafkalite/record/convert.py: zstd batches cannot be down-converted.
def test_zstd_cannot_go_down() -> None:
    with pytest.raises(ApiError) as caught:
        down_convert(KAFKA[2, 4, 0], 1, 0)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    # What comes before it is delivered first.
    assert down_convert(KAFKA[2, 0, 0] + KAFKA[2, 4, 0], 1, 0) == down_convert(KAFKA[2, 0, 0], 1, 0)
