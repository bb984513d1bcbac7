"""What a start after a kill may rely on: the recovery point, the leader epochs, the checkpoints of the directory."""

from __future__ import annotations

import os
import random
import uuid
from pathlib import Path

import pytest

from kafkalite.common.errors import ApiError
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_dir_files import LOG_START_OFFSET, RECOVERY_POINT, decode_offsets
from kafkalite.log.log_manager import LogManager
from kafkalite.testing.clock import InlineExecutor, ManualClock
from tests.support import run

from .fixtures import FULL, NOW, FaultyFileSystem, LogFixture, batch, fill, manager_config, marker

EPOCHS = "leader-epoch-checkpoint"
TP = TopicPartition("t", 0)


@pytest.fixture
def fixture(tmp_path: Path) -> LogFixture:
    return LogFixture(str(tmp_path), segment_bytes=300)


def epochs_of_batches(log: Log) -> list[tuple[int, int]]:
    """What the leader epoch cache has to say: each epoch and where its first batch begins."""
    entries: list[tuple[int, int]] = []
    for segment in log.segments:
        for _, header in segment.headers():
            if header.last_offset >= log.log_start_offset and (not entries or header.leader_epoch > entries[-1][0]):
                entries.append((header.leader_epoch, max(header.base_offset, log.log_start_offset)))
    return entries


# -- the recovery point


@pytest.mark.parametrize(
    ("clean", "checkpoint", "recovery_point"),
    [(False, 0, 0), (False, 5, 5), (False, 99, 12), (True, 5, 5), (True, 12, 12), (True, 99, 12)],
)
def test_the_recovery_point_never_passes_the_checkpoint(
    fixture: LogFixture, clean: bool, checkpoint: int, recovery_point: int
) -> None:
    """Recovery reads batches from the page cache, so that it proves nothing about the disk."""
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(12)])
    log.close()
    assert fixture.load(clean=clean, recovery_point=checkpoint).recovery_point == recovery_point


def test_what_was_recovered_is_flushed_by_the_next_flush(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(12)])
    again = fixture.load(recovery_point=0)
    fixture.fs.synced.clear()
    again.flush()
    assert len(fixture.fs.synced) >= len(again.segments) > 3
    assert again.recovery_point == 12


# -- checkpoints that must not lie


class Directory:
    """One log directory and the brokers that have it one after the other; a kill keeps the page cache."""

    def __init__(self, root: Path) -> None:
        self.path = str(root / "data")
        self.clock = ManualClock()
        self.fs = FaultyFileSystem()
        self.manager = self._start()

    def _start(self) -> LogManager:
        self.manager = LogManager(
            [self.path], manager_config(), self.fs, self.clock, InlineExecutor(), 1, "c", on_dir_failure=lambda _: None
        )
        run(self.manager.start({"t": LogConfig(segment_bytes=300)}))
        return self.manager

    def log(self) -> Log:
        return self.manager.get_or_create(TP, None, True, LogConfig(segment_bytes=300))

    def killed(self) -> Log:
        """The log in the next life."""
        for existing in self.manager.logs.values():
            existing.mark_broken()
        self.manager._release_dirs()
        return self._start().logs[TP]

    def on_disk(self, name: str) -> int | None:
        return decode_offsets(Path(self.path, name).read_bytes()).get(TP)

    def checkpoint(self) -> None:
        self.clock.advance(61)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


@pytest.mark.parametrize("offset", [0, 3, 7])
def test_truncation_lowers_the_recovery_point_on_the_disk_first(directory: Directory, offset: int) -> None:
    log = directory.log()
    fill(log, [batch(1, size=50) for _ in range(12)])
    log.flush()
    directory.checkpoint()
    assert directory.on_disk(RECOVERY_POINT) == 12
    log.truncate_to(offset)
    assert directory.on_disk(RECOVERY_POINT) == log.recovery_point == log.segments.active.base_offset <= offset


