"""A log's aborted transactions and producers are compared with its batches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalite.log.log import Log
from kafkalite.log.producer_entry import BatchMetadata
from kafkalite.testing.simulation.loaded_log import check_cut_log, check_loaded_log
from tests.log.cleaner_fixtures import clean
from tests.log.fixtures import NOW, LogFixture, batch, fill, marker


def test_aborted_transactions_are_those_of_the_batches(tmp_path: Path) -> None:
    log = LogFixture(str(tmp_path)).create()
    fill(log, [batch(2, pid=5, sequence=0, transactional=True), batch(1, pid=6, sequence=0, transactional=True)])
    for pid, commit in ((5, False), (6, True)):
        log.append_as_leader(marker(pid, commit=commit), 0, 0, from_client=False)
    assert check_loaded_log(log) == []
    index = log.segments.active.txn_index
    assert index is not None
    index.reset()
    assert check_loaded_log(log) == [
        f"{log.dir}: aborted transactions (producer, first, last) are [], the batches say [(5, 0, 3)]"
    ]


def compacted_and_cut(tmp_path: Path) -> Log:
    """Offset 2, the last batch of producer 1 and epoch 0, was compacted; that of epoch 1, above the bound, is lost."""
    fixture = LogFixture(str(tmp_path), cleanup_policy=("compact",))
    log = fixture.create()
    fill(
        log,
        [
            batch(2, pid=1, sequence=0),
            batch(1, pid=1, sequence=2),
            batch(1, pid=2, sequence=0),
        ],
    )
    log.roll()
    fill(log, [batch(1, pid=2, sequence=1)])
    whole = log.segments.active.size
    fill(log, [batch(1, pid=1, epoch=1, sequence=0)])
    assert clean(log) == 4
    path = log.segments.active.path
    log.close()
    os.truncate(path, whole)
    loaded = fixture.load(recovery_point=4)
    assert [header.base_offset for segment in loaded.segments for _, header in segment.headers()] == [0, 3, 4]
    return loaded


def test_a_snapshot_may_tell_of_a_batch_that_was_compacted_away(tmp_path: Path) -> None:
    log = compacted_and_cut(tmp_path)
    assert log.producer_state.entries[1].last_sequence == 2
    assert check_loaded_log(log) == []
    repeated = log.append_as_leader(batch(1, pid=1, sequence=2), 0, NOW)
    assert (repeated.first_offset, log.log_end_offset) == (2, 5), "a duplicate of the compacted batch is recognised"
    assert log.append_as_leader(batch(1, pid=1, sequence=3), 0, NOW).first_offset == 5


def test_open_transaction_may_begin_with_a_batch_that_was_compacted_away(tmp_path: Path) -> None:
    """The transaction's marker was in the log at its compaction, and was lost later."""
    fixture = LogFixture(str(tmp_path), cleanup_policy=("compact",))
    log = fixture.create()
    # The same key in all batches: only the last one of each producer below the bound stays.
    fill(log, [batch(1, pid=1, sequence=n, transactional=True) for n in range(2)])
    fill(log, [batch(1, pid=2, sequence=0)])
    log.roll()
    fill(log, [batch(1, pid=2, sequence=1)])
    whole = log.segments.active.size
    log.append_as_leader(marker(1, commit=True), 0, NOW, from_client=False)
    log.update_high_watermark(log.log_end_offset)
    assert clean(log) == 3
    path = log.segments.active.path
    log.close()
    os.truncate(path, whole)
    loaded = fixture.load(recovery_point=3)
    assert [header.base_offset for segment in loaded.segments for _, header in segment.headers()] == [1, 2, 3]
    assert loaded.producer_state.entries[1].current_txn_first_offset == 0
    assert check_loaded_log(loaded) == []
    loaded.producer_state.entries[1].current_txn_first_offset = 2
    assert check_loaded_log(loaded) == [
        f"{loaded.dir}: producer 1 has (epoch, sequence, transaction) (0, 1, 2), its batches say (0, 1, 1)"
    ]


