"""Directories: owners, locks, failures, checkpoints, restarts."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode, StartupError
from kafkalite.common.events import EventKind, EventLog
from kafkalite.common.types import TopicPartition
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_manager import LogManager
from kafkalite.testing.clock import InlineExecutor, ManualClock
from tests.support import run

from .fixtures import BROKEN, FULL, NOW, FaultyFileSystem, batch, manager_config

ID = uuid.UUID(int=5)


class LogManagerFixture:
    def __init__(self, root: Path, dirs: int = 1) -> None:
        self.dirs = [str(root / f"d{number}") for number in range(dirs)]
        self.clock = ManualClock()
        self.fs = FaultyFileSystem()
        self.lost: list[str] = []
        self.boot_id = "boot 1"
        self.events = EventLog(1, self.clock.time_ms)

    def manager(self, broker_id: int = 1, cluster_id: str = "abc", **values: Any) -> LogManager:
        executor = InlineExecutor()
        return LogManager(
            self.dirs,
            manager_config(values),
            self.fs,
            self.clock,
            executor,
            broker_id,
            cluster_id,
            on_dir_failure=self.lost.append,
            boot_id=self.boot_id,
            record=self.events.record,
        )

    def started(self, **values: Any) -> LogManager:
        manager = self.manager(**values)
        run(manager.start())
        return manager


def tp(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def kill(manager: LogManager) -> None:
    """As ``kill -9`` leaves it."""
    for existing in manager.logs.values():
        existing.mark_broken()
    manager._release_dirs()


def test_clean_restart(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started()
    for number in range(3):
        log = manager.get_or_create(tp(number), ID, True)
        log.append_as_leader(batch(number + 1), 0, NOW)
        log.update_high_watermark(number)
    run(manager.shutdown())
    folder = Path(fixture.dirs[0])
    assert json.loads((folder / ".kafka_cleanshutdown").read_text()) == {
        "version": 0,
        "brokerEpoch": -1,
        "uncleanStartEpoch": -1,
        "directories": 1,
    }
    assert (folder / "recovery-point-offset-checkpoint").read_text() == "0\n3\nt 0 1\nt 1 2\nt 2 3\n"
    assert (folder / "replication-offset-checkpoint").read_text() == "0\n3\nt 0 0\nt 1 1\nt 2 2\n"
    assert (folder / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert (folder / "t-0" / "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ"
    again = fixture.started()
    assert not (folder / ".kafka_cleanshutdown").exists()
    assert {t.partition: (x.log_end_offset, x.high_watermark, x.topic_id) for t, x in again.logs.items()} == {
        0: (1, 0, ID),
        1: (2, 1, ID),
        2: (3, 2, ID),
    }


def test_crash_recovers(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started()
    log = manager.get_or_create(tp(0), None, True)
    log.append_as_leader(batch(4), 0, NOW)
    kill(manager)
    with open(f"{fixture.dirs[0]}/t-0/00000000000000000000.log", "ab") as file:
        file.write(b"torn")
    assert fixture.started().logs[tp(0)].log_end_offset == 4


@pytest.mark.parametrize(
    ("broker_id", "cluster_id", "said"), [(2, "abc", "broker.id 2 does not match"), (1, "xyz", "cluster id xyz")]
)
def test_a_directory_of_another_broker_or_cluster_is_refused(
    tmp_path: Path, broker_id: int, cluster_id: str, said: str
) -> None:
    fixture = LogManagerFixture(tmp_path)
    run(fixture.started().shutdown())
    with pytest.raises(StartupError, match=said):
        run(fixture.manager(broker_id, cluster_id).start())
    run(fixture.manager().start())


def test_locked_directory(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    first = fixture.started()
    with pytest.raises(StartupError, match="Failed to acquire lock"):
        run(fixture.manager().start())
    run(first.shutdown())
    run(fixture.manager().start())


def test_spreads_over_directories_and_survives_one(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, dirs=2)
    manager = fixture.started()
    for number in range(4):
        manager.get_or_create(tp(number), ID, True).append_as_leader(batch(1), 0, NOW)
    by_dir = {path: [x.topic_partition for x in manager.logs.values() if x.log_dir == path] for path in fixture.dirs}
    assert [len(found) for found in by_dir.values()] == [2, 2]
    bad = fixture.dirs[0]
    fixture.fs.fail, fixture.fs.only = {"pwrite": BROKEN}, bad
    with pytest.raises(ApiError) as refused:
        manager.logs[by_dir[bad][0]].append_as_leader(batch(1), 0, NOW)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert fixture.lost == []
    fixture.clock.advance(0)
    assert fixture.lost == [bad] and manager.offline_dirs == {bad}
    assert set(manager.logs) == set(by_dir[fixture.dirs[1]])
    manager.logs[by_dir[fixture.dirs[1]][0]].append_as_leader(batch(1), 0, NOW)
    with pytest.raises(ApiError):
        manager.get_or_create(by_dir[bad][0], ID, False)
    assert manager.get_or_create(tp(9), ID, True).log_dir == fixture.dirs[1]
    run(manager.shutdown())
    assert not os.path.exists(f"{bad}/.kafka_cleanshutdown")


def test_starts_without_a_broken_directory(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, dirs=2)
    fixture.fs.fail, fixture.fs.only = {"list_dir": BROKEN}, fixture.dirs[1]
    manager = fixture.started()
    assert manager.offline_dirs == {fixture.dirs[1]}
    fixture.fs.only = ""
    with pytest.raises(StartupError, match="None of the log directories"):
        run(LogManagerFixture.manager(fixture, 1).start()) if run(manager.shutdown()) is None else None


def test_failing_fsync_ends_the_directory(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started()
    log = manager.get_or_create(tp(0), ID, True, LogConfig(segment_bytes=200))
    fixture.fs.fail, fixture.fs.only = {"fsync": BROKEN}, ".log"
    for _ in range(4):
        log.append_as_leader(batch(1, size=50), 0, NOW)
    fixture.clock.advance(0)
    assert fixture.lost == fixture.dirs


def test_a_directory_that_goes_offline_is_told_once(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, dirs=2)
    manager = fixture.started()
    for number in range(4):
        manager.get_or_create(tp(number), ID, True)
    lost = manager.logs[tp(0)].log_dir
    gone = {tp: log.topic_id for tp, log in manager.logs.items() if log.log_dir == lost}
    for _ in range(2):
        manager.handle_failure(lost)
    [event] = fixture.events.snapshot().events
    assert event.kind == EventKind.LOG_DIRECTORY
    assert event.text == f"log directory {lost} is offline, and with it {len(gone)} partitions"
    assert manager.offline_logs == gone


def test_full_disk_keeps_the_directory(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started()
    log = manager.get_or_create(tp(0), ID, True)
    log.append_as_leader(batch(1), 0, NOW)
    fixture.fs.fail = {"pwrite": FULL}
    for epoch in (0, 1):
        with pytest.raises(ApiError) as refused:
            log.append_as_leader(batch(1), epoch, NOW)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    log.assign_epoch_start(3, 1)
    fixture.fs.fail["write_file"] = FULL
    manager.checkpoint_high_watermarks()
    fixture.clock.advance(1)
    assert not fixture.lost and log.read(0, 100, 1, True).size
    fixture.fs.fail = {}
    assert log.append_as_leader(batch(1), 3, NOW).first_offset == 1


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("x" * 300, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 249, 1_000_000, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, topic: str, partition: int, code: ErrorCode) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started()
    kept = manager.get_or_create(tp(0), ID, True)
    with pytest.raises(ApiError) as refused:
        manager.get_or_create(TopicPartition(topic, partition), ID, True)
    assert refused.value.code is code
    fixture.clock.advance(1)
    assert not fixture.lost and not manager.offline_dirs
    assert kept.append_as_leader(batch(1), 0, NOW).first_offset == 0


def test_delete(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started()
    log = manager.get_or_create(tp(0), ID, True, LogConfig(file_delete_delay_ms=1000))
    log.append_as_leader(batch(1), 0, NOW)
    region = (log.update_high_watermark(1), log.read(0, 100, 1, True).records)[1]
    run(manager.delete(tp(0)))
    assert manager.get(tp(0)) is None and region is not None and region.read()
    (left,) = [name for name in os.listdir(fixture.dirs[0]) if name.startswith("t-0")]
    assert left.endswith("-delete") and len(left) == len("t-0.") + 32 + len("-delete")
    assert manager.get_or_create(tp(0), uuid.UUID(int=6), True).log_end_offset == 0
    fixture.clock.advance(1)
    assert not os.path.exists(f"{fixture.dirs[0]}/{left}")
    Path(fixture.dirs[0], left).mkdir()
    kill(manager)
    assert list(fixture.started().logs) == [tp(0)] and not os.path.exists(f"{fixture.dirs[0]}/{left}")


def test_other_topic_id(tmp_path: Path) -> None:
    manager = LogManagerFixture(tmp_path).started()
    manager.get_or_create(tp(0), ID, True)
    with pytest.raises(ApiError) as refused:
        manager.get_or_create(tp(0), uuid.UUID(int=6), True)
    assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_log_start_survives(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started()
    log = manager.get_or_create(tp(0), ID, True)
    log.append_as_leader(batch(4), 0, NOW)
    log.update_high_watermark(4)
    log.increment_log_start_offset(3)
    run(manager.shutdown())
    assert fixture.started().logs[tp(0)].log_start_offset == 3


def test_configs(tmp_path: Path) -> None:
    manager = LogManagerFixture(tmp_path).started()
    plain, own = manager.get_or_create(tp(0), ID, True), manager.get_or_create(TopicPartition("o", 0), ID, True)
    manager.update_topic_config("o", LogConfig(retention_ms=5))
    manager.update_defaults(manager_config({"log.retention.hours": 2}))
    assert (plain.config.retention_ms, own.config.retention_ms) == (7_200_000, 5)


def test_background_work(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started(**{"log.retention.check.interval.ms": 1000, "log.flush.scheduler.interval.ms": 500})
    config = LogConfig(retention_ms=2000, flush_ms=1000)
    log = manager.get_or_create(tp(0), ID, True, config)
    log.append_as_leader(batch(3), 0, NOW)
    log.update_high_watermark(3)
    fixture.clock.advance(1.5)
    assert log.recovery_point == 3
    fixture.clock.advance(2)
    assert log.log_start_offset == 3
    fixture.clock.advance(60)
    assert Path(fixture.dirs[0], "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    run(manager.shutdown())


def test_files_are_kept_open_up_to_the_process_limit(tmp_path: Path) -> None:
    manager = LogManagerFixture(tmp_path).started()
    first = manager.get_or_create(tp(0), ID, True)
    first.append_as_leader(batch(1), 0, NOW)
    for number in range(1, 80):
        manager.get_or_create(tp(number), ID, True).append_as_leader(batch(1), 0, NOW)
    assert first.segments.active.file is not None


@pytest.mark.parametrize(
    ("mark", "kept"),
    [
        ('{"version":0,"brokerEpoch":70,"uncleanStartEpoch":55,"directories":2}', 55),
        ('{"version":0,"brokerEpoch":70}', 70),
        ("", -1),
        ("[]", -1),
        ('{"version":0,"brokerEpoch":70,"uncleanStartEpoch":-1,"directories":2}', -1),
        ('{"version":0,"brokerEpoch":70,"uncleanStartEpoch":55,"directories":3}', -1),
    ],
)
def test_what_the_mark_of_a_clean_shutdown_says(tmp_path: Path, mark: str, kept: int) -> None:
    """Kafka writes the broker epoch alone, and before 3.8 nothing; with a directory less, logs are missing."""
    fixture = LogManagerFixture(tmp_path, 2)
    for folder in fixture.dirs:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, ".kafka_cleanshutdown").write_text(mark)
    assert fixture.started().unclean_start_epoch == kept


# trap: kafkalite/log/log_manager.py: One of several log directories was not closed in order: the start is an unclean
# one.
def test_the_logs_keep_their_life_only_if_every_directory_was_closed_in_order(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    fixture.boot_id = ""
    manager = fixture.started()
    assert manager.unclean_start_epoch == -1, "nothing was closed here yet"
    run(manager.shutdown(70, 55))
    again = fixture.started()
    assert again.unclean_start_epoch == 55
    kill(again)
    assert not list(tmp_path.glob("*/.kafkalite_boot")), "the boot is unknown"
    killed = fixture.started()
    assert killed.unclean_start_epoch == -1
    run(killed.shutdown(90, 80))
    Path(fixture.dirs[1], ".kafka_cleanshutdown").unlink()
    assert fixture.started().unclean_start_epoch == -1, "one directory is of another life, perhaps another disk"


def registered(fixture: LogManagerFixture, epoch: int) -> LogManager:
    """A broker that has registered after an unclean start, with a batch in each of its directories."""
    manager = fixture.started()
    run(manager.registered(epoch))
    for number in range(len(fixture.dirs)):
        manager.get_or_create(tp(number), ID, True).append_as_leader(batch(4), 0, NOW)
    return manager


def test_a_kill_keeps_the_life_of_the_logs_for_as_long_as_the_machine_runs(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    kill(registered(fixture, 55))
    for _ in range(3):
        again = fixture.started()
        assert again.unclean_start_epoch == 55, "everything that was written is in the page cache"
        assert {log.log_end_offset for log in again.logs.values()} == {4}
        kill(again)
    fixture.boot_id = "boot 2"
    rebooted = fixture.started()
    assert rebooted.unclean_start_epoch == -1
    run(rebooted.registered(90))
    kill(rebooted)
    assert fixture.started().unclean_start_epoch == 90


def test_a_start_after_lost_power_that_dies_before_it_is_registered(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    kill(registered(fixture, 55))
    fixture.boot_id = "boot 2"
    kill(fixture.started())
    assert fixture.started().unclean_start_epoch == -1
    fixture.boot_id = "boot 1"
    assert not list(tmp_path.glob("*/.kafkalite_boot")), "the volume may come back to a machine that still runs"


def test_a_start_that_is_killed_while_it_loads_keeps_what_the_clean_shutdown_said(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    run(registered(fixture, 55).shutdown(70, 55))
    fixture.boot_id = "boot 2"
    kill(fixture.started())
    assert fixture.started().unclean_start_epoch == 55


def test_a_shutdown_that_is_killed_between_its_marks(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    manager = registered(fixture, 55)
    kept = Path(fixture.dirs[1], ".kafkalite_boot").read_bytes()
    run(manager.shutdown(70, 55))
    assert not list(tmp_path.glob("*/.kafkalite_boot")), "a Kafka that works here next would leave it"
    Path(fixture.dirs[1], ".kafka_cleanshutdown").unlink()
    Path(fixture.dirs[1], ".kafkalite_boot").write_bytes(kept)
    assert fixture.started().unclean_start_epoch == 55


def test_a_log_directory_that_is_new_or_offline_begins_a_new_life(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    manager = registered(fixture, 55)
    kill(manager)
    fixture.dirs.append(str(tmp_path / "new"))
    assert fixture.started().unclean_start_epoch == -1
    other = LogManagerFixture(tmp_path / "other", 2)
    kill(registered(other, 55))
    other.fs.fail, other.fs.only = {"list_dir": BROKEN}, other.dirs[1]
    offline = other.started()
    assert offline.unclean_start_epoch == -1
    run(offline.registered(90))
    assert not Path(other.dirs[0], ".kafkalite_boot").exists(), "it could not speak for the directory that is offline"
    kill(offline)
    other.fs.only, other.fs.fail = "", {}
    assert other.started().unclean_start_epoch == -1, "one directory did not take part in the life that ended"


def test_a_log_directory_that_failed_begins_a_new_life_though_the_machine_runs_on(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    manager = registered(fixture, 55)
    bad = manager.logs[tp(0)]
    fixture.fs.fail, fixture.fs.only = {"pwrite": BROKEN}, bad.log_dir
    with pytest.raises(ApiError):
        bad.append_as_leader(batch(1), 0, NOW)
    assert not list(tmp_path.glob("*/.kafkalite_boot"))
    fixture.clock.advance(0)
    run(manager.registered(55))
    kill(manager)
    fixture.fs.only, fixture.fs.fail = "", {}
    assert fixture.started().unclean_start_epoch == -1


def test_a_mark_that_outlasts_the_failure_of_its_directory_is_not_confirmed_by_the_others(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    manager = registered(fixture, 55)
    bad = manager.logs[tp(0)]
    mark = Path(bad.log_dir, ".kafkalite_boot")
    kept = mark.read_bytes()
    fixture.fs.fail, fixture.fs.only = {"pwrite": BROKEN}, bad.log_dir
    with pytest.raises(ApiError):
        bad.append_as_leader(batch(1), 0, NOW)
    fixture.clock.advance(0)
    run(manager.shutdown(70, 55))
    mark.write_bytes(kept)
    fixture.fs.only, fixture.fs.fail = "", {}
    assert fixture.started().unclean_start_epoch == -1


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        pytest.param(lambda data: data + data[:5], 55, id="a batch of which the process wrote five bytes"),
        pytest.param(lambda data: data + data[:-1], 55, id="a batch of which the process wrote all but one byte"),
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), -1, id="a whole batch with another bit"),
        pytest.param(lambda data: data + bytes(4096), -1, id="zeros"),
    ],
)
def test_recovery_that_cuts_more_than_an_unfinished_write_begins_a_new_life(
    tmp_path: Path, damage: Callable[[bytes], bytes], kept: int
) -> None:
    fixture = LogManagerFixture(tmp_path)
    kill(registered(fixture, 55))
    path = Path(fixture.dirs[0], "t-0", "00000000000000000000.log")
    path.write_bytes(damage(path.read_bytes()))
    again = fixture.started()
    assert again.unclean_start_epoch == kept
    assert Path(fixture.dirs[0], ".kafkalite_boot").exists() == (kept == 55)


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        pytest.param(lambda data: data, 55, id="whole"),
        pytest.param(lambda data: data + data[:5], 55, id="a batch of which the process wrote five bytes"),
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), -1, id="the failed start cut a whole batch"),
    ],
)
def test_a_start_for_which_the_disk_has_no_room_keeps_the_life_of_the_logs(
    tmp_path: Path, damage: Callable[[bytes], bytes], kept: int
) -> None:
    fixture = LogManagerFixture(tmp_path)
    kill(registered(fixture, 55))
    path = Path(fixture.dirs[0], "t-0", "00000000000000000000.log")
    path.write_bytes(damage(path.read_bytes()))
    fixture.fs.fail, fixture.fs.only = {"pwrite": FULL}, fixture.dirs[0]
    with pytest.raises(StartupError, match="None of the log directories"):
        fixture.started()
    fixture.fs.only, fixture.fs.fail = "", {}
    assert fixture.started().unclean_start_epoch == kept


def test_a_start_without_the_directory_that_has_no_room_begins_a_new_life(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    kill(registered(fixture, 55))
    fixture.fs.fail, fixture.fs.only = {"pwrite": FULL}, fixture.dirs[1]
    manager = fixture.started()
    assert manager.unclean_start_epoch == -1
    run(manager.registered(90))
    run(manager.shutdown(95, 90))
    fixture.fs.only, fixture.fs.fail = "", {}
    assert fixture.started().unclean_start_epoch == -1, "one directory did not take part in the life that ended"


@pytest.mark.parametrize("refused", [".snapshot", "leader-epoch-checkpoint", "recovery-point", ".kafka_cleanshutdown"])
def test_a_shutdown_for_which_the_disk_has_no_room_keeps_the_life_of_the_logs(tmp_path: Path, refused: str) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    manager = registered(fixture, 55)
    fixture.fs.fail, fixture.fs.only = {"write_file": FULL}, refused
    manager.logs[tp(0)].append_as_leader(batch(1), 1, NOW)
    run(manager.shutdown(70, 55))
    fixture.fs.only, fixture.fs.fail = "", {}
    again = fixture.started()
    assert again.unclean_start_epoch == 55
    assert again.logs[tp(0)].log_end_offset == 5
    assert again.logs[tp(0)].epochs.entries == [(0, 0), (1, 4)]


@pytest.mark.parametrize("why", [FULL, BROKEN])
def test_a_shutdown_whose_flush_fails_begins_a_new_life(tmp_path: Path, why: int) -> None:
    fixture = LogManagerFixture(tmp_path, 2)
    manager = registered(fixture, 55)
    fixture.fs.fail, fixture.fs.only = {"fsync": why}, fixture.dirs[1]
    run(manager.shutdown(70, 55))
    fixture.fs.only, fixture.fs.fail = "", {}
    assert fixture.started().unclean_start_epoch == -1


def test_a_full_directory_is_not_marked_and_stays_in_use(tmp_path: Path) -> None:
    fixture = LogManagerFixture(tmp_path)
    manager = fixture.started()
    fixture.fs.fail, fixture.fs.only = {"write_file": FULL}, fixture.dirs[0]
    run(manager.registered(55))
    fixture.clock.advance(0)
    assert fixture.lost == []
    kill(manager)
    fixture.fs.only, fixture.fs.fail = "", {}
    assert fixture.started().unclean_start_epoch == -1
