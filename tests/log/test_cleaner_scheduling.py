"""Which log is compacted when, and what truncation, deletion, retention, failures and dead workers do to it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.tasks import InlineExecutor
from kafkalite.common.types import TopicPartition
from kafkalite.log.cleaner.job import Abort, CleaningAborted, CleaningFailed, CleanJob
from kafkalite.log.cleaner.log_cleaner import IDLE_SECONDS
from kafkalite.log.log import Log
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_manager import LogManager
from kafkalite.testing.clock import ManualClock
from tests.log.cleaner_support import QuickFileSystem, StepPool, contents, table, updates
from tests.log.support import NOW, fill, run

BACKOFF = 15.0
COMPACT = LogConfig(cleanup_policy=("compact",), file_delete_delay_ms=1000)


class House:
    """A manager whose compactors work when they are told to."""

    def __init__(self, root: Path, dirs: int = 1, values: dict[str, Any] | None = None) -> None:
        self.dirs = [str(root / f"d{number}") for number in range(dirs)]
        self.values = values or {}
        self.clock = ManualClock()
        self.fs = QuickFileSystem()
        self.start()

    def start(self) -> None:
        self.pool = StepPool(self.fs)
        self.manager = LogManager(
            self.dirs, self.values, self.fs, self.clock, InlineExecutor(), 1, "abc", cleaner_pool=self.pool
        )
        run(self.manager.start())

    def log(self, topic: str, config: LogConfig = COMPACT) -> Log:
        return self.manager.get_or_create(TopicPartition(topic, 0), None, True, config)

    def dirty(self, topic: str, segments: int = 4, config: LogConfig = COMPACT) -> Log:
        """Ten records a segment of one key; the last segment is the active one."""
        log = self.log(topic, config)
        for number in range(segments):
            if number:
                log.roll()
            fill(log, [updates(*(("k", f"v{number}") for _ in range(10)))])
        return log

    def look(self) -> None:
        """The next time at which the manager looks."""
        self.clock.advance(BACKOFF)

    @property
    def orders(self) -> list[Any]:
        return [order for worker in self.pool.alive for order in worker.orders]

    @property
    def jobs(self) -> list[str]:
        """Topics of the rounds that workers have been given."""
        return [Path(order.folder).name[:-2] for order in self.orders if isinstance(order, CleanJob)]

    def checkpoint(self, number: int = 0) -> str:
        path = Path(self.dirs[number], "cleaner-offset-checkpoint")
        return path.read_text() if path.exists() else ""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_round_from_its_beginning_to_its_end(house: House) -> None:
    log = house.dirty("t")
    assert house.pool.workers == []
    house.look()
    assert house.jobs == ["t"]
    house.pool.work()
    assert [offset for offset, _, _ in contents(log)] == [29, *range(30, 40)]
    assert log.segments.bases == [0, 30]
    assert house.checkpoint() == "0\n1\nt 0 30\n"
    assert [name for name in Path(log.dir).iterdir() if name.suffix == ".deleted"]
    house.clock.advance(2)
    assert not [name for name in Path(log.dir).iterdir() if name.suffix == ".deleted"]
    house.look()
    assert house.jobs == [], "nothing is dirty"


def test_the_checkpoint_survives_a_restart(house: House) -> None:
    house.dirty("t")
    house.look()
    house.pool.work()
    run(house.manager.shutdown())
    assert house.pool.alive == []
    house.start()
    house.manager.update_topic_config("t", COMPACT)
    house.look()
    assert house.jobs == []
    again = house.manager.logs[TopicPartition("t", 0)]
    again.update_high_watermark(again.log_end_offset)
    again.roll()
    house.look()
    assert [order.first_dirty_offset for order in house.orders] == [30]


def test_nothing_runs_for_logs_that_only_delete(house: House) -> None:
    house.dirty("t", config=LogConfig())
    house.look()
    assert house.pool.workers == []


def test_compaction_may_be_off(tmp_path: Path) -> None:
    house = House(tmp_path, values={"log.cleaner.enable": False})
    house.dirty("t")
    house.look()
    assert house.pool.workers == []


def test_the_dirtiest_first_and_one_after_the_other(house: House) -> None:
    for topic in "abc":
        house.dirty(topic)
    house.look()
    house.pool.work()
    for topic, segments in (("a", 3), ("b", 5), ("c", 4)):
        log = house.log(topic)
        for _ in range(segments):
            log.roll()
            fill(log, [updates(*(("k", "v") for _ in range(10)))])
    house.look()
    assert house.jobs == ["b"]
    house.look()
    assert house.jobs == ["b"]
    order: list[str] = []
    while house.jobs:
        order += house.jobs
        house.pool.workers[0].work()
    assert order == ["b", "c", "a"]


def test_several_workers_share_what_there_is(tmp_path: Path) -> None:
    house = House(
        tmp_path,
        values={
            "log.cleaner.threads": 2,
            "log.cleaner.dedupe.buffer.size": 1000,
            "log.cleaner.io.buffer.size": 500,
            "log.cleaner.io.max.bytes.per.second": 100.0,
        },
    )
    for topic in "abc":
        house.dirty(topic)
    house.look()
    assert sorted(house.jobs) == ["b", "c"] or len(house.jobs) == 2
    config = house.orders[0].cleaner
    assert (config.dedupe_buffer_size, config.io_buffer_size, config.max_bytes_per_second) == (500, 250, 50.0)
    assert [worker.number for worker in house.pool.workers] == [0, 1]


def test_new_settings_count_at_once(house: House) -> None:
    house.dirty("a")
    house.dirty("b")
    house.manager.update_defaults({"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 1000})
    house.clock.advance(1)
    assert len(house.jobs) == 2
    house.pool.work()
    house.dirty("c")
    house.clock.advance(1)
    assert house.jobs == ["c"]
    house.manager.update_defaults(
        {"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 1000, "log.cleaner.io.max.bytes.per.second": 10.0}
    )
    assert [type(order) for order in house.orders] == [CleanJob, Abort]
    worker = next(worker for worker in house.pool.alive if worker.orders)
    worker.work()
    assert [order.cleaner.max_bytes_per_second for order in house.orders] == [5.0], "the round begins anew"
    house.manager.update_defaults({"log.cleaner.threads": 1})
    house.look()
    assert len(house.pool.alive) == 1


def test_a_worker_without_work_goes(house: House) -> None:
    house.dirty("t")
    house.look()
    house.pool.work()
    house.clock.advance(IDLE_SECONDS - 1)
    assert len(house.pool.alive) == 1
    house.clock.advance(2)
    assert house.pool.alive == []
    house.dirty("u")
    house.look()
    assert house.jobs == ["u"]
    assert len(house.pool.workers) == 2
    house.clock.advance(10 * IDLE_SECONDS)
    assert house.jobs == ["u"], "one that works is not idle"


def test_a_worker_that_dies_is_replaced(house: House) -> None:
    log = house.dirty("t")
    house.look()
    house.pool.workers[0].orders.clear()
    house.pool.workers[0].closed = True
    house.pool.workers[0].die("killed")
    house.look()
    assert house.jobs == ["t"]
    assert len(house.pool.workers) == 2
    house.pool.work()
    assert log.segments.bases == [0, 30]


def test_others_have_their_turn_when_a_log_kills_its_workers(house: House) -> None:
    house.dirty("killer", 9)
    house.look()
    house.dirty("t")
    seen = []
    for _ in range(8):
        seen += house.jobs
        for worker in house.pool.alive:
            if house.jobs == ["killer"]:
                worker.closed = True
                worker.die("killed")
            else:
                worker.work()
        house.look()
    assert seen.count("killer") > 1
    assert "t" in seen


# -- what others do to the log


def test_truncation_gives_the_round_up_at_once(house: House) -> None:
    log = house.dirty("t")
    house.look()
    log.truncate_to(20)
    log.update_high_watermark(20)
    assert [type(order) for order in house.orders] == [CleanJob, Abort]
    worker = house.pool.workers[0]
    job, abort = worker.orders
    assert job.number == abort.number
    worker.orders.clear()
    # The files went under its hands.
    worker.tell(CleaningFailed(abort.number, "no such file", errno.ENOENT))
    assert [order.segments[-1].base_offset for order in house.orders] == [10]
    house.pool.work()
    assert [offset for offset, _, _ in contents(log)] == [19]


# trap: kafkalite/log/cleaner/log_cleaner.py: The result of cleaning a log that was truncated or deleted meanwhile is
# swapped in.
def test_what_an_aborted_round_still_reports_is_passed_over(house: House) -> None:
    log = house.dirty("t")
    before = contents(log)
    house.look()
    worker = house.pool.workers[0]
    house.manager.update_topic_config("t", LogConfig())
    house.manager.update_topic_config("t", COMPACT)
    # The worker does not read the order before it has done everything.
    abort = worker.orders.pop()
    worker.work()
    assert contents(log) == before
    assert house.checkpoint() == ""
    house.look()
    assert house.jobs == [], "the worker has not let go of it"
    worker.orders.append(abort)
    worker.work()
    assert not [name for name in Path(log.dir).iterdir() if name.suffix == ".cleaned"]
    assert house.jobs == ["t"]
    house.pool.work()
    assert [offset for offset, _, _ in contents(log)] == [29, *range(30, 40)]


def test_a_cut_of_the_active_segment_disturbs_nobody(house: House) -> None:
    log = house.dirty("t")
    house.look()
    log.truncate_to(35)
    assert house.jobs == ["t"]
    assert [type(order) for order in house.orders] == [CleanJob]


@pytest.mark.parametrize(("offset", "checkpoint"), [(25, "0\n1\nt 0 25\n"), (35, "0\n1\nt 0 30\n")])
def test_truncation_takes_the_checkpoint_back(house: House, offset: int, checkpoint: str) -> None:
    log = house.dirty("t")
    house.look()
    house.pool.work()
    log.truncate_to(offset)
    assert house.checkpoint() == checkpoint


def test_a_full_truncation_takes_all_of_it(house: House) -> None:
    log = house.dirty("t")
    house.look()
    house.pool.work()
    log.truncate_fully_and_start_at(7)
    assert house.checkpoint() == "0\n1\nt 0 0\n"
    house.look()
    assert house.checkpoint() == "0\n1\nt 0 7\n"


def test_deletion_gives_the_round_up(house: House) -> None:
    log = house.dirty("t")
    house.look()
    house.pool.work()
    log.roll()
    fill(log, [updates(("k", "v"))])
    house.look()
    assert house.jobs == ["t"]
    run(house.manager.delete(log.topic_partition))
    assert house.checkpoint() == "0\n0\n"
    again = house.dirty("t")
    house.look()
    assert house.jobs == ["t"], "only the old one"
    house.pool.work()
    house.look()
    house.pool.work()
    assert again.segments.bases == [0, 30]


def test_a_policy_that_no_longer_compacts(house: House) -> None:
    log = house.dirty("t")
    house.look()
    house.manager.update_topic_config("t", LogConfig())
    house.pool.work()
    assert len(log.segments) == 4
    house.look()
    assert house.jobs == []


def test_retention_of_compacted_logs_waits_for_the_round(house: House) -> None:
    config = LogConfig(cleanup_policy=("compact", "delete"), retention_ms=60_000, file_delete_delay_ms=0)
    log = house.dirty("t", config=config)
    house.look()
    house.clock.advance(1000)
    assert log.segments.bases == [0, 10, 20, 30]
    house.pool.work()
    assert log.segments.bases == [40], "the round has ended, and what it left is too old"
    assert log.log_start_offset == 40


def test_what_delete_records_hides_goes_though_the_policy_is_compact(house: House) -> None:
    log = house.dirty("t")
    log.increment_log_start_offset(25)
    house.look()
    assert log.segments.bases == [20, 30]


# -- failures


def failing(house: House, code: int) -> Log:
    log = house.dirty("t")
    house.look()
    worker = house.pool.workers[0]
    number = worker.orders.pop().number
    worker.tell(CleaningFailed(number, "no luck", code))
    return log


def test_bytes_that_cannot_be_compacted_are_left_alone(house: House) -> None:
    log = failing(house, 0)
    house.look()
    assert house.jobs == []
    assert house.manager.offline_dirs == set()
    log.increment_log_start_offset(10)
    house.look()
    assert log.segments.bases == [10, 20, 30], "only compaction is off"
    run(house.manager.delete(log.topic_partition))
    house.dirty("t")
    house.look()
    assert house.jobs == ["t"]


def test_a_full_disk_is_tried_again_later(house: House) -> None:
    failing(house, errno.ENOSPC)
    assert house.jobs == []
    house.look()
    assert house.jobs == ["t"]


def test_a_broken_disk_ends_its_directory(tmp_path: Path) -> None:
    house = House(tmp_path, dirs=2)
    first = failing(house, errno.EIO)
    house.clock.advance(0)
    assert house.manager.offline_dirs == {first.log_dir}
    house.dirty("u")
    house.look()
    assert house.jobs == ["u"]


def test_a_directory_that_fails_takes_its_rounds_with_it(tmp_path: Path) -> None:
    house = House(tmp_path, dirs=2)
    log = house.dirty("t")
    house.look()
    house.manager.handle_failure(log.log_dir)
    house.pool.work()
    assert house.manager.get(log.topic_partition) is None
    assert house.checkpoint(house.dirs.index(log.log_dir)) == ""


def test_a_failed_swap_ends_the_directory_and_nothing_is_lost(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    log = house.dirty("t")
    expected = table(contents(log))
    house.look()

    def broken(_source: str, target: str) -> None:
        if target.endswith(".swap"):
            raise OSError(errno.EIO, "no luck")

    monkeypatch.setattr(house.fs, "rename", broken)
    house.pool.work()
    house.clock.advance(0)
    monkeypatch.undo()
    assert house.manager.offline_dirs == set(house.dirs)
    house.start()
    again = house.manager.logs[log.topic_partition]
    again.update_high_watermark(again.log_end_offset)
    assert table(contents(again)) == expected


def test_reports_of_another_round_are_passed_over(house: House) -> None:
    log = house.dirty("t")
    house.look()
    worker = house.pool.workers[0]
    worker.tell(CleaningAborted(worker.orders[0].number + 7))
    worker.tell(CleaningFailed(worker.orders[0].number - 1, "old"))
    assert house.manager._cleaner is not None
    assert house.manager._cleaner.is_busy(log.topic_partition)
    house.pool.work()
    assert log.segments.bases == [0, 30]


def test_the_clock_of_the_broker_sets_deadlines(house: House) -> None:
    house.dirty("t")
    house.look()
    assert house.orders[0].now_ms == NOW + BACKOFF * 1000