def test_open_transaction_may_have_been_compacted_away_as_a_whole(tmp_path: Path) -> None:
    """A marker of a later epoch was in the log at its compaction, which therefore kept no batch; then it was lost."""
    fixture = LogFixture(str(tmp_path), cleanup_policy=("compact",))
    log = fixture.create()
    fill(log, [batch(1, pid=2, sequence=0), batch(2, pid=1, sequence=0)])
    first, last = (batch(1, pid=1, sequence=n, transactional=True) for n in (2, 3))
    fill(log, [first, batch(1, pid=3, sequence=0), last])
    fill(log, [batch(1, pid=2, sequence=1)])
    log.roll()
    fill(log, [batch(1, pid=2, sequence=2)])
    whole = log.segments.active.size
    log.append_as_leader(marker(1, commit=False, epoch=1), 0, NOW, from_client=False)
    log.update_high_watermark(log.log_end_offset)
    assert clean(log) == 7
    path = log.segments.active.path
    log.close()
    os.truncate(path, whole)
    loaded = fixture.load(recovery_point=7)
    headers = [header for segment in loaded.segments for _, header in segment.headers()]
    assert [(header.producer_id, header.base_offset) for header in headers] == [(1, 1), (3, 4), (2, 6), (2, 7)]
    entry = loaded.producer_state.entries[1]
    assert (entry.last_sequence, entry.current_txn_first_offset) == (3, 3)
    assert check_loaded_log(loaded) == []
    # Compacted before the transaction, in a batch of this or of another producer, at the end of the log.
    for began in (0, 1, 4, 6, 8):
        entry.current_txn_first_offset = began
        assert check_loaded_log(loaded) == [
            f"{loaded.dir}: producer 1 has (epoch, sequence, transaction) (0, 3, {began}), its batches say (0, 1, -1)"
        ]
    # The same epoch's marker ends the transaction, and an entry that has it open is wrong.
    loaded.append_as_leader(marker(1, commit=True), 0, NOW, from_client=False)
    assert check_loaded_log(loaded) == []
    loaded.producer_state.entries[1].current_txn_first_offset = 3
    assert check_loaded_log(loaded) == [
        f"{loaded.dir}: producer 1 has (epoch, sequence, transaction) (0, 3, 3), its batches say (0, 1, -1)"
    ]


@pytest.mark.parametrize(
    ("offset", "sequence"),
    [
        pytest.param(2, 0, id="older than its batches"),
        pytest.param(3, 2, id="at the batch of another producer"),
        pytest.param(5, 2, id="at the end of the log"),
    ],
)
def test_a_producer_that_no_compacted_batch_explains(tmp_path: Path, offset: int, sequence: int) -> None:
    log = compacted_and_cut(tmp_path)
    log.producer_state.entries[1].batches[:] = [BatchMetadata(sequence, offset, 0, NOW)]
    assert check_loaded_log(log) == [
        f"{log.dir}: producer 1 has (epoch, sequence, transaction) (0, {sequence}, -1), its batches say (0, 1, -1)"
    ]


def test_indexes_point_at_batches(tmp_path: Path) -> None:
    log = LogFixture(str(tmp_path), index_interval_bytes=0).create()
    fill(log, [batch(2), batch(2), batch(2)])
    assert check_loaded_log(log) == []
    segment = log.segments.active
    position = segment.index.entry(1)[1]
    segment.index.append(9, position)
    segment.time_index.maybe_append(NOW + 1, 9)
    assert check_loaded_log(log) == [
        f"{log.dir}: segment 0: its index has (9, {position}), where no batch ends with that offset",
        f"{log.dir}: segment 0 ends at 5, its time index has {NOW + 1} at 9",
    ]


def test_bytes_after_the_last_batch_are_reported(tmp_path: Path) -> None:
    log = LogFixture(str(tmp_path)).create()
    fill(log, [batch(2)])
    size = log.segments.active.size
    os.truncate(log.segments.active.path, size + 7)
    assert check_loaded_log(log) == [f"{log.dir}: segment 0 has {size} bytes, its file {size + 7}"]


def test_a_cut_log_knows_no_epoch_that_was_cut(tmp_path: Path) -> None:
    log = LogFixture(str(tmp_path)).create()
    fill(log, [batch(2), batch(2)])
    log.assign_epoch_start(4, 4)
    assert check_loaded_log(log) == [], "a leader may have appended nothing yet"
    log.truncate_to(2)
    assert check_cut_log(log) == []
    log.epochs.assign(4, 2)
    assert check_cut_log(log) == [f"{log.dir}: was cut to 2, and its leader epochs still have [(4, 2)]"]