def test_a_shortened_segment_is_flushed_though_the_next_begins_at_the_cut(fixture: LogFixture) -> None:
    """Else lost power could bring back what was cut off, under the batches of the next segment."""
    fixture.fs = fs = Syncs()
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(4)])
    log.flush()
    shortened = log.segments[0]
    log.truncate_to(shortened.base_offset + 1)
    fs.paths.clear()
    log.roll()
    fill(log, [batch(1, size=50)])
    log.flush()
    assert log.segments.bases == [0, 1] and shortened.path in fs.paths


def test_truncation_to_the_recovery_point_writes_no_checkpoint(directory: Directory) -> None:
    log = directory.log()
    fill(log, [batch(1, size=50) for _ in range(12)])
    log.flush()
    directory.checkpoint()
    log.roll()
    fill(log, [batch(1, size=50)])
    directory.fs.fail["write_file"] = FULL
    directory.fs.only = RECOVERY_POINT
    assert log.truncate_to(12)
    assert log.log_end_offset == 12


def test_a_full_disk_refuses_a_truncation_below_the_recovery_point(directory: Directory) -> None:
    """The log stays whole, and the directory online: the follower tries again."""
    log = directory.log()
    fill(log, [batch(1, size=50) for _ in range(12)])
    log.flush()
    directory.checkpoint()
    directory.fs.fail["write_file"] = FULL
    with pytest.raises(Exception, match="No space left"):
        log.truncate_to(3)
    assert log.log_end_offset == 12 and not directory.manager.offline_dirs
    directory.fs.fail.clear()
    assert log.truncate_to(3)
    assert directory.on_disk(RECOVERY_POINT) == log.segments.active.base_offset == 2


def test_an_emptied_log_lowers_its_log_start_offset_on_the_disk_first(directory: Directory) -> None:
    """An old log start above the end of the log would make the next start drop the log."""
    log = directory.log()
    fill(log, [batch(1, size=50) for _ in range(12)])
    log.increment_log_start_offset(11)
    directory.checkpoint()
    assert directory.on_disk(LOG_START_OFFSET) == 11
    log.truncate_fully_and_start_at(2)
    for base in range(2, 6):
        log.append_as_follower(batch(1, base=base))
    again = directory.killed()
    assert (again.log_start_offset, again.log_end_offset) == (2, 6)


def test_a_recreated_partition_is_not_taken_for_the_deleted_one(directory: Directory) -> None:
    log = directory.log()
    fill(log, [batch(1, size=50) for _ in range(12)])
    log.increment_log_start_offset(11)
    log.flush()
    directory.checkpoint()
    # The checkpoints that a deletion asks for are not written in time.
    directory.fs.fail["write_file"] = FULL
    run(directory.manager.delete(TP))
    directory.fs.fail.clear()
    fill(directory.log(), [batch(1) for _ in range(3)])
    assert not directory.on_disk(RECOVERY_POINT) and not directory.on_disk(LOG_START_OFFSET)
    again = directory.killed()
    assert (again.log_start_offset, again.log_end_offset) == (0, 3)


def test_recovery_that_cuts_below_the_recovery_point_lowers_it_on_the_disk(directory: Directory) -> None:
    log = directory.log()
    fill(log, [batch(1, size=50) for _ in range(4)])
    log.flush()
    directory.checkpoint()
    path = log.segments.active.path
    os.truncate(path, os.path.getsize(path) - 1)
    again = directory.killed()
    # At the start of the segment that became shorter: only a flush keeps lost power from bringing its old end back.
    assert directory.on_disk(RECOVERY_POINT) == again.recovery_point == again.segments.active.base_offset == 2
    assert again.log_end_offset == 3


@pytest.mark.parametrize("clean", [True, False])
def test_a_rebuilt_index_of_aborted_transactions_is_flushed(fixture: LogFixture, clean: bool) -> None:
    """A flush syncs nothing below the recovery point, and lost power could leave the new index empty."""
    log = fixture.create()
    fill(log, [batch(1, pid=4, sequence=0, transactional=True)])
    log.append_as_leader(marker(4, commit=False), 0, NOW, from_client=False)
    fill(log, [batch(1), batch(1)])
    log.close()
    os.remove(f"{fixture.path}/{0:020d}.index")
    again = fixture.load(clean=clean, recovery_point=4)
    assert (again.recovery_point, again.log_end_offset) == (0, 4)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_rebuilt_index_is_flushed(fixture: LogFixture, suffix: str, clean: bool) -> None:
    """Half of a time index looks right to the next start, and retention would believe its largest timestamp."""
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(12)])
    log.close()
    bases = [segment.base_offset for segment in log.segments]
    os.remove(f"{fixture.path}/{bases[1]:020d}{suffix}")
    assert fixture.load(clean=clean, recovery_point=12).recovery_point == bases[1]


