"""Virtual time, streams of random numbers, and what happens to the events of a process that is stopped or killed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from kafkalite.common.tasks import Future, deferred
from kafkalite.testing.simulation.world import EPOCH_MS, Life, World


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as made:
        yield made


def test_events_happen_in_the_order_of_their_times_and_then_of_their_planning(world: World) -> None:
    seen: list[tuple[float, str]] = []

    def note(name: str) -> None:
        seen.append((world.now, name))

    for delay, name in [(2.0, "late"), (1.0, "first"), (1.0, "second"), (0.0, "now")]:
        world.call_later(delay, note, name)
    world.run_until(1.5)
    assert seen == [(0.0, "now"), (1.0, "first"), (1.0, "second")]
    assert world.now == 1.5
    world.run_until(3.0)
    assert seen[-1] == (2.0, "late")


def test_a_condition_ends_the_run_at_the_event_that_met_it(world: World) -> None:
    seen: list[int] = []
    for number in range(5):
        world.call_later(number, seen.append, number)
    assert world.run_until(lambda: len(seen) == 3, 10.0)
    assert (seen, world.now) == ([0, 1, 2], 2.0)
    assert not world.run_until(lambda: len(seen) == 9, 3.5)
    assert (seen, world.now) == ([0, 1, 2, 3], 3.5)


def test_chance_for_one_purpose_leaves_the_others_alone() -> None:
    plain, busy, other = World(7), World(7), World(8)
    for _ in range(100):
        busy.rng("faults").random()
    drawn = [world.rng("network").random() for world in (plain, busy, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert plain.rng("network") is plain.rng("network")
    assert plain.rng("network").random() != plain.rng("clients").random()


def test_the_digest_tells_histories_apart() -> None:
    def history(delay: float, data: bytes) -> str:
        world = World(1)
        world.node("a").start().call_later(delay, world.mix, data)
        world.run_until(5.0)
        return world.digest()

    assert history(1.0, b"x") == history(1.0, b"x")
    assert len({history(1.0, b"x"), history(1.1, b"x"), history(1.0, b"y")}) == 3


def test_a_paused_process_does_later_what_was_due_and_in_order(world: World) -> None:
    life = world.node("a").start()
    seen: list[str] = []
    life.call_later(1.0, seen.append, "timer")
    cancelled = life.call_later(1.1, seen.append, "cancelled")
    life.threads.call_later(1.2, seen.append, "thread")
    life.pause()
    world.run_until(2.0)
    life.run(seen.append, "arrived")
    cancelled.cancel()
    assert seen == []
    world.run_until(3.0)
    life.resume()
    world.run_until(3.1)
    assert sorted(seen) == ["arrived", "thread", "timer"]
    assert seen.index("timer") < seen.index("arrived")


def test_a_reactor_hangs_while_other_threads_run(world: World) -> None:
    life = world.node("a").start()
    seen: list[str] = []
    life.call_later(1.0, seen.append, "reactor")
    life.threads.call_later(1.0, seen.append, "thread")
    life.hang()
    world.run_until(2.0)
    assert seen == ["thread"]
    life.resume()
    world.run_until(2.1)
    assert seen == ["thread", "reactor"]


def test_a_hung_process_can_be_stopped_as_a_whole(world: World) -> None:
    life = world.node("a").start()
    seen: list[str] = []
    life.threads.call_later(1.0, seen.append, "thread")
    life.hang()
    life.pause()
    world.run_until(2.0)
    assert seen == []
    life.resume()
    world.run_until(2.1)
    assert seen == ["thread"]


@pytest.mark.parametrize(
    ("end", "told"), [(Life.kill, ["guardian", "kernel"]), (Life.lose_power, ["kernel"])], ids=["kill", "power"]
)
def test_no_event_happens_in_a_dead_process(world: World, end: Callable[[Life], None], told: list[str]) -> None:
    life = world.node("a").start()
    seen: list[str] = []
    life.at_death.append(lambda: seen.append("guardian"))
    life.at_end.append(lambda: seen.append("kernel"))
    life.call_later(1.0, seen.append, "timer")
    life.threads.call_later(1.0, seen.append, "thread")
    end(life)
    life.run(seen.append, "arrived")
    end(life)
    life.resume()
    world.run_until(2.0)
    assert seen == told
    assert world.node("a").start().number != life.number


def test_a_killed_process_runs_no_finalizer(world: World) -> None:
    life = world.node("a").start()
    seen: list[str] = []

    async def work() -> None:
        future: Future[None] = Future()
        life.call_later(1.0, future.callback, None)
        try:
            await future
        finally:
            seen.append("finally")

    life.run(lambda: deferred(work()))
    life.kill()
    world.run_until(2.0)
    assert seen == []


def test_a_log_line_has_the_processs_name_and_virtual_time(world: World) -> None:
    log = logging.getLogger("kafkalite.test")
    life = world.node("a").start()

    def fail() -> None:
        raise ValueError("broken")

    life.call_later(1.0, log.info, "hello %s", "world")
    life.call_later(2.0, fail)
    world.run_until(3.0)
    assert [(line.at, line.node, line.text) for line in world.lines][:1] == [(1.0, "a", "hello world")]
    assert [(line.at, line.node, str(line.failure)) for line in world.failures] == [(2.0, "a", "broken")]


def test_an_error_of_the_log_without_an_exception_is_no_failure(world: World) -> None:
    logging.getLogger("kafkalite.test").error("a disk is full")
    assert [line.text for line in world.lines] == ["a disk is full"]
    assert world.failures == []


def test_the_time_of_day_of_a_machine_may_be_off(world: World) -> None:
    life = world.node("a").start()
    world.run_until(1.5)
    assert life.clock.time_ms() == EPOCH_MS + 1500
    world.node("a").clock_offset_ms = -500
    assert life.clock.time_ms() == EPOCH_MS + 1000
    assert life.clock.monotonic() == 1.5
