"""The change that the lab makes in a broker's file is one that no checksum shows."""

from __future__ import annotations

from pathlib import Path

from kafkalite.learn.labs.which_broker_lied.lab import falsify
from kafkalite.learn.partition_files import PartitionFiles
from kafkalite.record.batch import check_crc, iter_headers
from kafkalite.record.records import Record, encode_batch


def test_the_changed_batch_has_another_value_and_a_valid_checksum(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    values = (b"ann 100", b"bob 250", b"cid 75")
    segment.write_bytes(b"".join(encode_batch([Record(at, 0, None, value)]) for at, value in enumerate(values)))
    before = segment.read_bytes()
    falsify(segment, b"bob 250", b"bob 950")
    data = segment.read_bytes()
    assert [record.value for record in PartitionFiles(tmp_path).records()] == [b"ann 100", b"bob 950", b"cid 75"]
    assert all(check_crc(data, position, header) for position, header in iter_headers(data))
    # Four bytes of the CRC and one of the value.
    assert sum(old != new for old, new in zip(before, data, strict=True)) <= 5
