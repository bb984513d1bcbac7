"""Stored records for old consumers: what cannot be walked is said to be corrupt."""

from __future__ import annotations

import pytest

from kafkalite.apis.fetch_conversion import down_converted
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.record.records import Record, encode_batch


@pytest.mark.parametrize("version", range(4))
def test_what_lies_about_its_records_is_corrupt(version: int) -> None:
    batch = bytearray(encode_batch([Record(0, 1000, b"k", b"v", (), -1)]))
    times = iter((10.0, 10.25))
    data, cost = down_converted(version, batch, 0, lambda: next(times))
    assert cost == (1, len(batch) + len(data), 0.25)
    batch[61] = 0x7F  # the length of the first record
    with pytest.raises(ApiError) as refused:
        down_converted(version, batch, 0, lambda: 0.0)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
