"""The simulated disk: what it keeps and what it loses; and a real log on it, through kills and lost power."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import FilePool, FileSystem
from kafkalite.log.log import Log, LogServices
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_loader import LogLoader
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.simulation.disk import DiskMount, SimDisk
from kafkalite.testing.simulation.loaded_log import check_loaded_log
from tests.log.fixtures import NOW, PRODUCER_EXPIRATION_MS, LazyOwner, batch, marker

TP = TopicPartition("t", 0)


@pytest.fixture
def disk(tmp_path: Path) -> SimDisk:
    disk = SimDisk(ManualClock().time_ms)
    disk.mount().make_dirs(f"{tmp_path}/d")
    return disk


def outcomes(prepare: Callable[[DiskMount, str], object], tmp_path: Path, look: Callable[[str], object]) -> set[object]:
    """The results of ``look`` after ``prepare`` and a power loss, with many seeds."""
    found = set()
    for seed in range(80):
        path = f"{tmp_path}/{seed}"
        disk = SimDisk(ManualClock().time_ms)
        fs = disk.mount()
        fs.make_dirs(path)
        prepare(fs, path)
        disk.power_lost(random.Random(seed))
        found.add(look(path))
    return found


def written(fs: DiskMount, path: str, *parts: bytes) -> int:
    """An open file with ``parts``, each written by itself."""
    fd = fs.open(path, create=True)
    position = 0
    for part in parts:
        fs.pwrite(fd, part, position)
        position += len(part)
    return fd


def content(path: str) -> bytes | None:
    return Path(path).read_bytes() if os.path.exists(path) else None


def test_a_kill_keeps_everything(disk: SimDisk, tmp_path: Path) -> None:
    fs = disk.mount()
    path = f"{tmp_path}/d/a"
    written(fs, path, b"one", b"two")
    fs.rename(path, path + ".b")
    disk.process_died()
    assert content(path + ".b") == b"onetwo" and content(path) is None


def test_calls_of_a_dead_process_have_no_effect(disk: SimDisk, tmp_path: Path) -> None:
    fs = disk.mount()
    path = f"{tmp_path}/d/a"
    fd = written(fs, path, b"one")
    assert fs.lock(f"{tmp_path}/d/.lock") == 0 and fs.lock(f"{tmp_path}/d/.lock") is None
    later = disk.mount()
    assert later.lock(f"{tmp_path}/d/.lock") == 0, "the lock went with the process"
    fs.pwrite(fd, b"two", 3)
    fs.truncate(fd, 0)
    fs.fsync(fd)
    fs.close(fd)
    fs.unlock(f"{tmp_path}/d/.lock", 0)
    fs.rename(path, path + ".b")
    fs.remove(path)
    fs.write_file(path, b"three")
    fs.make_dir(f"{tmp_path}/d/x")
    fs.remove_tree(f"{tmp_path}/d")
    with pytest.raises(OSError):
        fs.open(path)
    assert content(path) == b"one" and later.list_dir(f"{tmp_path}/d") == [".lock", "a"]
    assert later.lock(f"{tmp_path}/d/.lock") is None


def test_lost_power_keeps_a_prefix_of_the_writes(tmp_path: Path) -> None:
    def prepare(fs: DiskMount, path: str) -> None:
        fd = written(fs, f"{path}/a", b"synced")
        fs.fsync(fd)
        fs.sync_dir(path)
        for number in range(4):
            fs.pwrite(fd, b"%d" % number * 10, 6 + 10 * number)

    found = outcomes(prepare, tmp_path, lambda path: content(f"{path}/a"))
    whole = b"synced" + b"".join(b"%d" % n * 10 for n in range(4))
    assert {whole[: 6 + 10 * kept] for kept in range(5)} <= found
    for one in found:
        assert isinstance(one, bytes)
        kept = len(one.rstrip(b"\0"))
        assert whole.startswith(one[:kept]) and (kept - 6) % 10 == 0
    assert any(isinstance(one, bytes) and one.endswith(b"\0") for one in found), "zeros in place of data"


def test_lost_power_tears_a_write_at_a_block(tmp_path: Path) -> None:
    def prepare(fs: DiskMount, path: str) -> None:
        fd = written(fs, f"{path}/a", b"s" * 100)
        fs.fsync(fd)
        fs.sync_dir(path)
        fs.pwrite(fd, b"x" * 10_000, 100)

    sizes = outcomes(prepare, tmp_path, lambda path: len((content(f"{path}/a") or b"").rstrip(b"\0")))
    assert {100, 10_100} < sizes
    assert all(size in (100, 10_100) or (isinstance(size, int) and size % 512 == 0) for size in sizes)


def test_truncations_and_overwriting_are_undone(tmp_path: Path) -> None:
    def prepare(fs: DiskMount, path: str) -> None:
        fd = written(fs, f"{path}/a", b"0123456789")
        fs.fsync(fd)
        fs.sync_dir(path)
        fs.truncate(fd, 4)
        fs.pwrite(fd, b"ab", 2)
        fs.pwrite(fd, b"cd", 4)

    found = outcomes(prepare, tmp_path, lambda path: content(f"{path}/a"))
    assert {b"0123456789", b"0123", b"01ab", b"01abcd"} <= found
    assert found <= {b"0123456789", b"0123", b"01ab", b"01abcd", b"0123\0\0", b"01ab\0\0"}


@pytest.mark.parametrize("sync", [False, True])
def test_names_are_cut_at_some_point(tmp_path: Path, sync: bool) -> None:
    def prepare(fs: DiskMount, path: str) -> None:
        for name in ("old", "gone"):
            fs.fsync(written(fs, f"{path}/{name}", name.encode()))
        fs.sync_dir(path)
        fs.remove(f"{path}/gone")
        fs.rename(f"{path}/old", f"{path}/new")
        fs.fsync(written(fs, f"{path}/made", b"made"))
        fs.make_dir(f"{path}/sub")
        if sync:
            fs.sync_dir(path)

    def look(path: str) -> object:
        names = sorted(os.listdir(path))
        return tuple((name, b"" if os.path.isdir(f"{path}/{name}") else content(f"{path}/{name}")) for name in names)

    found = outcomes(prepare, tmp_path, look)
    last = (("made", b"made"), ("new", b"old"), ("sub", b""))
    steps = {(("gone", b"gone"), ("old", b"old")), (("old", b"old"),), (("new", b"old"),), last[:2], last}
    assert found == ({last} if sync else steps)


def test_a_file_that_was_replaced_comes_back(tmp_path: Path) -> None:
    def prepare(fs: DiskMount, path: str) -> None:
        fs.write_file(f"{path}/a", b"first")
        fs.write_file(f"{path}/a", b"second", sync=False)

    found = outcomes(prepare, tmp_path, lambda path: content(f"{path}/a"))
    assert found == {b"first", b"second", b"", b"\0" * 6}


def test_folders_that_were_renamed_or_removed_come_back_whole(tmp_path: Path) -> None:
    def prepare(fs: DiskMount, path: str) -> None:
        for name in ("a", "b"):
            fs.make_dir(f"{path}/{name}")
            fs.fsync(written(fs, f"{path}/{name}/f", name.encode()))
            fs.sync_dir(f"{path}/{name}")
        fs.sync_dir(path)
        fs.rename(f"{path}/a", f"{path}/c")
        fs.fsync(written(fs, f"{path}/c/g", b"g"))
        fs.sync_dir(f"{path}/c")
        fs.remove_tree(f"{path}/b")

    def look(path: str) -> object:
        return tuple(sorted(str(found.relative_to(path)) for found in Path(path).rglob("?") if found.is_file()))

    found = outcomes(prepare, tmp_path, look)
    assert {("a/f", "a/g", "b/f"), ("b/f", "c/f", "c/g"), ("c/f", "c/g")} <= found
    assert found <= {("a/f", "a/g", "b/f"), ("b/f", "c/f", "c/g"), ("c/f", "c/g"), ("a/f", "a/g")}


def test_the_next_process_lacks_the_data_that_a_failed_fsync_did_not_write(disk: SimDisk, tmp_path: Path) -> None:
    fs, path = disk.mount(), f"{tmp_path}/d/a"
    fd = written(fs, path, b"synced")
    fs.fsync(fd)
    fs.pwrite(fd, b"lost", 6)
    disk.break_io("fsync")
    with pytest.raises(OSError):
        fs.fsync(fd)
    disk.mend_io()
    assert (content(path), disk.drops) == (b"syncedlost", 0)
    disk.process_died()
    for _ in range(2):
        disk.mount()
        assert (content(path), disk.drops) == (b"synced", 1)


def test_a_full_disk(disk: SimDisk, tmp_path: Path) -> None:
    fs = disk.mount()
    fd = written(fs, f"{tmp_path}/d/a", b"x" * 10)
    disk.fill(6)
    fs.pwrite(fd, b"1234", 10)
    with pytest.raises(OSError) as refused:
        fs.pwrite(fd, b"5678", 14)
    assert refused.value.errno == errno.ENOSPC and content(f"{tmp_path}/d/a") == b"x" * 10 + b"123456"
    fs.pwrite(fd, b"over", 0)
    fs.truncate(fd, 12)
    fs.pwrite(fd, b"5678", 12)
    disk.free()
    fs.pwrite(fd, b"y" * 100, 16)


@pytest.mark.parametrize("kind", ["read", "write", "fsync"])
def test_a_broken_disk(disk: SimDisk, tmp_path: Path, kind: str) -> None:
    fs = disk.mount()
    fd = written(fs, f"{tmp_path}/d/a", b"x")
    work: dict[str, Callable[[], object]] = {
        "read": lambda: fs.pread(fd, 1, 0),
        "write": lambda: fs.pwrite(fd, b"y", 0),
        "fsync": lambda: fs.fsync(fd),
    }
    disk.break_io(kind, after=2)
    for _ in range(2):
        work[kind]()
    with pytest.raises(OSError) as refused:
        work[kind]()
    assert refused.value.errno == errno.EIO
    disk.mend_io()
    work[kind]()


def test_data_of_a_failed_fsync_are_never_written(tmp_path: Path) -> None:
    def prepare(fs: DiskMount, path: str) -> None:
        fd = written(fs, f"{path}/a", b"first")
        fs.fsync(fd)
        fs.sync_dir(path)
        fs.pwrite(fd, b"second", 5)
        fs._disk.break_io("fsync")
        with pytest.raises(OSError):
            fs.fsync(fd)
        fs._disk.mend_io()
        fs.fsync(fd)

    assert outcomes(prepare, tmp_path, lambda path: (content(f"{path}/a") or b"").rstrip(b"\0")) == {b"first"}


def test_the_next_process_does_not_read_what_a_failed_fsync_did_not_write(disk: SimDisk, tmp_path: Path) -> None:
    fs = disk.mount()
    path = f"{tmp_path}/d/a"
    fd = written(fs, path, b"first")
    fs.fsync(fd)
    fs.sync_dir(f"{tmp_path}/d")
    fs.pwrite(fd, b"second", 5)
    disk.break_io("fsync")
    with pytest.raises(OSError):
        fs.fsync(fd)
    disk.mend_io()
    assert content(path) == b"firstsecond", "the process itself still sees the page cache"
    fs = disk.mount()
    assert content(path) == b"first"
    fd = fs.open(path)
    fs.pwrite(fd, b"third", 5)
    fs.fsync(fd)
    disk.power_lost(random.Random(1))
    assert content(path) == b"firstthird", "its own fsync has succeeded"


def test_flipped_bit_is_one_bit(disk: SimDisk, tmp_path: Path) -> None:
    path = f"{tmp_path}/d/a"
    written(disk.mount(), path, b"\0" * 50)
    disk.flip_bit(path, 7, 3)
    assert content(path) == bytes(7) + b"\x08" + bytes(42)
    disk.flip_bit(path, 7, 3)
    assert content(path) == bytes(50)


def test_one_seed_is_one_outcome(tmp_path: Path) -> None:
    def life(path: str) -> list[tuple[str, bytes]]:
        disk = SimDisk(ManualClock().time_ms)
        fs = disk.mount()
        fs.make_dirs(path)
        rng = random.Random(5)
        for number in range(20):
            fd = written(fs, f"{path}/{number}", *(b"x" * rng.randrange(2000) for _ in range(5)))
            if rng.random() < 0.3:
                fs.fsync(fd)
        disk.power_lost(random.Random(6))
        return [(found.name, found.read_bytes()) for found in sorted(Path(path).iterdir())]

    assert life(f"{tmp_path}/a") == life(f"{tmp_path}/b")


# -- a log on it


class CheckpointOwner(LazyOwner):
    """Lowers the checkpoints of its machine before a truncation."""

    def __init__(self, fs: FileSystem, machine: LogOnDisk) -> None:
        super().__init__(fs)
        self._machine = machine

    def before_truncation(self, log: Log, first: int, end: int) -> None:  # noqa: ARG002
        self._machine.checkpoint = min(self._machine.checkpoint, log.recovery_point_after_cut(end))
        self._machine.start = min(self._machine.start, end)


class LogOnDisk:
    """A disk with one log, and the model of what must be in it.

    ``records`` are its batches by base offset, ``former`` what they were before each truncation that is not known to be
    on the disk. What lies below ``durable`` must survive lost power.
    """

    def __init__(self, path: str, rng: random.Random) -> None:
        self.rng = rng
        self.clock = ManualClock()
        self.disk = SimDisk(self.clock.time_ms)
        self.path = path
        self.folder = f"{path}/t-0"
        self.config = LogConfig(segment_bytes=rng.choice([700, 2000, 9000]), index_interval_bytes=rng.choice([0, 300]))
        self.records: dict[int, bytes] = {}
        self.former: list[dict[int, bytes]] = []
        self.durable = 0
        self.checkpoint = 0
        self.start = 0
        self.epoch = 0
        self.sequences = [0, 0]
        self.fs = self.disk.mount()
        self.fs.make_dirs(path)
        self.fs.make_dir(self.folder)
        self.log = self._loader().create()
        self._opened()

    def _loader(self) -> LogLoader:
        self.services = LogServices(self.fs, self.clock, PRODUCER_EXPIRATION_MS, FilePool(8), random.Random(1))
        return LogLoader(TP, self.folder, self.path, self.config, self.services, CheckpointOwner(self.fs, self))

    def _opened(self) -> None:
        for index in range(len(self.sequences)):
            entry = self.log.producer_state.entries.get(index)
            self.sequences[index] = 0 if entry is None else entry.last_sequence + 1

    def append(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 8)):
            base, count = self.log.log_end_offset, rng.randint(1, 4)
            pid = rng.randrange(-1, len(self.sequences))
            transactional = pid == 1
            entry = self.log.producer_state.entries.get(pid)
            if transactional and entry is not None and entry.current_txn_first_offset >= 0 and rng.random() < 0.4:
                data = marker(pid, commit=rng.random() < 0.5)
                self.log.append_as_leader(data, self.epoch, NOW, from_client=False)
            else:
                sequence = self.sequences[pid] if pid >= 0 else -1
                data = batch(count, size=rng.randrange(120), pid=pid, sequence=sequence, transactional=transactional)
                self.log.append_as_leader(data, self.epoch, NOW)
                if pid >= 0:
                    self.sequences[pid] += count
            self.records[base] = bytes(data)

    def flush(self) -> None:
        self.log.flush(self.rng.choice([None, self.log.segments.active.base_offset]))
        self.durable = max(self.durable, self.log.recovery_point)
        if self.rng.random() < 0.5:
            self.checkpoint = self.log.recovery_point

    def cut(self) -> None:
        offset = self.rng.choice([*self.records, self.log.log_end_offset])
        self.log.truncate_to(offset)
        self.durable = min(self.durable, offset)
        self.former.append(self.records)
        self.records = {base: data for base, data in self.records.items() if base < offset}
        self._opened()

    def elect(self) -> None:
        self.epoch += 1
        if self.rng.random() < 0.5:
            self.log.assign_epoch_start(self.epoch, self.log.log_end_offset)

    def kill(self) -> None:
        end = self.log.log_end_offset
        self.disk.process_died()
        self._load(clean=False)
        assert self.log.log_end_offset == end

    def stop(self) -> None:
        end = self.log.log_end_offset
        self.log.close()
        self.log.flush()
        self.durable = self.checkpoint = self.log.recovery_point
        if self.rng.random() < 0.5:
            self.disk.power_lost(self.rng)
        else:
            self.disk.process_died()
        self._load(clean=True)
        assert self.log.log_end_offset == end

    def lose_power(self) -> None:
        self.disk.power_lost(self.rng)
        self._load(clean=False)
        assert self.log.log_end_offset >= self.durable, "what a flush has proven is lost"
        found = self.found()
        last = max(found, default=-1)
        states = [
            {base: data for base, data in state.items() if base <= last} for state in (self.records, *self.former)
        ]
        assert found in states, "batches of different times"
        self.records = found
        self.epoch = max(self.epoch, self.log.latest_epoch or 0)
        self._opened()

    def _load(self, clean: bool) -> None:
        self.fs = self.disk.mount()
        if not os.path.isdir(self.folder):
            assert self.durable == 0
            self.fs.make_dir(self.folder)
        self.log = self._loader().load(clean, self.checkpoint, self.start)
        self.checkpoint = min(self.checkpoint, self.log.recovery_point)
        assert check_loaded_log(self.log) == []
        assert self.log.recovery_point <= self.durable, "more is taken to be on the disk than was flushed"

    def found(self) -> dict[int, bytes]:
        """Every batch by its base offset."""
        return {
            header.base_offset: segment.read(at, header.size)
            for segment in self.log.segments
            for at, header in segment.headers()
        }


@pytest.mark.parametrize("seed", range(60))
def test_a_log_outlives_kills_and_lost_power(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    machine = LogOnDisk(f"{tmp_path}/data", rng)
    steps: list[str] = []
    actions = ["append"] * 8 + ["flush"] * 2 + ["cut", "elect", "kill", "lose_power", "lose_power", "stop"]
    for _ in range(60):
        steps.append(rng.choice(actions))
        getattr(machine, steps[-1])()
        assert machine.found() == machine.records, steps