def test_a_time_index_of_zeros_is_rebuilt(fixture: LogFixture) -> None:
    """Lost power leaves zeros of a file that was not synced; a largest timestamp of 0 is older than any retention."""
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(12)])
    log.close()
    path = Path(log.segments[0].time_index.path)
    path.write_bytes(bytes(len(path.read_bytes())))
    again = fixture.load(clean=False, recovery_point=12)
    assert again.segments[0].largest_timestamp() == log.segments[0].largest_timestamp() > 0


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_one_missing_index_keeps_the_producers(fixture: LogFixture, suffix: str) -> None:
    log = fixture.create()
    fill(log, [batch(2, pid=4, sequence=0)])
    log.close()
    os.remove(f"{fixture.path}/{0:020d}{suffix}")
    assert fixture.load(clean=True, recovery_point=2).producer_state.entries[4].last_sequence == 1


# -- leader epochs


def written(fixture: LogFixture, entries: list[tuple[int, int]], end: int) -> Log:
    """A log of single records up to ``end`` whose epochs begin as ``entries`` say."""
    log = fixture.create()
    starts = [start for _, start in entries]
    for offset in range(end):
        epoch = entries[sum(start <= offset for start in starts) - 1][0]
        log.append_as_leader(batch(1, size=50), epoch, NOW)
    assert log.epochs.entries == entries
    return log


ENTRIES = [(0, 0), (1, 3), (2, 45), (3, 91)]


@pytest.mark.parametrize("recovery_point", [0, 2, 45, 52, 91, 99])
def test_recovery_keeps_where_epochs_begin(fixture: LogFixture, recovery_point: int) -> None:
    written(fixture, ENTRIES, 100)
    assert fixture.load(recovery_point=recovery_point).epochs.entries == ENTRIES


@pytest.mark.parametrize("segment", [0, 1, 9])
def test_one_missing_index_keeps_later_epochs(fixture: LogFixture, segment: int) -> None:
    log = written(fixture, ENTRIES, 100)
    log.close()
    os.remove(f"{fixture.path}/{log.segments.bases[segment]:020d}.index")
    assert fixture.load(clean=True, recovery_point=100).epochs.entries == ENTRIES


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0\n2\n0 0\n1 3\n", id="older than the log"),
        pytest.param("0\n5\n0 0\n1 3\n2 45\n3 91\n4 95\n", id="an epoch without batches within another's"),
        pytest.param("0\n4\n0 0\n1 3\n2 45\n3 80\n", id="a start among the batches of an earlier epoch"),
        pytest.param("0\n4\n0 0\n1 3\n2 45\n3 9", id="the last line is torn"),
        pytest.param("0\n4\n0 0\n1 3\n2 4\0\0\0\0\0\0\0", id="zeros at the end"),
        pytest.param("", id="empty"),
    ],
)
def test_what_lost_power_leaves_of_the_epoch_file(fixture: LogFixture, text: str) -> None:
    log = written(fixture, ENTRIES, 100)
    Path(fixture.path, EPOCHS).write_text(text)
    base = max(base for base in log.segments.bases if base <= 40)
    assert fixture.load(recovery_point=base).epochs.entries == ENTRIES
    assert Path(fixture.path, EPOCHS).read_text() == "0\n4\n0 0\n1 3\n2 45\n3 91\n"


