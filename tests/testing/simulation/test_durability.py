"""A log whose recovery point is higher than what was synced is told of, before lost power shows it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalite.common.errors import ApiError
from kafkalite.common.types import TopicPartition
from kafkalite.log.checkpoints import HIGH_WATERMARK, RECOVERY_POINT, encode_offsets
from kafkalite.log.clean_shutdown import CLEAN_SHUTDOWN_FILE
from kafkalite.log.file_system import FilePool
from kafkalite.log.log import Log
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_dir import LogDir
from kafkalite.log.log_loader import LogLoader
from kafkalite.log.services import LogServices
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.simulation.disk import SimDisk
from kafkalite.testing.simulation.durability import Durability
from tests.log.support import NOW, LazyOwner, batch

TP = TopicPartition("t", 0)


class Machine:
    """A disk with one log of two segments, the first of which is synced; ``synced`` is where that ends."""

    def __init__(self, path: str) -> None:
        self.path = path
        clock = ManualClock()
        self.disk = SimDisk(clock.time_ms)
        self.fs = self.disk.mount()
        self.fs.make_dirs(path)
        self.fs.make_dir(f"{path}/t-0")
        services = LogServices(self.fs, clock, FilePool(8), random.Random(1))
        config = LogConfig(index_interval_bytes=0)
        self.log: Log = LogLoader(TP, f"{path}/t-0", path, config, services, LazyOwner(self.fs)).create()
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
def machine(tmp_path: Path) -> Machine:
    return Machine(str(tmp_path))


def test_what_was_flushed_is_on_the_disk(machine: Machine) -> None:
    machine.append(2)
    machine.durability.recovery_point_set(machine.log)
    machine.log.flush()
    machine.durability.recovery_point_set(machine.log)
    assert machine.told == []


@pytest.mark.parametrize(("checkpoint", "is_told"), [(3, True), (4, False)])
def test_a_start_with_a_high_watermark_above_the_checkpoint(machine: Machine, checkpoint: int, is_told: bool) -> None:
    machine.fs.write_file(f"{machine.path}/{HIGH_WATERMARK}", encode_offsets({TP: checkpoint}))
    machine.log.update_high_watermark(4)
    machine.durability.loaded(machine.log)
    told = f"{machine.path}/t-0: starts with the high watermark 4, the checkpoint says 3"
    assert machine.told == ([told] if is_told else [])


def test_a_recovery_point_above_what_was_synced(machine: Machine) -> None:
    machine.append(2)
    machine.log.recovery_point = machine.synced + 2
    machine.durability.recovery_point_set(machine.log)
    point = machine.synced + 2
    assert machine.told == [
        f"{machine.log.dir}: the recovery point is {point}, but only what is below {machine.synced} was synced"
    ]


def test_a_segment_whose_name_was_not_synced(machine: Machine) -> None:
    machine.append(1)
    machine.log.roll()
    machine.append(1)
    for segment in machine.log.segments:
        machine.fs.fsync(segment.opened().fd)
    machine.log.recovery_point = machine.log.log_end_offset
    machine.durability.recovery_point_set(machine.log)
    (told,) = machine.told
    assert told.endswith(f"but the name of {machine.log.segments.active.path} was not synced")


def test_a_file_whose_fsync_failed_is_not_blamed(machine: Machine) -> None:
    machine.append(1)
    machine.disk.break_io("fsync")
    with pytest.raises(OSError):
        machine.fs.fsync(machine.log.segments.active.opened().fd)
    machine.log.recovery_point = machine.log.log_end_offset
    machine.durability.recovery_point_set(machine.log)
    assert machine.told == []


# trap: kafkalite/log/log_segment.py: A full disk tears an append at the recovery point.
def test_what_a_failed_append_left_below_the_recovery_point_is_cut_on_the_disk(machine: Machine) -> None:
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
def test_a_truncation_lowers_the_recovery_point_on_the_disk(machine: Machine, checkpoint: int, is_told: bool) -> None:
    machine.write_checkpoint(checkpoint)
    machine.log.truncate_to(4)
    machine.durability.truncated(machine.log)
    expected = f"{machine.log.dir}: was cut to 4, and its recovery point on the disk is 6"
    assert machine.told == ([expected] if is_told else [])


@pytest.mark.parametrize("synced", [True, False])
def test_the_mark_of_a_clean_shutdown_is_gone_for_good(machine: Machine, synced: bool) -> None:
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


def test_a_flush_syncs_a_cut_to_the_start_of_the_last_segment(machine: Machine) -> None:
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
