"""A lab reads the files of a broker that goes on with its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.learn.partition_files import PartitionFiles
from kafkalite.record.records import encode_batch
from tests.record.samples import records


def test_a_segment_that_goes_before_it_is_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / f"{0:020}.log", tmp_path / f"{3:020}.log"
    for path, offset in ((old, 0), (new, 3)):
        path.write_bytes(encode_batch(records(3, offset=offset)))
    read = Path.read_bytes

    def deleted(path: Path) -> bytes:
        # Retention takes the file away between the listing of the folder and the reading.
        old.unlink(missing_ok=True)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", deleted)
    files = PartitionFiles(tmp_path)
    assert [record.offset for record in files.records()] == [3, 4, 5]
    assert files.end_offset() == 6
