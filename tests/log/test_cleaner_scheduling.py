"""Which log is compacted when, and what truncation, deletion, retention, failures and dead workers do to it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.log.cleaner.job import Abort, CleaningAborted, CleaningFailed, CleanJob
from kafkalite.log.cleaner.log_cleaner import IDLE_SECONDS
from kafkalite.log.log import Log
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_manager import LogManager
from kafkalite.testing.clock import InlineExecutor, ManualClock
from tests.log.cleaner_fixtures import QuickFileSystem, StepPool, contents, table, updates
from tests.log.fixtures import NOW, fill, manager_config
from tests.support import run

BACKOFF = 15.0
COMPACT = LogConfig(cleanup_policy=("compact",), file_delete_delay_ms=1000)


class CleanerFixture:
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
            self.dirs,
            manager_config(self.values),
            self.fs,
            self.clock,
            InlineExecutor(),
            1,
            "abc",
            on_dir_failure=lambda _: None,
            cleaner_pool=self.pool,
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
def fixture(tmp_path: Path) -> CleanerFixture:
    return CleanerFixture(tmp_path)


def test_a_round_from_its_beginning_to_its_end(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    assert fixture.pool.workers == []
    fixture.look()
    assert fixture.jobs == ["t"]
    fixture.pool.work()
    assert [offset for offset, _, _ in contents(log)] == [29, *range(30, 40)]
    assert log.segments.bases == [0, 30]
    assert fixture.checkpoint() == "0\n1\nt 0 30\n"
    assert [name for name in Path(log.dir).iterdir() if name.suffix == ".deleted"]
    fixture.clock.advance(2)
    assert not [name for name in Path(log.dir).iterdir() if name.suffix == ".deleted"]
    fixture.look()
    assert fixture.jobs == [], "nothing is dirty"


def test_the_checkpoint_survives_a_restart(fixture: CleanerFixture) -> None:
    fixture.dirty("t")
    fixture.look()
    fixture.pool.work()
    run(fixture.manager.shutdown())
    assert fixture.pool.alive == []
    fixture.start()
    fixture.manager.update_topic_config("t", COMPACT)
    fixture.look()
    assert fixture.jobs == []
    again = fixture.manager.logs[TopicPartition("t", 0)]
    again.update_high_watermark(again.log_end_offset)
    again.roll()
    fixture.look()
    assert [order.first_dirty_offset for order in fixture.orders] == [30]


def test_nothing_runs_for_logs_that_only_delete(fixture: CleanerFixture) -> None:
    fixture.dirty("t", config=LogConfig())
    fixture.look()
    assert fixture.pool.workers == []


def test_compaction_may_be_off(tmp_path: Path) -> None:
    fixture = CleanerFixture(tmp_path, values={"log.cleaner.enable": False})
    fixture.dirty("t")
    fixture.look()
    assert fixture.pool.workers == []


def test_the_dirtiest_first_and_one_after_the_other(fixture: CleanerFixture) -> None:
    for topic in "abc":
        fixture.dirty(topic)
    fixture.look()
    fixture.pool.work()
    for topic, segments in (("a", 3), ("b", 5), ("c", 4)):
        log = fixture.log(topic)
        for _ in range(segments):
            log.roll()
            fill(log, [updates(*(("k", "v") for _ in range(10)))])
    fixture.look()
    assert fixture.jobs == ["b"]
    fixture.look()
    assert fixture.jobs == ["b"]
    order: list[str] = []
    while fixture.jobs:
        order += fixture.jobs
        fixture.pool.workers[0].work()
    assert order == ["b", "c", "a"]


def test_several_workers_share_the_logs_the_buffers_and_the_rate(tmp_path: Path) -> None:
    fixture = CleanerFixture(
        tmp_path,
        values={
            "log.cleaner.threads": 2,
            "log.cleaner.dedupe.buffer.size": 1000,
            "log.cleaner.io.buffer.size": 500,
            "log.cleaner.io.max.bytes.per.second": 100.0,
        },
    )
    for topic in "abc":
        fixture.dirty(topic)
    fixture.look()
    assert sorted(fixture.jobs) == ["b", "c"] or len(fixture.jobs) == 2
    config = fixture.orders[0].cleaner
    assert (config.dedupe_buffer_size, config.io_buffer_size, config.max_bytes_per_second) == (500, 250, 50.0)
    assert [worker.number for worker in fixture.pool.workers] == [0, 1]


def test_new_settings_count_at_once(fixture: CleanerFixture) -> None:
    fixture.dirty("a")
    fixture.dirty("b")
    fixture.manager.update_defaults(manager_config({"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 1000}))
    fixture.clock.advance(1)
    assert len(fixture.jobs) == 2
    fixture.pool.work()
    fixture.dirty("c")
    fixture.clock.advance(1)
    assert fixture.jobs == ["c"]
    fixture.manager.update_defaults(
        manager_config(
            {"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 1000, "log.cleaner.io.max.bytes.per.second": 10.0}
        )
    )
    assert [type(order) for order in fixture.orders] == [CleanJob, Abort]
    worker = next(worker for worker in fixture.pool.alive if worker.orders)
    worker.work()
    assert [order.cleaner.max_bytes_per_second for order in fixture.orders] == [5.0], "the round begins anew"
    fixture.manager.update_defaults(manager_config({"log.cleaner.threads": 1}))
    fixture.look()
    assert len(fixture.pool.alive) == 1


def test_a_worker_without_work_goes(fixture: CleanerFixture) -> None:
    fixture.dirty("t")
    fixture.look()
    fixture.pool.work()
    fixture.clock.advance(IDLE_SECONDS - 1)
    assert len(fixture.pool.alive) == 1
    fixture.clock.advance(2)
    assert fixture.pool.alive == []
    fixture.dirty("u")
    fixture.look()
    assert fixture.jobs == ["u"]
    assert len(fixture.pool.workers) == 2
    fixture.clock.advance(10 * IDLE_SECONDS)
    assert fixture.jobs == ["u"], "one that works is not idle"


def test_a_worker_that_dies_is_replaced(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    fixture.look()
    fixture.pool.workers[0].orders.clear()
    fixture.pool.workers[0].closed = True
    fixture.pool.workers[0].die("killed")
    fixture.look()
    assert fixture.jobs == ["t"]
    assert len(fixture.pool.workers) == 2
    fixture.pool.work()
    assert log.segments.bases == [0, 30]


def test_others_have_their_turn_when_a_log_kills_its_workers(fixture: CleanerFixture) -> None:
    fixture.dirty("killer", 9)
    fixture.look()
    fixture.dirty("t")
    seen = []
    for _ in range(8):
        seen += fixture.jobs
        for worker in fixture.pool.alive:
            if fixture.jobs == ["killer"]:
                worker.closed = True
                worker.die("killed")
            else:
                worker.work()
        fixture.look()
    assert seen.count("killer") > 1
    assert "t" in seen


# -- what others do to the log


def test_truncation_gives_the_round_up_at_once(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    fixture.look()
    log.truncate_to(20)
    log.update_high_watermark(20)
    assert [type(order) for order in fixture.orders] == [CleanJob, Abort]
    worker = fixture.pool.workers[0]
    job, abort = worker.orders
    assert job.number == abort.number
    worker.orders.clear()
    # The files went under its hands.
    worker.tell(CleaningFailed(abort.number, "no such file", errno.ENOENT))
    assert [order.segments[-1].base_offset for order in fixture.orders] == [10]
    fixture.pool.work()
    assert [offset for offset, _, _ in contents(log)] == [19]


# trap: kafkalite/log/cleaner/log_cleaner.py: The result of cleaning a log that was truncated or deleted meanwhile is
# swapped in.
def test_what_an_aborted_round_still_reports_is_passed_over(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    before = contents(log)
    fixture.look()
    worker = fixture.pool.workers[0]
    fixture.manager.update_topic_config("t", LogConfig())
    fixture.manager.update_topic_config("t", COMPACT)
    # The worker does not read the order before it has done everything.
    abort = worker.orders.pop()
    worker.work()
    assert contents(log) == before
    assert fixture.checkpoint() == ""
    fixture.look()
    assert fixture.jobs == [], "the worker has not let go of it"
    worker.orders.append(abort)
    worker.work()
    assert not [name for name in Path(log.dir).iterdir() if name.suffix == ".cleaned"]
    assert fixture.jobs == ["t"]
    fixture.pool.work()
    assert [offset for offset, _, _ in contents(log)] == [29, *range(30, 40)]


def test_truncation_of_the_active_segment_does_not_stop_the_compaction(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    fixture.look()
    log.truncate_to(35)
    assert fixture.jobs == ["t"]
    assert [type(order) for order in fixture.orders] == [CleanJob]


@pytest.mark.parametrize(("offset", "checkpoint"), [(25, "0\n1\nt 0 25\n"), (35, "0\n1\nt 0 30\n")])
def test_truncation_takes_the_checkpoint_back(fixture: CleanerFixture, offset: int, checkpoint: str) -> None:
    log = fixture.dirty("t")
    fixture.look()
    fixture.pool.work()
    log.truncate_to(offset)
    assert fixture.checkpoint() == checkpoint


def test_a_full_truncation_takes_all_of_it(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    fixture.look()
    fixture.pool.work()
    log.truncate_fully_and_start_at(7)
    assert fixture.checkpoint() == "0\n1\nt 0 0\n"
    fixture.look()
    assert fixture.checkpoint() == "0\n1\nt 0 7\n"


def test_deletion_gives_the_round_up(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    fixture.look()
    fixture.pool.work()
    log.roll()
    fill(log, [updates(("k", "v"))])
    fixture.look()
    assert fixture.jobs == ["t"]
    run(fixture.manager.delete(log.topic_partition))
    assert fixture.checkpoint() == "0\n0\n"
    again = fixture.dirty("t")
    fixture.look()
    assert fixture.jobs == ["t"], "only the old one"
    fixture.pool.work()
    fixture.look()
    fixture.pool.work()
    assert again.segments.bases == [0, 30]


def test_a_policy_that_no_longer_compacts(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    fixture.look()
    fixture.manager.update_topic_config("t", LogConfig())
    fixture.pool.work()
    assert len(log.segments) == 4
    fixture.look()
    assert fixture.jobs == []


def test_retention_of_compacted_logs_waits_for_the_round(fixture: CleanerFixture) -> None:
    config = LogConfig(cleanup_policy=("compact", "delete"), retention_ms=60_000, file_delete_delay_ms=0)
    log = fixture.dirty("t", config=config)
    fixture.look()
    fixture.clock.advance(1000)
    assert log.segments.bases == [0, 10, 20, 30]
    fixture.pool.work()
    assert log.segments.bases == [40], "the round has ended, and what it left is too old"
    assert log.log_start_offset == 40


def test_what_delete_records_hides_goes_though_the_policy_is_compact(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    log.increment_log_start_offset(25)
    fixture.look()
    assert log.segments.bases == [20, 30]


# -- failures


def failing(fixture: CleanerFixture, code: int) -> Log:
    log = fixture.dirty("t")
    fixture.look()
    worker = fixture.pool.workers[0]
    number = worker.orders.pop().number
    worker.tell(CleaningFailed(number, "no luck", code))
    return log


def test_bytes_that_cannot_be_compacted_are_left_alone(fixture: CleanerFixture) -> None:
    log = failing(fixture, 0)
    fixture.look()
    assert fixture.jobs == []
    assert fixture.manager.offline_dirs == set()
    log.increment_log_start_offset(10)
    fixture.look()
    assert log.segments.bases == [10, 20, 30], "only compaction is off"
    run(fixture.manager.delete(log.topic_partition))
    fixture.dirty("t")
    fixture.look()
    assert fixture.jobs == ["t"]


def test_a_full_disk_is_tried_again_later(fixture: CleanerFixture) -> None:
    failing(fixture, errno.ENOSPC)
    assert fixture.jobs == []
    fixture.look()
    assert fixture.jobs == ["t"]


def test_a_broken_disk_ends_its_directory(tmp_path: Path) -> None:
    fixture = CleanerFixture(tmp_path, dirs=2)
    first = failing(fixture, errno.EIO)
    fixture.clock.advance(0)
    assert fixture.manager.offline_dirs == {first.log_dir}
    fixture.dirty("u")
    fixture.look()
    assert fixture.jobs == ["u"]


def test_a_directory_that_fails_takes_its_rounds_with_it(tmp_path: Path) -> None:
    fixture = CleanerFixture(tmp_path, dirs=2)
    log = fixture.dirty("t")
    fixture.look()
    fixture.manager.handle_failure(log.log_dir)
    fixture.pool.work()
    assert fixture.manager.get(log.topic_partition) is None
    assert fixture.checkpoint(fixture.dirs.index(log.log_dir)) == ""


def test_a_failed_swap_ends_the_directory_and_nothing_is_lost(
    fixture: CleanerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fixture.dirty("t")
    expected = table(contents(log))
    fixture.look()

    def broken(_source: str, target: str) -> None:
        if target.endswith(".swap"):
            raise OSError(errno.EIO, "no luck")

    monkeypatch.setattr(fixture.fs, "rename", broken)
    fixture.pool.work()
    fixture.clock.advance(0)
    monkeypatch.undo()
    assert fixture.manager.offline_dirs == set(fixture.dirs)
    fixture.start()
    again = fixture.manager.logs[log.topic_partition]
    again.update_high_watermark(again.log_end_offset)
    assert table(contents(again)) == expected


def test_reports_of_another_round_are_passed_over(fixture: CleanerFixture) -> None:
    log = fixture.dirty("t")
    fixture.look()
    worker = fixture.pool.workers[0]
    worker.tell(CleaningAborted(worker.orders[0].number + 7))
    worker.tell(CleaningFailed(worker.orders[0].number - 1, "old"))
    assert fixture.manager._cleaner is not None
    assert fixture.manager._cleaner.is_busy(log.topic_partition)
    fixture.pool.work()
    assert log.segments.bases == [0, 30]


def test_the_clock_of_the_broker_sets_deadlines(fixture: CleanerFixture) -> None:
    fixture.dirty("t")
    fixture.look()
    assert fixture.orders[0].now_ms == NOW + BACKOFF * 1000
