"""What a restart finds after a crash: whole batches, all of them, and nothing else."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.record.batch import iter_headers

from .fixtures import NOW, LogFixture, batch, fill, marker, read_all

LOG = "00000000000000000000.log"


@pytest.fixture
def fixture(tmp_path: Path) -> LogFixture:
    return LogFixture(str(tmp_path))


def test_torn_at_every_byte_of_the_last_batch(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(2, pid=9, sequence=2 * n) for n in range(4)])
    kept = log.segments.active.size
    log.append_as_leader(batch(3, pid=9, sequence=8), 0, NOW)
    data = Path(fixture.path, LOG).read_bytes()
    for size in range(kept, len(data) + 1):
        shutil.rmtree(fixture.path)
        os.mkdir(fixture.path)
        Path(fixture.path, LOG).write_bytes(data[:size])
        again = fixture.load()
        whole = size == len(data)
        assert again.log_end_offset == (11 if whole else 8), size
        assert Path(fixture.path, LOG).read_bytes() == (data if whole else data[:kept])
        assert again.producer_state.entries[9].last_sequence == (10 if whole else 7)
        assert again.epochs.entries == [(0, 0)]


def test_flipped_byte_cuts_there_and_drops_later_segments(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=300)
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(12)])
    base = log.segments[2].base_offset
    path = Path(fixture.path, f"{base:020d}.log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    again = fixture.load(recovery_point=base)
    assert base < again.log_end_offset < 12
    assert again.segments[-1].base_offset == base
    assert [h.base_offset for _, h in iter_headers(read_all(again))] == list(range(again.log_end_offset))


def test_recovery_point_spares_what_was_flushed(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=300)
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(12)])
    last = log.segments[-1].base_offset
    path = Path(fixture.path, LOG)
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    assert fixture.load(recovery_point=last).log_end_offset == 12


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd"])
def test_damaged_indexes_are_rebuilt(fixture: LogFixture, suffix: str, damage: str) -> None:
    fixture.config = type(fixture.config)(index_interval_bytes=100)
    log = fixture.create()
    fill(log, [batch(1, timestamp=NOW + n) for n in range(50)])
    log.close()
    path = Path(fixture.path, LOG).with_suffix(suffix)
    good = path.read_bytes()
    assert len(good) > 100
    path.unlink() if damage == "missing" else path.write_bytes(good + b"x")
    again = fixture.load(clean=True, recovery_point=50)
    assert path.read_bytes() == good and again.log_end_offset == 50


def test_left_overs(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(3)])
    log.close()
    folder = Path(fixture.path)
    for name in ("00000000000000000000.log.deleted", "00000000000000000007.log.cleaned", "00000000000000000099.index"):
        (folder / name).write_bytes(b"")
    (folder / "00000000000000000007.log.swap").write_bytes(b"")
    assert fixture.load(clean=True, recovery_point=3).log_end_offset == 3
    assert [n for n in fixture.names() if n.endswith((".deleted", ".cleaned", ".swap")) or "99" in n] == []


def test_swap_replaces_what_it_covers(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=300)
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(8)])
    log.close()
    bases = log.segments.bases
    compacted = bytes(batch(1, base=bases[1] - 1, size=5))
    Path(fixture.path, LOG + ".swap").write_bytes(compacted)
    again = fixture.load(clean=True, recovery_point=8)
    assert again.segments.bases == bases
    assert Path(fixture.path, LOG).read_bytes() == compacted


def test_log_start_beyond_the_end(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(3)])
    log.close()
    again = fixture.load(clean=True, start=10)
    assert (again.log_start_offset, again.log_end_offset) == (10, 10)


def test_clean_shutdown_needs_no_look(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(3, pid=1, sequence=0)])
    log.close()
    fixture.fs.synced.clear()
    again = fixture.load(clean=True, recovery_point=3)
    assert again.log_end_offset == again.recovery_point == 3
    assert again.producer_state.entries[1].last_sequence == 2


def test_torn_tail_in_spite_of_a_clean_mark(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(3)])
    log.close()
    with Path(fixture.path, LOG).open("ab") as file:
        file.write(bytes(batch(1))[:40])
    again = fixture.load(clean=True, recovery_point=3)
    assert again.log_end_offset == 3
    assert again.append_as_leader(batch(1), 0, NOW).first_offset == 3
    assert len(list(iter_headers(read_all(again)))) == 2


def test_lost_or_wrong_epoch_file(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(3)], leader_epoch=2)
    fill(log, [batch(3)], leader_epoch=5)
    log.close()
    Path(fixture.path, "leader-epoch-checkpoint").write_text("0\n9\n")
    again = fixture.load(clean=True, recovery_point=6)
    assert again.epochs.entries == [(2, 0), (5, 3)]


def test_a_damaged_transaction_index_is_rebuilt(fixture: LogFixture) -> None:
    log = fixture.create()
    log.append_as_leader(batch(2, pid=3, sequence=0, transactional=True), 0, NOW)
    log.append_as_leader(marker(3, commit=False), 0, NOW, from_client=False)
    aborted = log.aborted_transactions(0, 10)
    assert len(aborted) == 1
    log.close()
    for name in fixture.names(".txnindex") + fixture.names(".snapshot"):
        os.remove(f"{fixture.path}/{name}")
    assert fixture.load().aborted_transactions(0, 10) == aborted


def entries_of(path: Path) -> list[tuple[int, int]]:
    """An offset index."""
    return list(struct.iter_unpack(">ii", path.read_bytes()))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _: [(n * 7, n * 100_000_000) for n in range(20)], id="beyond the end"),
        pytest.param(lambda good: [*good[:-1], (good[-1][0], -5)], id="a position below nothing"),
        pytest.param(lambda good: [*good[:-1], (good[-1][0], good[-1][1] + 3)], id="no batch begins there"),
        pytest.param(lambda good: [*good[:-1], (good[0][0], good[-1][1])], id="another batch begins there"),
        pytest.param(lambda good: [good[0], (good[1][0], good[1][1] + 1), *good[2:]], id="wrong in the middle"),
    ],
)
def test_a_wrong_index_of_a_log_that_was_closed_in_order(fixture: LogFixture, spoil: Callable[..., Any]) -> None:
    """The load finds a wrong end, a use any other defect; then the index is rebuilt, and every record is found."""
    fixture.config = type(fixture.config)(segment_bytes=20_000, index_interval_bytes=400)
    log = fixture.create()
    fill(log, [batch(1, size=200) for _ in range(300)])
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 3
    log.close()
    index = Path(fixture.path, f"{bases[1]:020d}.index")
    good = entries_of(index)
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in spoil(good)))
    again = fixture.load(clean=True)
    for offset in range(bases[1], bases[2]):
        found = again.read(offset, 1, again.log_end_offset, True)
        assert found.records is not None
        assert again.segments[1].find(offset) is not None
        assert again.segments[1].find(offset)[2] == offset  # type: ignore[index]
    wrong = [entry for entry in entries_of(index) if entry[0] and not is_batch(fixture, bases[1], entry)]
    assert wrong == []


def is_batch(fixture: LogFixture, base: int, entry: tuple[int, int]) -> bool:
    """Whether the batch that an index entry speaks of is there."""
    data = Path(fixture.path, f"{base:020d}.log").read_bytes()
    return any(position == entry[1] and h.last_offset == base + entry[0] for position, h in iter_headers(data))
