"""Copies of logs in other directories: what they take over, what they lose with their log, and crashes on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode, StartupError
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_manager import LogManager
from kafkalite.log.values import AbortedTxn
from tests.support import run

from .fixtures import FULL, NOW, batch, marker, read_all
from .test_log_manager import ID, LogManagerFixture, kill, tp

PIECE = 1 << 20
SMALL = LogConfig(segment_bytes=1000)


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def fixture(tmp_path: Path) -> LogManagerFixture:
    return LogManagerFixture(tmp_path, dirs=3)


@pytest.fixture
def manager(fixture: LogManagerFixture) -> Iterator[LogManager]:
    made = fixture.started()
    yield made
    made._release_dirs()


def filled(manager: LogManager, count: int = 10, config: LogConfig = SMALL, number: int = 0) -> Log:
    """A log in the first directory with ``count`` batches of three records, all committed."""
    log = manager.get_or_create(tp(number), ID, True, config)
    for _ in range(count):
        log.append_as_leader(batch(3), log.latest_epoch or 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    return log


def copy_all(manager: LogManager, number: int = 0, piece: int = PIECE) -> None:
    for _ in range(10_000):
        if not run(manager.future_logs.copy(tp(number), piece)):
            return
    raise AssertionError("the copying has no end")


def move(manager: LogManager, log_dir: str, number: int = 0, piece: int = PIECE) -> Log:
    futures = manager.future_logs
    futures.create(tp(number), log_dir)
    copy_all(manager, number, piece)
    assert futures.is_caught_up(tp(number))
    run(futures.make_durable(tp(number)))
    assert futures.is_durable(tp(number))
    return futures.replace_current(tp(number))


def content(log: Log) -> bytes:
    """All batches."""
    return b"".join(segment.read(0, segment.size) for segment in log.segments)


def folders(path: str) -> list[str]:
    return sorted(name.split(".")[0] for name in os.listdir(path) if os.path.isdir(f"{path}/{name}"))


def checkpoint(fixture: LogManagerFixture, number: int, name: str) -> str:
    return Path(fixture.dirs[number], name).read_text()


@pytest.mark.parametrize("piece", [1, 150, PIECE])
def test_a_log_moves_with_all_that_it_has(fixture: LogManagerFixture, manager: LogManager, piece: int) -> None:
    log = filled(manager)
    log.assign_epoch_start(4, 30)
    log.append_as_leader(batch(3, pid=7, epoch=1, sequence=0), 4, NOW)
    log.append_as_leader(batch(2), 4, NOW)
    log.assign_epoch_start(6, log.log_end_offset)
    log.update_high_watermark(33)
    log.increment_log_start_offset(5)
    assert len(log.segments) > 1
    before = read_all(log), log.log_end_offset, log.high_watermark, log.log_start_offset, log.epochs.entries
    producers = log.producer_state.entries[7].last_sequence
    moved = move(manager, fixture.dirs[1], piece=piece)
    assert manager.get(tp(0)) is moved is not log
    assert before == (
        read_all(moved),
        moved.log_end_offset,
        moved.high_watermark,
        moved.log_start_offset,
        moved.epochs.entries,
    )
    assert (moved.topic_id, moved.log_dir, moved.dir) == (ID, fixture.dirs[1], f"{fixture.dirs[1]}/t-0")
    assert moved.producer_state.entries[7].last_sequence == producers
    assert folders(fixture.dirs[0]) == ["t-0"] and folders(fixture.dirs[1]) == ["t-0"]
    assert os.listdir(fixture.dirs[0]) != ["t-0"] and not os.path.exists(f"{fixture.dirs[0]}/t-0")
    moved.append_as_leader(batch(1), 6, NOW)
    assert moved.log_end_offset == 36
    with pytest.raises(ApiError):
        log.append_as_leader(batch(1), 6, NOW)


def test_the_copy_has_a_folder_with_kafkas_name(fixture: LogManagerFixture, manager: LogManager) -> None:
    filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    (name,) = [name for name in os.listdir(fixture.dirs[1]) if os.path.isdir(f"{fixture.dirs[1]}/{name}")]
    head, unique = name.split(".")
    assert head == "t-0" and len(unique) == 32 + len("-future") and unique.endswith("-future")


def test_a_topic_whose_name_is_too_long_for_a_copy(fixture: LogManagerFixture, manager: LogManager) -> None:
    long = TopicPartition("n" * 240, 0)
    manager.get_or_create(long, ID, True)
    with pytest.raises(ApiError) as refused:
        manager.future_logs.create(long, fixture.dirs[1])
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert long not in manager.future_logs.logs


def test_a_clean_restart_keeps_the_moved_log(fixture: LogManagerFixture, manager: LogManager) -> None:
    log = filled(manager)
    log.increment_log_start_offset(5)
    moved = move(manager, fixture.dirs[1])
    expected = read_all(moved)
    run(manager.shutdown())
    again = fixture.started()
    assert again.logs[tp(0)].log_dir == fixture.dirs[1]
    assert (read_all(again.logs[tp(0)]), again.logs[tp(0)].log_start_offset) == (expected, 5)
    assert not os.path.exists(f"{fixture.dirs[1]}/t-0/moved-from")
    assert [name for name in os.listdir(fixture.dirs[0]) if name.startswith("t-0")] == []


def test_checkpoints_follow_the_move(fixture: LogManagerFixture, manager: LogManager) -> None:
    log = filled(manager)
    log.increment_log_start_offset(5)
    move(manager, fixture.dirs[1])
    manager.checkpoint_high_watermarks()
    for name, offset in (
        ("recovery-point-offset-checkpoint", 30),
        ("log-start-offset-checkpoint", 5),
        ("replication-offset-checkpoint", 30),
    ):
        assert checkpoint(fixture, 0, name) == "0\n0\n", name
        assert checkpoint(fixture, 1, name) == f"0\n1\nt 0 {offset}\n", name


def test_a_copy_has_checkpoints_of_its_own(fixture: LogManagerFixture, manager: LogManager) -> None:
    """In the moment in which it takes the log's place they are there already."""
    log = filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    copy_all(manager)
    run(manager.future_logs.make_durable(tp(0)))
    log.increment_log_start_offset(6)
    copy_all(manager)
    log.increment_log_start_offset(12)
    manager._checkpoint_all()
    for name, offsets in (
        ("recovery-point-offset-checkpoint", (24, 30)),
        ("log-start-offset-checkpoint", (12, 6)),
        ("replication-offset-checkpoint", (30, 30)),
    ):
        for number, offset in enumerate(offsets):
            expected = f"0\n1\nt 0 {offset}\n"
            assert checkpoint(fixture, number, name) == expected, (name, number)