def test_an_epoch_whose_first_batches_were_compacted_away_keeps_its_start(fixture: LogFixture) -> None:
    """A later start would leave followers with a tail of the epoch before, which the leader has replaced."""
    log = fixture.create()
    for base, epoch in ((0, 0), (10, 0), (20, 2), (30, 2)):
        log.append_as_follower(batch(1, base=base, leader_epoch=epoch))
    Path(fixture.path, EPOCHS).write_text("0\n2\n0 0\n2 15\n")
    assert fixture.load(recovery_point=0).epochs.entries == [(0, 0), (2, 15)]


@pytest.mark.parametrize("seed", range(40))
def test_epochs_equal_those_of_the_batches(tmp_path: Path, seed: int) -> None:
    """Random epochs, recovery points, truncations and restarts, clean and unclean, with whole and lost indexes."""
    rng = random.Random(seed)
    fixture = LogFixture(str(tmp_path), segment_bytes=rng.choice([500, 900, 5000]), file_delete_delay_ms=0)
    log = fixture.create()
    epoch = 0
    for _ in range(60):
        action = rng.choice(["append"] * 6 + ["elect"] * 3 + ["cut", "flush", "clean", "kill", "kill", "start"])
        if action == "append":
            for _ in range(rng.randint(1, 10)):
                log.append_as_leader(batch(rng.randint(1, 4), size=rng.randint(0, 80)), epoch, NOW)
        elif action == "elect":
            epoch += rng.randint(1, 3)
        elif action == "flush":
            log.flush(rng.choice([None, log.segments.active.base_offset]))
        elif action == "cut":
            bases = [header.base_offset for segment in log.segments for _, header in segment.headers()]
            if bases:
                log.truncate_to(max(rng.choice(bases), log.log_start_offset))
        elif action == "start" and log.log_end_offset > log.log_start_offset:
            log.update_high_watermark(log.log_end_offset)
            log.increment_log_start_offset(rng.randint(log.log_start_offset, log.log_end_offset - 1))
            log.delete_old_segments(NOW)
        elif action in ("clean", "kill"):
            clean = action == "clean"
            if clean:
                log.close()
            for base in log.segments.bases:
                if rng.random() < 0.1:
                    Path(fixture.path, f"{base:020d}.index").unlink(missing_ok=True)
            recovery_point = log.log_end_offset if clean else rng.randint(0, log.recovery_point)
            log = fixture.load(clean, recovery_point, log.log_start_offset)
        # An epoch that begins at the end has no batch yet.
        known = [(epoch, start) for epoch, start in log.epochs.entries if start < log.log_end_offset]
        assert known == epochs_of_batches(log), action


# -- what lost power may leave


def test_batches_behind_a_hole_between_two_segments_are_dropped(fixture: LogFixture) -> None:
    """The end of one file was lost, the next file was not; the leader would never send what is missing."""
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(12)])
    second = log.segments[1]
    first_batch = next(iter(second.headers()))[1].size
    os.truncate(second.path, first_batch)
    again = fixture.load(recovery_point=0)
    assert again.log_end_offset == second.base_offset + 1
    assert again.segments.bases == log.segments.bases[:2]


def test_segments_that_overlap_are_cut(fixture: LogFixture) -> None:
    """A truncation that did not reach the disk, and a segment begun after it that did."""
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(6)])
    bases = log.segments.bases
    os.rename(f"{fixture.path}/{bases[2]:020d}.log", f"{fixture.path}/{bases[2] - 1:020d}.log")
    for suffix in (".index", ".timeindex"):
        os.remove(f"{fixture.path}/{bases[2]:020d}{suffix}")
    assert fixture.load(recovery_point=0).log_end_offset == bases[2]


# trap: kafkalite/log/log_loader.py: Lost power takes the end of a segment of a compacted topic, and the hole is taken
# for the work of compaction.
@pytest.mark.parametrize(("cleaned_to", "end"), [(6, 5), (0, 3)])
@pytest.mark.parametrize("policy", [("compact",), ("delete",)])
def test_only_holes_that_compaction_made_stay(
    fixture: LogFixture, policy: tuple[str, ...], cleaned_to: int, end: int
) -> None:
    fixture.config = LogConfig(segment_bytes=300, cleanup_policy=policy)
    log = fixture.create()
    for base in range(4):
        log.append_as_follower(batch(1, base=base, size=50))
    second = log.segments[1]
    os.truncate(second.path, next(iter(second.headers()))[1].size)
    log.append_as_follower(batch(1, base=4, size=50))
    again = fixture.loader().load(False, 0, 0, cleaned_to)
    assert again.log_end_offset == end


