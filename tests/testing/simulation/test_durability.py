"""A log whose recovery point is higher than what was synced is told of, before lost power shows it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalite.common.errors import ApiError
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import FilePool
from kafkalite.log.log import Log, LogServices
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_dir import LogDir
from kafkalite.log.log_dir_files import CLEAN_SHUTDOWN_FILE, HIGH_WATERMARK, RECOVERY_POINT, encode_offsets
from kafkalite.log.log_loader import LogLoader
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.simulation.disk import SimDisk
from kafkalite.testing.simulation.durability import Durability, synced_end
from tests.log.fixtures import NOW, PRODUCER_EXPIRATION_MS, LazyOwner, batch, marker

TP = TopicPartition("t", 0)


class EagerOwner(LazyOwner):
    """Begins a flush as soon as it is asked for one."""

    def flush_later(self, log: Log) -> None:
        log.flush()


class LogOnDisk:
    """A disk with one log of two segments, the first of which is synced; ``synced`` is where that ends."""

    def __init__(self, path: str, owner: type[LazyOwner] = LazyOwner) -> None:
        self.path = path
        clock = ManualClock()
        self.disk = SimDisk(clock.time_ms)
        self.fs = self.disk.mount()
        self.fs.make_dirs(path)
        self.fs.make_dir(f"{path}/t-0")
        services = LogServices(self.fs, clock, PRODUCER_EXPIRATION_MS, FilePool(8), random.Random(1))
        config = LogConfig(index_interval_bytes=0)
        self.log: Log = LogLoader(TP, f"{path}/t-0", path, config, services, owner(self.fs)).create()
        self.told: list[str] = []
        self.durability = Durability({path: self.disk}, self.told.append)
        self.append(3)
        self.log.roll()
        self.log.flush()
        self.synced = self.log.log_end_offset

    def append(self, batches: int) -> None:
        for _ in range(batches):
            self.log.append_as_leader(batch(2), 0, NOW)

    def write_checkpoint(self, offset: int) -> None:
        self.fs.write_file(f"{self.path}/{RECOVERY_POINT}", encode_offsets({TP: offset}))


@pytest.fixture
def machine(tmp_path: Path) -> LogOnDisk:
    return LogOnDisk(str(tmp_path))


def test_flushed_data_are_on_the_disk(machine: LogOnDisk) -> None:
    machine.append(2)
    machine.durability.recovery_point_set(machine.log)
    machine.log.flush()
    machine.durability.recovery_point_set(machine.log)
    assert machine.told == []


def test_the_synced_end_of_a_log_whose_disk_refuses_reads(machine: LogOnDisk) -> None:
    machine.append(2)
    machine.log.flush()
    end = machine.log.log_end_offset
    machine.append(1)
    machine.disk.break_io("read")
    assert synced_end(machine.disk, machine.log) == end


@pytest.mark.parametrize(("checkpoint", "is_told"), [(3, True), (4, False)])
def test_a_start_with_a_high_watermark_above_the_checkpoint(machine: LogOnDisk, checkpoint: int, is_told: bool) -> None:
    machine.fs.write_file(f"{machine.path}/{HIGH_WATERMARK}", encode_offsets({TP: checkpoint}))
    machine.log.update_high_watermark(4)
    machine.durability.loaded(machine.log)
    told = f"{machine.path}/t-0: starts with the high watermark 4, the checkpoint says 3"
    assert machine.told == ([told] if is_told else [])


def test_a_recovery_point_above_what_was_synced(machine: LogOnDisk) -> None:
    machine.append(2)
    machine.log.recovery_point = machine.synced + 2
    machine.durability.recovery_point_set(machine.log)
    point = machine.synced + 2
    assert machine.told == [
        f"{machine.log.dir}: the recovery point is {point}, but only what is below {machine.synced} was synced"
    ]


def test_a_segment_whose_name_was_not_synced(machine: LogOnDisk) -> None:
    machine.append(1)
    machine.log.roll()
    machine.append(1)
    for segment in machine.log.segments:
        for file in segment.files_to_sync():
            machine.fs.fsync(file.fd)
    machine.log.recovery_point = machine.log.log_end_offset
    machine.durability.recovery_point_set(machine.log)
    (told,) = machine.told
    assert told.endswith(f"but the name of {machine.log.segments.active.path} was not synced")


def test_a_file_whose_fsync_failed_is_not_blamed(machine: LogOnDisk) -> None:
    machine.append(1)
    machine.disk.break_io("fsync")
    with pytest.raises(OSError):
        machine.fs.fsync(machine.log.segments.active.opened().fd)
    machine.log.recovery_point = machine.log.log_end_offset
    machine.durability.recovery_point_set(machine.log)
    assert machine.told == []


# trap: kafkalite/log/log_segment.py: A full disk tears an append at the recovery point.
def test_bytes_of_a_failed_append_below_the_recovery_point_are_cut_on_the_disk(machine: LogOnDisk) -> None:
    machine.append(1)
    machine.log.flush()
    machine.disk.fill(20)
    with pytest.raises(ApiError):
        machine.append(1)
    machine.disk.free()
    machine.log.roll()
    machine.append(1)
    machine.log.flush()
    machine.durability.recovery_point_set(machine.log)
    assert machine.told == []


@pytest.mark.parametrize(("checkpoint", "is_told"), [(0, False), (6, True)])
def test_a_truncation_lowers_the_recovery_point_on_the_disk(machine: LogOnDisk, checkpoint: int, is_told: bool) -> None:
    machine.write_checkpoint(checkpoint)
    machine.log.truncate_to(4)
    machine.durability.truncated(machine.log)
    expected = f"{machine.log.dir}: was cut to 4, and its recovery point on the disk is 6"
    assert machine.told == ([expected] if is_told else [])


@pytest.mark.parametrize("synced", [True, False])
def test_the_mark_of_a_clean_shutdown_does_not_come_back(machine: LogOnDisk, synced: bool) -> None:
    mark = f"{machine.path}/{CLEAN_SHUTDOWN_FILE}"
    directory = LogDir(machine.path, machine.fs)
    machine.durability.began(directory)
    assert machine.told == []
    machine.fs.write_file(mark, b"")
    machine.durability.began(directory)
    assert len(machine.told) == 1
    machine.fs.remove(mark)
    if synced:
        machine.fs.sync_dir(machine.path)
    machine.durability.began(directory)
    assert len(machine.told) == (1 if synced else 2)


def test_a_flush_syncs_a_cut_to_the_start_of_the_last_segment(machine: LogOnDisk) -> None:
    """Nothing is above the recovery point then; a clean shutdown must not leave what was cut to come back."""
    machine.append(3)
    machine.log.flush()
    machine.log.truncate_to(machine.synced)
    segment = machine.log.segments.active
    assert (segment.size, machine.disk.unsynced_from(segment.path)) == (0, 0)
    machine.log.flush()
    assert [machine.disk.unsynced_from(file.path) for file in (segment, segment.index, segment.time_index)] == [
        None
    ] * 3


@pytest.fixture(params=[1, 10])
def flushing(tmp_path: Path, request: pytest.FixtureRequest) -> LogOnDisk:
    """A machine whose log flushes at every append, or at every tenth message."""
    machine = LogOnDisk(str(tmp_path), EagerOwner)
    machine.log.update_config(LogConfig(index_interval_bytes=0, flush_messages=request.param))
    return machine


@pytest.mark.parametrize("leads", [True, False])
def test_the_flush_of_an_append_syncs_the_index_of_aborted_transactions(flushing: LogOnDisk, leads: bool) -> None:
    """A start does not read batches below the recovery point: it believes the index."""
    log, base = flushing.log, flushing.synced
    if leads:
        log.append_as_leader(batch(9, pid=1, sequence=0, transactional=True), 0, NOW)
        log.append_as_leader(marker(1, commit=False), 0, NOW, from_client=False)
    else:
        log.append_as_follower(batch(9, base=base, pid=1, sequence=0, transactional=True))
        log.append_as_follower(marker(1, commit=False, base=base + 9))
    index = log.segments.active.txn_index
    assert index is not None and log.recovery_point == base + 10
    assert flushing.disk.unsynced_from(index.path) is None


def test_the_last_index_entries_of_a_closed_segment_are_synced(flushing: LogOnDisk) -> None:
    """All of the segment was flushed when it was closed, and closing it wrote its last index entries."""
    log = flushing.log
    log.append_as_leader(batch(10), 0, NOW)
    closed = log.segments.active
    assert log.recovery_point == log.log_end_offset
    log.roll()
    log.append_as_leader(batch(10), 0, NOW)
    assert log.recovery_point == log.log_end_offset > log.segments.active.base_offset
    assert closed.time_index.last()[0] == closed.max_timestamp()[0] > 0
    assert [flushing.disk.unsynced_from(index.path) for index in (closed.index, closed.time_index)] == [None, None]
    flushing.durability.recovery_point_set(log)
    assert flushing.told == []


@pytest.mark.parametrize("index", [0, 1])
def test_an_index_of_a_closed_segment_that_was_not_synced(flushing: LogOnDisk, index: int) -> None:
    log = flushing.log
    closed = log.segments[0]
    log.append_as_leader(batch(10), 0, NOW)
    path = (closed.index, closed.time_index)[index].path
    file = flushing.fs.open(path)
    flushing.fs.pwrite(file, b"\1", 0)
    flushing.durability.recovery_point_set(log)
    assert flushing.told == [f"{log.dir}: the recovery point is {log.recovery_point}, but {path} was not synced"]


@pytest.mark.parametrize("leads", [True, False])
def test_the_flush_of_an_append_syncs_a_new_leader_epoch(flushing: LogOnDisk, leads: bool) -> None:
    log, base = flushing.log, flushing.synced
    if leads:
        log.append_as_leader(batch(10), 1, NOW)
    else:
        log.append_as_follower(batch(10, base=base, leader_epoch=1))
    assert (log.epochs.latest_epoch, log.recovery_point) == (1, base + 10)
    assert flushing.disk.unsynced_from(log.epochs.path) is None
