"""Stored records for old consumers: conversion reads on past batches without records, and names corrupt ones."""

from __future__ import annotations

import pytest

from kafkalite.apis.fetch_conversion import down_converted
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record, encode_batch


def batch_at(offset: int, *, is_control: bool = False, value: bytes = b"v") -> bytes:
    key = b"\0\0\0\1" if is_control else b"k"
    return encode_batch([Record(offset, 1000, key, value, (), -1)], base_offset=offset, is_control=is_control)


def nothing(offset: int) -> None:
    """No records from ``offset`` on."""


# trap: kafkalite/apis/fetch_conversion.py: Batches without records convert to nothing, and an old client asks again.
@pytest.mark.parametrize("version", range(4))
def test_conversion_reads_on_past_batches_without_records(version: int) -> None:
    markers = batch_at(5, is_control=True) + batch_at(6, is_control=True)
    log = {7: batch_at(7, is_control=True) + batch_at(8, is_control=True)[:-1], 8: batch_at(8), 9: batch_at(9)}
    data, cost = down_converted(version, markers, 5, log.get, lambda: 0.0)
    assert data == encode_message_set([Record(8, 1000, b"k", b"v", (), -1)], int(version > 1))
    assert cost == (1, len(markers) + len(log[7]) + len(log[8]) + len(data), 0.0)
    del log[8]
    assert down_converted(version, markers, 5, log.get, lambda: 0.0)[0] == b""


@pytest.mark.parametrize("version", range(4))
def test_conversion_reads_on_from_a_part_of_a_batch(version: int) -> None:
    large = batch_at(5, value=bytes(1000))
    data, _ = down_converted(version, large[:100], 5, {5: large}.get, lambda: 0.0)
    assert data == encode_message_set([Record(5, 1000, b"k", bytes(1000), (), -1)], int(version > 1))
    assert down_converted(version, large[:100], 5, {5: large[:100]}.get, lambda: 0.0)[0] == b""


@pytest.mark.parametrize("version", range(4))
def test_what_lies_about_its_records_is_corrupt(version: int) -> None:
    batch = bytearray(encode_batch([Record(0, 1000, b"k", b"v", (), -1)]))
    times = iter((10.0, 10.25))
    data, cost = down_converted(version, batch, 0, nothing, lambda: next(times))
    assert cost == (1, len(batch) + len(data), 0.25)
    batch[61] = 0x7F  # the length of the first record
    with pytest.raises(ApiError) as refused:
        down_converted(version, batch, 0, nothing, lambda: 0.0)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
