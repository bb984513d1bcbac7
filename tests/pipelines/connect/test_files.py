"""Lines of files as record batches, and the reader's offsets."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kafkalite.pipelines.connect.files import FileOptions, FilesStreamReader, lines


def rows(batch: Any) -> list[tuple[bytes, int]]:
    return list(zip(batch["value"].to_pylist(), batch["position"].to_pylist(), strict=True))


def test_lines() -> None:
    data = b"one\r\n\ntwo\n\r\n\rthree\r\r\n"
    assert rows(lines(data, 100, "f")) == [(b"one", 100), (b"", 105), (b"two", 106), (b"", 110), (b"\rthree\r", 112)]
    assert rows(lines(data, 100, "f", skip=2)) == rows(lines(data, 100, "f"))[2:]


def test_lines_of_any_shape() -> None:
    """Against Python's own splitting; every line with the position of its first byte."""
    rng = random.Random(3)
    for _ in range(200):
        data = bytes(rng.choice(b"ab\r\n") for _ in range(rng.randrange(1, 40))) + b"\n"
        expected, position = [], 0
        for line in data[:-1].split(b"\n"):
            expected.append((line.removesuffix(b"\r"), position))
            position += len(line) + 1
        assert rows(lines(data, 0, "f")) == expected


class Reader:
    """Micro-batches over the files of a folder, as Spark makes them."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.reader = FilesStreamReader(FileOptions.parse({"path": f"{folder}/*.log", **options}))
        self.offset = self.reader.initialOffset()

    def batch(self, *, all_of_it: bool = False) -> list[bytes]:
        """The lines of the next one; none where nothing has come."""
        limit = ReadAllAvailable() if all_of_it else self.reader.getDefaultReadLimit()
        end = self.reader.latestOffset(self.offset, limit)
        found = []
        if end != self.offset:
            for partition in self.reader.partitions(self.offset, end):
                for batch in self.reader.read(partition):
                    found += batch["value"].to_pylist()
        self.offset = end
        return found


def test_micro_batches_are_bounded(tmp_path: Path) -> None:
    """By whole lines, one at least; what is not yet a line waits."""
    (tmp_path / "a.log").write_bytes(b"1234\n5678\n" + b"x" * 50 + b"\nend")
    reader = Reader(tmp_path, maxBytesPerTrigger="12")
    assert [reader.batch() for _ in range(3)] == [[b"1234", b"5678"], [b"x" * 50], []]
    latest = reader.reader.reportLatestOffset()
    assert latest is not None
    assert [entry["position"] for entry in latest.values()] == [(tmp_path / "a.log").stat().st_size]
    with (tmp_path / "a.log").open("ab") as file:
        file.write(b"!\n")
    assert reader.batch() == [b"end!"]
    assert reader.batch() == []


# trap: kafkalite/pipelines/connect/files.py: A single run is prepared before its checkpoint is known: the files renamed
# since are looked for later.
def test_available_now_ends(tmp_path: Path) -> None:
    """What comes after the first look belongs to the next run, as does the tail of a file renamed since the last
    one."""
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    reader = Reader(tmp_path)
    assert reader.batch() == [b"1"]
    with log.open("ab") as file:
        file.write(b"2\n3\n")
    log.rename(tmp_path / "a.log.1")
    again = Reader(tmp_path, maxBytesPerTrigger="2")
    again.offset = reader.offset
    again.reader.prepareForTriggerAvailableNow()
    assert again.batch() == [b"2"]
    with (tmp_path / "a.log.1").open("ab") as file:
        file.write(b"4\n")
    log.write_bytes(b"5\n")
    assert [again.batch() for _ in range(2)] == [[b"3"], []]


@pytest.mark.parametrize(("header", "expected"), [("true", [b"1"]), ("false", [b"name", b"1"])])
def test_headers(tmp_path: Path, header: str, expected: list[bytes]) -> None:
    (tmp_path / "a.log").write_bytes(b"name\n1\n")
    reader = Reader(tmp_path, header=header)
    assert reader.batch(all_of_it=True) == expected


def test_a_path_is_needed() -> None:
    with pytest.raises(ValueError, match="'path' is missing"):
        FileOptions.parse({})