def test_the_clean_mark_is_gone_for_good(directory: Directory) -> None:
    """Else lost power could bring it back, and no batch of this life would be looked at."""
    run(directory.manager.shutdown())
    synced: list[list[str]] = []

    class Watched(FaultyFileSystem):
        def sync_dir(self, path: str) -> None:
            synced.append(os.listdir(path))
            super().sync_dir(path)

    directory.fs = Watched()
    directory._start()
    assert synced and not any(".kafka_cleanshutdown" in names for names in synced)


class Syncs(FaultyFileSystem):
    """Notes which paths were forced to the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def fsync(self, fd: int) -> None:
        self.paths.append(os.readlink(f"/proc/self/fd/{fd}"))
        super().fsync(fd)

    def sync_dir(self, path: str) -> None:
        self.paths.append(path)
        super().sync_dir(path)


def test_a_truncation_makes_the_removal_of_segments_durable(fixture: LogFixture) -> None:
    """Segments that came back would stand behind batches that were written after the truncation."""
    fixture.fs = fs = Syncs()
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(12)])
    fs.paths.clear()
    log.truncate_to(log.segments[1].base_offset + 1)
    assert fixture.path in fs.paths


def test_the_first_flush_makes_the_folder_itself_durable(directory: Directory) -> None:
    directory.fs = fs = Syncs()
    directory.manager._release_dirs()
    log = directory._start().get_or_create(TP, uuid.UUID(int=5), True)
    fill(log, [batch(1)])
    fs.paths.clear()
    log.flush()
    assert {log.dir, directory.path, f"{log.dir}/partition.metadata"} <= set(fs.paths)
    fill(log, [batch(1)])
    fs.paths.clear()
    log.flush()
    assert directory.path not in fs.paths


def test_a_clean_shutdown_makes_the_producer_snapshot_durable(directory: Directory) -> None:
    """Without it a clean start knows no producer, and takes every batch of theirs twice."""
    directory.fs = fs = Syncs()
    directory.manager._release_dirs()
    log = directory._start().get_or_create(TP, None, True)
    fill(log, [batch(1, pid=4, sequence=0)])
    log.flush()
    fs.paths.clear()
    run(directory.manager.shutdown())
    assert f"{log.dir}/{1:020d}.snapshot" in fs.paths


def test_a_deletion_is_durable_when_it_is_done(directory: Directory) -> None:
    """A folder that came back would keep a topic of that name, with another id, from being made here."""
    directory.fs = fs = Syncs()
    directory.manager._release_dirs()
    log = directory._start().get_or_create(TP, None, True)
    fs.paths.clear()
    run(directory.manager.delete(TP))
    assert log.dir.endswith("-delete") and directory.path in fs.paths


def test_a_flush_that_failed_leaves_the_epoch_file_to_the_next(fixture: LogFixture) -> None:
    fixture.fs = fs = Syncs()
    log = fixture.create()
    fill(log, [batch(1)], leader_epoch=3)
    fs.fail = {"open": FULL}
    fs.only = EPOCHS
    work = log.prepare_flush()
    assert work is not None
    with pytest.raises(OSError):
        work.run()
    fs.fail.clear()
    fs.paths.clear()
    log.flush()
    assert log.epochs.path in fs.paths


def refuse_epoch_files(fixture: LogFixture) -> None:
    """From now on the disk has no room for a new epoch file."""
    fixture.fs.fail = {"write_file": FULL}
    fixture.fs.only = EPOCHS


@pytest.mark.parametrize("clean", [False, True])
def test_a_flush_writes_the_epochs_that_a_full_disk_refused(fixture: LogFixture, clean: bool) -> None:
    log = fixture.create()
    fill(log, [batch(1)])
    refuse_epoch_files(fixture)
    fill(log, [batch(1)], leader_epoch=1)
    fixture.fs.fail.clear()
    fill(log, [batch(1, size=60) for _ in range(4)], leader_epoch=1)
    assert len(log.segments) > 1, "no start reads the closed segment, in which epoch 1 begins"
    log.flush()
    if clean:
        log.close()
    assert fixture.load(clean, log.recovery_point).epochs.entries == [(0, 0), (1, 1)]


def test_the_recovery_point_does_not_pass_an_epoch_that_is_not_in_the_file(fixture: LogFixture) -> None:
    log = fixture.create()
    refuse_epoch_files(fixture)
    fill(log, [batch(1)], leader_epoch=1)
    with pytest.raises(ApiError):
        log.flush()
    assert (log.recovery_point, fixture.failures) == (0, []), "a full disk does not end the directory"


def test_an_append_that_cannot_be_flushed_for_its_epoch_changes_nothing(tmp_path: Path) -> None:
    fixture = LogFixture(str(tmp_path), flush_messages=1)
    log = fixture.create()
    fill(log, [batch(1)])
    refuse_epoch_files(fixture)
    log.assign_epoch_start(1, 1)
    with pytest.raises(ApiError):
        log.append_as_leader(batch(1), 1, NOW)
    assert (log.log_end_offset, fixture.failures) == (1, [])
    fixture.fs.fail.clear()
    log.append_as_leader(batch(1), 1, NOW)
    assert (log.log_end_offset, log.recovery_point) == (2, 2)


def test_a_follower_does_not_flush_over_an_epoch_that_is_not_in_the_file(tmp_path: Path) -> None:
    fixture = LogFixture(str(tmp_path), flush_messages=1)
    log = fixture.create()
    refuse_epoch_files(fixture)
    with pytest.raises(ApiError):
        log.append_as_follower(batch(1, leader_epoch=1))
    assert (log.log_end_offset, log.recovery_point, fixture.failures) == (1, 0, [])
    fixture.fs.fail.clear()
    log.append_as_follower(batch(1, base=1, leader_epoch=1))
    assert fixture.load(recovery_point=log.recovery_point).epochs.entries == [(1, 0)]
    assert log.recovery_point == 2


def test_an_append_whose_flush_was_refused_counts_for_its_producer(tmp_path: Path) -> None:
    """Its batch is in the log, so what the producer sends again is a duplicate."""
    fixture = LogFixture(str(tmp_path), flush_messages=1, index_interval_bytes=0)
    log = fixture.create()
    log.append_as_leader(batch(1, pid=1, sequence=0), 0, NOW)
    fixture.fs.fail, fixture.fs.only = {"pwrite": FULL}, ".index"
    with pytest.raises(ApiError):
        log.append_as_leader(batch(1, pid=1, sequence=1), 0, NOW)
    fixture.fs.fail = {}
    assert log.append_as_leader(batch(1, pid=1, sequence=1), 0, NOW).first_offset == 1
    assert (log.log_end_offset, fixture.failures) == (2, [])
    assert log.recovery_point == 2, "it is on the disk before it is acknowledged"


def test_an_fsync_that_fails_ends_the_directory_even_on_a_full_disk(fixture: LogFixture) -> None:
    """The kernel reports it once, and drops what it could not write: a second fsync proves nothing."""
    log = fixture.create()
    fill(log, [batch(1)])
    fixture.fs.fail["fsync"] = FULL
    with pytest.raises(ApiError):
        log.flush()
    assert fixture.failures == [fixture.root] and log.recovery_point == 0


def test_many_segments_are_flushed_in_steps(fixture: LogFixture) -> None:
    """After an unclean start, with files of thousands of segments open at once, none would be left for clients."""
    fixture.config = LogConfig(segment_bytes=130)
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(150)])
    again = fixture.load(recovery_point=0)
    assert len(again.segments) == 150
    steps = []
    while (work := again.prepare_flush()) is not None:
        work.run()
        again.flushed(work)
        steps.append(again.recovery_point)
    # Each step begins with the segment that ends at the recovery point.
    assert steps == [64, 127, 150]
