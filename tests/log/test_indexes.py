"""Offset index and time index against a plain list; the transaction index is tested with its log."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalite.log.file_system import FilePool
from kafkalite.log.indexes import OffsetIndex, TimeIndex
from kafkalite.log.partition_folder import Folder

from .fixtures import FULL, FaultyFileSystem

BASE = 1000


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path), FaultyFileSystem(), FilePool(4))


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 2000])
@pytest.mark.parametrize("written", [False, True])
def test_offset_lookup(folder: Folder, count: int, written: bool) -> None:
    rng = random.Random(count)
    index = OffsetIndex(folder, BASE, 1 << 20)
    entries, offset, position = [], BASE, 0
    for _ in range(count):
        offset += rng.randrange(1, 5)
        position += rng.randrange(1, 100)
        index.append(offset, position)
        entries.append((offset, position))
    if written:
        index.write_out()
        index = OffsetIndex(folder, BASE, 1 << 20, exists=True)
        assert index.sane()
    assert len(index) == count
    for target in {BASE, offset, offset + 1, *(rng.randrange(BASE, offset + 5) for _ in range(200))}:
        wanted = [at for known, at in entries if known <= target]
        assert index.lookup(target) == (wanted[-1] if wanted else 0)
    for cut in (offset + 1, (BASE + offset) // 2, BASE):
        index.truncate_to(cut)
        entries = [entry for entry in entries if entry[0] < cut]
        assert [index.entry(n) for n in range(len(index))] == entries
    index.append(offset + 7, 5)
    assert index.lookup(offset + 7) == 5


def test_offset_index_bytes(folder: Folder) -> None:
    index = OffsetIndex(folder, BASE, 1 << 20)
    index.append(BASE + 3, 4100)
    index.append(BASE + 3, 9999)
    index.write_out()
    assert Path(folder.path, f"{BASE:020d}.index").read_bytes().hex() == "0000000300001004"


def test_full(folder: Folder) -> None:
    index = OffsetIndex(folder, BASE, 17)
    index.append(BASE + 1, 1)
    states = [index.is_full]
    index.append(BASE + 2, 2)
    assert [*states, index.is_full] == [False, True]
    index.append(BASE + 3, 3)
    assert len(index) == 2
    times = TimeIndex(folder, BASE, 36)
    for n in range(5):
        times.maybe_append(n, BASE + n)
    assert len(times) == 2 and times.is_full
    times.maybe_append(9, BASE + 9, closing=True)
    assert times.last() == (9, BASE + 9)


def test_time_index(folder: Folder) -> None:
    index = TimeIndex(folder, BASE, 1 << 20)
    for timestamp, offset in [(10, 1000), (20, 1005), (20, 1006), (15, 1007), (30, 1010)]:
        index.maybe_append(timestamp, offset)
    index.write_out()
    assert Path(folder.path, f"{BASE:020d}.timeindex").stat().st_size == 36
    again = TimeIndex(folder, BASE, 1 << 20, exists=True)
    assert again.sane() and again.last() == (30, 1010)
    assert [again.lookup(t) for t in (5, 10, 19, 20, 99)] == [1000, 1000, 1000, 1005, 1010]
    again.truncate_to(1005)
    assert len(again) == 1 and again.last() == (10, 1000)


def test_full_disk_keeps_entries_in_memory(folder: Folder) -> None:
    index = OffsetIndex(folder, BASE, 1 << 20)
    fs = folder.fs
    assert isinstance(fs, FaultyFileSystem)
    fs.fail = {"pwrite": FULL}
    for n in range(300):
        index.append(BASE + n, n)
    fs.fail = {}
    assert index.lookup(BASE + 299) == 299
    index.write_out()
    assert OffsetIndex(folder, BASE, 1 << 20, exists=True).lookup(BASE + 150) == 150


@pytest.mark.parametrize("size", [1, 7, 9])
def test_odd_size_is_not_sane(folder: Folder, size: int) -> None:
    Path(folder.path, f"{BASE:020d}.index").write_bytes(bytes(size))
    assert not OffsetIndex(folder, BASE, 1 << 20, exists=True).sane()
