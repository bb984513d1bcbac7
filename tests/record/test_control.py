"""Markers, byte by byte as Kafka 3.9.1 writes them."""

from __future__ import annotations

import pytest

from kafkalite.log.producer_state import read_marker
from kafkalite.record.batch import check_crc, iter_headers
from kafkalite.record.records import encode_marker, iter_records


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_read_back(commit: bool) -> None:
    data = encode_marker(1234, 7, commit=commit, coordinator_epoch=42, timestamp_ms=1_700_000_000_000)
    ((position, header),) = iter_headers(data)
    assert check_crc(data, position, header)
    assert header.is_control and header.is_transactional and header.compression == 0
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1234, 7, -1)
    assert (header.record_count, header.last_offset_delta) == (1, 0)
    assert header.base_timestamp == header.max_timestamp == 1_700_000_000_000
    (record,) = iter_records(data, header, position)
    assert record.key == (b"\0\0\0\x01" if commit else b"\0\0\0\0")
    assert record.value == b"\0\0\0\0\0\x2a" and not record.headers
    assert read_marker(data, position, header) == (commit, 42)