def test_records_deleted_in_the_last_moment_stay_deleted(fixture: LogManagerFixture, manager: LogManager) -> None:
    log = filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    copy_all(manager)
    run(manager.future_logs.make_durable(tp(0)))
    log.increment_log_start_offset(24)
    assert manager.future_logs.replace_current(tp(0)).log_start_offset == 24


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_in_the_middle_carries_on(fixture: LogManagerFixture, manager: LogManager, clean: bool) -> None:
    log = filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    run(manager.future_logs.copy(tp(0), 400))
    copied = manager.future_logs.logs[tp(0)].log_end_offset
    assert 0 < copied < 30
    if clean:
        run(manager.shutdown())
    else:
        kill(manager)
    again = fixture.started()
    future = again.future_logs.logs[tp(0)]
    assert (future.log_end_offset, again.logs[tp(0)].log_dir) == (copied, fixture.dirs[0])
    expected = content(again.logs[tp(0)])
    copy_all(again)
    run(again.future_logs.make_durable(tp(0)))
    assert content(again.future_logs.replace_current(tp(0))) == expected
    again._release_dirs()
    assert log.log_end_offset == 30


# trap: kafkalite/log/log_manager.py: A crash between the renames of the two folders of a moved log leaves both.
@pytest.mark.parametrize("fails", [1, 2])
def test_a_crash_between_the_two_renames(
    fixture: LogManagerFixture, manager: LogManager, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """The note says which of the two folders is the log; before the first rename the copy is still a copy."""
    log = filled(manager)
    futures = manager.future_logs
    futures.create(tp(0), fixture.dirs[1])
    copy_all(manager)
    run(futures.make_durable(tp(0)))
    expected = content(log)
    rename, calls = fixture.fs.rename, []

    def crash(source: str, target: str) -> None:
        if "t-0" in os.path.basename(source) and not source.endswith(".tmp"):
            calls.append(source)
            if len(calls) == fails:
                raise Crash
        rename(source, target)

    monkeypatch.setattr(fixture.fs, "rename", crash)
    with pytest.raises(Crash):
        futures.replace_current(tp(0))
    monkeypatch.setattr(fixture.fs, "rename", rename)
    kill(manager)
    again = fixture.started()
    assert content(again.logs[tp(0)]) == expected
    assert again.logs[tp(0)].log_dir == fixture.dirs[fails - 1]
    assert (tp(0) in again.future_logs.logs) == (fails == 1)
    assert not os.path.exists(f"{fixture.dirs[2 - fails]}/t-0")
    # What is left of the crash does not confuse the next start.
    run(again.shutdown())
    last = fixture.started()
    assert last.logs[tp(0)].log_dir == fixture.dirs[fails - 1]
    last._release_dirs()


def test_recovery_points_of_others_survive_a_start_after_such_a_crash(
    fixture: LogManagerFixture, manager: LogManager
) -> None:
    """The left folder goes only once all directories are loaded: its going writes checkpoints of all."""
    filled(manager)
    other = manager.get_or_create(tp(1), ID, True, SMALL)
    assert other.log_dir == fixture.dirs[1]
    third = manager.get_or_create(tp(2), ID, True, SMALL)
    assert third.log_dir == fixture.dirs[2]
    third.append_as_leader(batch(3), 0, NOW)
    third.update_high_watermark(3)
    third.increment_log_start_offset(2)
    futures = manager.future_logs
    futures.create(tp(0), fixture.dirs[1])
    copy_all(manager)
    run(futures.make_durable(tp(0)))
    futures.logs[tp(0)].mark_broken()
    os.rename(futures.logs[tp(0)].dir, f"{fixture.dirs[1]}/t-0")
    manager._checkpoint_all()
    kill(manager)
    again = fixture.started()
    assert again.logs[tp(0)].log_dir == fixture.dirs[1]
    assert (again.logs[tp(2)].log_start_offset, again.logs[tp(2)].high_watermark) == (2, 3)
    again._release_dirs()


def test_the_note_stays_while_the_old_directory_is_offline(fixture: LogManagerFixture, manager: LogManager) -> None:
    filled(manager)
    expected = content(manager.logs[tp(0)])
    fixture.fs.only = "t-0"
    futures = manager.future_logs
    futures.create(tp(0), fixture.dirs[1])
    copy_all(manager)
    run(futures.make_durable(tp(0)))
    os.rename(f"{fixture.dirs[0]}/t-0", f"{fixture.dirs[0]}/elsewhere-0")
    futures.replace_current(tp(0))
    fixture.clock.advance(1)
    assert fixture.lost == [fixture.dirs[0]]
    kill(manager)
    os.rename(f"{fixture.dirs[0]}/elsewhere-0", f"{fixture.dirs[0]}/t-0")
    for _ in range(2):
        fixture.fs.only, fixture.fs.fail = fixture.dirs[0] + "/", {"open": 5, "list_dir": 5}
        os.rename(fixture.dirs[0], fixture.dirs[0] + "-away")
        Path(fixture.dirs[0]).write_text("not a directory")
        half = fixture.started()
        assert half.logs[tp(0)].log_dir == fixture.dirs[1]
        kill(half)
        os.remove(fixture.dirs[0])
        os.rename(fixture.dirs[0] + "-away", fixture.dirs[0])
    fixture.fs.fail = {}
    whole = fixture.started()
    assert (whole.logs[tp(0)].log_dir, content(whole.logs[tp(0)])) == (fixture.dirs[1], expected)
    whole._release_dirs()


def test_two_folders_without_a_note_are_still_refused(fixture: LogManagerFixture, manager: LogManager) -> None:
    filled(manager)
    kill(manager)
    os.mkdir(f"{fixture.dirs[1]}/t-0")
    with pytest.raises(StartupError, match="remove one of them"):
        fixture.started()


# What happens to the log meanwhile


def truncated(log: Log) -> None:
    log.truncate_to(12)


def truncated_and_rewritten(log: Log) -> None:
    log.truncate_to(12)
    log.assign_epoch_start(3, 12)
    for _ in range(10):
        log.append_as_leader(batch(2), 3, NOW + 1)


def emptied(log: Log) -> None:
    log.truncate_fully_and_start_at(100)
    log.append_as_leader(batch(2), 3, NOW)


def emptied_to_below(log: Log) -> None:
    log.truncate_fully_and_start_at(0)
    log.append_as_leader(batch(2), 3, NOW)


def records_deleted(log: Log) -> None:
    log.increment_log_start_offset(24)


def segments_deleted(log: Log) -> None:
    log.increment_log_start_offset(24)
    log.update_config(LogConfig(segment_bytes=1000, file_delete_delay_ms=0))
    assert log.delete_old_segments(NOW)


# trap: kafkalite/log/future_logs.py: A log is truncated while it is copied to another directory, and the copy keeps the
# records that were cut.
@pytest.mark.parametrize(
    "happens",
    [truncated, truncated_and_rewritten, emptied, emptied_to_below, records_deleted, segments_deleted],
)
@pytest.mark.parametrize("copied", [0, 300, PIECE])
def test_what_happens_to_the_log_happens_to_the_copy(
    fixture: LogManagerFixture, manager: LogManager, happens: Callable[[Log], None], copied: int
) -> None:
    log = filled(manager)
    futures = manager.future_logs
    futures.create(tp(0), fixture.dirs[1])
    if copied:
        run(futures.copy(tp(0), copied))
    happens(log)
    log.update_high_watermark(log.log_end_offset)
    copy_all(manager)
    run(futures.make_durable(tp(0)))
    expected = read_all(log), log.log_start_offset, log.log_end_offset, log.epochs.entries
    moved = futures.replace_current(tp(0))
    assert expected == (read_all(moved), moved.log_start_offset, moved.log_end_offset, moved.epochs.entries)


def test_a_copy_that_is_ahead_or_beside_is_not_caught_up(fixture: LogManagerFixture, manager: LogManager) -> None:
    log = filled(manager)
    futures = manager.future_logs
    futures.create(tp(0), fixture.dirs[1])
    copy_all(manager)
    assert futures.is_caught_up(tp(0))
    log.truncate_to(27)
    assert not futures.is_caught_up(tp(0))
    log.assign_epoch_start(3, 27)
    log.append_as_leader(batch(3), 3, NOW)
    assert futures.logs[tp(0)].log_end_offset == log.log_end_offset
    assert not futures.is_caught_up(tp(0))


# trap: kafkalite/log/future_logs.py: A log is truncated while a read of it waits to be written to the copy in another
# directory.
def test_what_was_read_before_a_truncation_is_not_copied(
    fixture: LogManagerFixture, manager: LogManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read from the disk takes its time."""
    log = filled(manager)
    futures = manager.future_logs
    futures.create(tp(0), fixture.dirs[1])
    reading: Future[bytes] = Future()
    monkeypatch.setattr(fixture.fs, "is_cached", lambda *_: False)
    log.roll()
    real = futures._executor
    monkeypatch.setattr(futures, "_executor", Slow(reading))
    step = deferred(futures.copy(tp(0), 150))
    old = content(log)[:150]
    log.truncate_to(0)
    log.assign_epoch_start(3, 0)
    for _ in range(4):
        log.append_as_leader(batch(5), 3, NOW)
    reading.callback(old)
    assert step.called
    monkeypatch.setattr(futures, "_executor", real)
    assert futures.logs[tp(0)].log_end_offset == 0
    copy_all(manager)
    assert read_all(futures.logs[tp(0)]) == read_all(log)


class Slow:
    """An executor whose work takes until the test says so."""

    def __init__(self, result: Future[Any]) -> None:
        self._result = result

    def run(self, *_: Any) -> Future[Any]:
        return self._result


# trap: kafkalite/log/future_logs.py: A log that moves to another directory leaves its leader epochs behind.
def test_epochs_that_compaction_has_left_no_batch_of(fixture: LogManagerFixture, manager: LogManager) -> None:
    log = filled(manager, 3)
    for epoch in (1, 2, 3):
        log.assign_epoch_start(epoch, log.log_end_offset)
        log.append_as_leader(batch(3), epoch, NOW)
        log.roll()
    gone = log.segments[-3]
    assert [header.leader_epoch for _, header in gone.headers()] == [2]
    log.segments.remove(gone)
    gone.remove_files()
    log.append_as_leader(batch(3), 3, NOW)
    expected = read_all(log), log.epochs.entries
    moved = move(manager, fixture.dirs[1], piece=100)
    assert (read_all(moved), moved.epochs.entries) == expected


def test_transactions_are_open_or_aborted_in_the_copy_as_in_the_log(
    fixture: LogManagerFixture, manager: LogManager
) -> None:
    log = filled(manager, 2)
    log.append_as_leader(batch(2, pid=9, sequence=0, transactional=True), 0, NOW)
    log.append_as_leader(marker(9, commit=False), 0, NOW, from_client=False)
    log.append_as_leader(batch(2, pid=8, sequence=0, transactional=True), 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    expected = log.last_stable_offset, log.aborted_transactions(0, 100)
    moved = move(manager, fixture.dirs[1])
    assert (moved.last_stable_offset, moved.aborted_transactions(0, 100)) == expected
    assert expected == (9, [AbortedTxn(9, 6, 8, 9)])


# The copy meanwhile


def test_a_copy_given_up_goes(fixture: LogManagerFixture, manager: LogManager) -> None:
    filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    run(manager.future_logs.copy(tp(0), PIECE))
    manager.future_logs.drop(tp(0))
    assert manager.future_logs.logs == {}
    assert [name for name in os.listdir(fixture.dirs[1]) if name.endswith("-future")] == []
    assert manager.logs[tp(0)].log_dir == fixture.dirs[0]
    manager._checkpoint_all()
    assert checkpoint(fixture, 1, "recovery-point-offset-checkpoint") == "0\n0\n"


def test_a_partition_is_deleted_with_its_copy(fixture: LogManagerFixture, manager: LogManager) -> None:
    filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    run(manager.delete(tp(0)))
    assert (manager.logs, manager.future_logs.logs) == ({}, {})
    for path in fixture.dirs:
        assert all(name.endswith("-delete") for name in os.listdir(path) if name.startswith("t-0"))


def test_settings_reach_the_copy(fixture: LogManagerFixture, manager: LogManager) -> None:
    filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    config = LogConfig(segment_bytes=777)
    manager.update_topic_config("t", config)
    assert manager.future_logs.logs[tp(0)].config is config


def test_the_directory_of_the_copy_fails(fixture: LogManagerFixture, manager: LogManager) -> None:
    filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    run(manager.future_logs.copy(tp(0), 100))
    manager.handle_failure(fixture.dirs[1])
    assert (fixture.lost, manager.future_logs.logs) == ([fixture.dirs[1]], {})
    manager.logs[tp(0)].append_as_leader(batch(1), 0, NOW)


def test_the_directory_of_the_log_fails(fixture: LogManagerFixture, manager: LogManager) -> None:
    """The copy stays on the disk: it goes on once the directory is back."""
    filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    run(manager.future_logs.copy(tp(0), 100))
    manager.handle_failure(fixture.dirs[0])
    assert (manager.logs, manager.future_logs.logs) == ({}, {})
    kill(manager)
    again = fixture.started()
    assert tp(0) in again.logs and tp(0) in again.future_logs.logs
    again._release_dirs()


def test_a_copy_without_its_log_is_deleted_when_the_log_is_recreated(
    fixture: LogManagerFixture, manager: LogManager
) -> None:
    filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    run(manager.future_logs.copy(tp(0), 100))
    kill(manager)
    os.rename(f"{fixture.dirs[0]}/t-0", f"{fixture.dirs[0]}/t-0.lost-stray")
    again = fixture.started()
    made = again.get_or_create(tp(0), ID)
    assert made.log_end_offset == 0 and again.future_logs.logs == {}
    again._release_dirs()


def test_a_log_is_made_in_the_directory_that_was_asked_for(fixture: LogManagerFixture, manager: LogManager) -> None:
    manager.future_logs.preferred[tp(0)] = fixture.dirs[2]
    assert manager.get_or_create(tp(0), ID, True).log_dir == fixture.dirs[2]
    assert manager.future_logs.preferred == {}


def test_a_copy_is_durable_only_as_far_as_its_log(fixture: LogManagerFixture, manager: LogManager) -> None:
    log = filled(manager)
    futures = manager.future_logs
    futures.create(tp(0), fixture.dirs[1])
    copy_all(manager)
    assert not futures.is_durable(tp(0))
    run(futures.make_durable(tp(0)))
    assert futures.is_durable(tp(0))
    log.append_as_leader(batch(3), 0, NOW)
    copy_all(manager)
    assert futures.is_durable(tp(0))
    log.flush()
    assert not futures.is_durable(tp(0))


def test_a_full_disk_stops_the_copy_only(fixture: LogManagerFixture, manager: LogManager) -> None:
    filled(manager)
    manager.future_logs.create(tp(0), fixture.dirs[1])
    fixture.fs.only, fixture.fs.fail = fixture.dirs[1] + "/", {"pwrite": FULL}
    with pytest.raises(ApiError) as refused:
        run(manager.future_logs.copy(tp(0), PIECE))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    fixture.fs.fail = {}
    fixture.clock.advance(1)
    assert fixture.lost == []
    copy_all(manager)
    assert manager.future_logs.is_caught_up(tp(0))


def test_moving_back_and_forth(fixture: LogManagerFixture, manager: LogManager) -> None:
    """Checkpoints of an earlier stay say nothing of the new one."""
    log = filled(manager)
    for number in (1, 0, 2, 0, 1):
        log = move(manager, fixture.dirs[number])
        log.append_as_leader(batch(2), 0, NOW)
        log.update_high_watermark(log.log_end_offset)
        log.increment_log_start_offset(log.log_end_offset - 2)
    expected = content(log)
    kill(manager)
    again = fixture.started()
    assert (content(again.logs[tp(0)]), again.logs[tp(0)].log_dir) == (expected, fixture.dirs[1])
    again._release_dirs()
