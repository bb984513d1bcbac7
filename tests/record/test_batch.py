"""Headers of every magic: read, iterated, checked."""

from __future__ import annotations

import struct

import pytest

from kafkalite.record.batch import (
    BatchHeader,
    CorruptRecordError,
    check_crc,
    iter_headers,
    read_any_header,
    read_header,
)
from kafkalite.record.records import encode_batch

from .samples import APPEND_TIME, KAFKA_TIMES, kafka_bytes, kafka_commit_marker, records

KAFKA = kafka_bytes()


def test_header_of_kafkas_batch() -> None:
    data = KAFKA[2, 0, 0]
    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.next_offset, header.size) == (100, 103, 104, len(data))
    assert (header.leader_epoch, header.magic, header.compression, header.timestamp_type) == (5, 2, 0, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        7,
        3,
        2**31 - 2,
        1,
    )
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (KAFKA_TIMES[0], KAFKA_TIMES[1], 3)
    assert header.has_producer_id and not header.is_transactional and not header.is_control
    assert header.delete_horizon_ms is None


def test_control_batch_and_delete_horizon() -> None:
    header = read_header(kafka_commit_marker())
    assert header.is_control and header.is_transactional and header.base_offset == 42 and header.last_sequence == -1
    assert read_header(encode_batch(records(2), delete_horizon_ms=77)).delete_horizon_ms == 77


@pytest.mark.parametrize("kind", sorted(KAFKA))
def test_kafkas_bytes_pass_and_any_flipped_byte_under_the_crc_does_not(kind: tuple[int, int, int]) -> None:
    data = KAFKA[kind]
    seen = list(iter_headers(data))
    assert sum(header.size for _, header in seen) == len(data)
    assert all(check_crc(data, pos, header) for pos, header in seen)
    for at in range(seen[0][1].size):
        flipped = bytearray(data)
        flipped[at] ^= 0x01
        try:
            header = read_any_header(flipped)
        except CorruptRecordError:
            continue
        # Offset and leader epoch (magic 2: 12..15) lie outside of what the CRC covers, as does the length.
        outside = at < 8 or (kind[0] == 2 and 12 <= at < 16)
        assert check_crc(flipped, 0, header) == outside or 8 <= at < 12


@pytest.mark.parametrize(("magic", "offsets"), [(0, [100, 101, 103]), (1, [100, 101, 103]), (2, [100])])
def test_old_messages_show_as_batches_of_one(magic: int, offsets: list[int]) -> None:
    headers = [header for _, header in iter_headers(KAFKA[magic, 0, 0])]
    assert [header.base_offset for header in headers] == offsets
    if magic < 2:
        assert all(
            (h.record_count, h.last_offset_delta, h.producer_id, h.leader_epoch) == (1, 0, -1, -1) for h in headers
        )
        assert [h.max_timestamp for h in headers] == ([-1] * 3 if magic == 0 else list(KAFKA_TIMES))


def test_wrapper_shows_the_offset_and_time_of_its_last_message() -> None:
    [(_, header)] = iter_headers(KAFKA[1, 1, 1])
    assert (header.next_offset, header.compression, header.timestamp_type) == (104, 1, 1)
    assert header.max_timestamp == APPEND_TIME


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_every_cut_of_a_buffer(magic: int) -> None:
    data = KAFKA[magic, 0, 0] + KAFKA[magic, 3, 0]
    ends = [pos + header.size for pos, header in iter_headers(data)]
    for cut in range(len(data)):
        whole = [end for end in ends if end <= cut]
        assert len(list(iter_headers(data[:cut], allow_partial_tail=True))) == len(whole)
        if cut not in (0, *ends):
            with pytest.raises(CorruptRecordError):
                list(iter_headers(data[:cut]))


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">qi", 0, -1) + bytes(80),
        struct.pack(">qi", 0, 13) + bytes(80),
        struct.pack(">qiib", 0, 40, 0, 3) + bytes(80),
        struct.pack(">qiib", 0, 40, 0, -1) + bytes(80),
        struct.pack(">qiib", 0, 48, 0, 2) + bytes(80),  # a byte below a header
        struct.pack(">qiib", 0, 21, 0, 1) + bytes(80),
    ],
)
def test_senseless_headers_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        list(iter_headers(data, allow_partial_tail=True))


def test_an_unknown_magic_is_refused_even_in_a_partial_tail() -> None:
    tail = struct.pack(">qiib", 0, 4000, 0, 5) + bytes(30)
    with pytest.raises(CorruptRecordError, match="magic 5"):
        list(iter_headers(KAFKA[2, 0, 0] + tail, allow_partial_tail=True))
    assert len(list(iter_headers(KAFKA[2, 0, 0] + tail[:16], allow_partial_tail=True))) == 1


def test_read_header_refuses_other_magics_and_short_buffers() -> None:
    for data in (KAFKA[1, 0, 0], KAFKA[2, 0, 0][:60], b""):
        with pytest.raises(CorruptRecordError):
            read_header(data)


def test_properties_of_attributes() -> None:
    header = BatchHeader(0, 49, 0, 2, 0, 0x3C, 0, 0, 0, -1, -1, -1, 1)
    assert (header.compression, header.timestamp_type) == (4, 1)
    assert header.is_transactional and header.is_control
    assert "base_offset=0" in repr(header)
