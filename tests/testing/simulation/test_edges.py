"""Threads, guardian and watchdog of a simulated process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalite.common.tasks import deferred
from kafkalite.testing.simulation.edges import SimExecutor, SimGuardian, SimWatchdog
from kafkalite.testing.simulation.world import Life, World


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as made:
        yield made


def test_work_is_done_later_and_known_later_still(world: World) -> None:
    life = world.node("a").start()
    done: list[float] = []
    known: list[float] = []
    deferred(SimExecutor(life).run(lambda: done.append(world.now))).addCallback(lambda _: known.append(world.now))
    assert (done, known) == ([], [])
    world.run_until(1.0)
    assert 0 < done[0] < known[0] < 0.02


def test_a_failure_of_the_work_comes_back(world: World) -> None:
    life = world.node("a").start()
    failures: list[BaseException] = []

    def work() -> None:
        raise OSError("disk")

    def failed(failure: Any) -> None:
        failures.append(failure.value)

    deferred(SimExecutor(life).run(work)).addErrback(failed)
    world.run_until(1.0)
    assert [str(failure) for failure in failures] == ["disk"]
    assert world.failures == []


def test_threads_work_while_the_reactor_hangs(world: World) -> None:
    life = world.node("a").start()
    seen: list[str] = []
    deferred(SimExecutor(life).run(lambda: seen.append("done"))).addCallback(lambda _: seen.append("known"))
    life.hang()
    world.run_until(1.0)
    assert seen == ["done"]
    life.resume()
    world.run_until(2.0)
    assert seen == ["done", "known"]


def test_a_dead_process_does_no_work(world: World) -> None:
    life = world.node("a").start()
    seen: list[str] = []
    deferred(SimExecutor(life).run(lambda: seen.append("done")))
    life.kill()
    world.run_until(1.0)
    assert seen == []


@pytest.mark.parametrize(
    ("act", "expired"),
    [
        pytest.param(lambda life, _: life.kill(), [7], id="killed"),
        pytest.param(lambda life, _: life.lose_power(), [], id="power lost"),
        pytest.param(lambda life, _: life.pause(), [], id="paused"),
        pytest.param(lambda life, guardian: (guardian.release(), life.kill()), [], id="released before"),
        pytest.param(lambda life, guardian: (guardian.watch(8, b"", 6000), life.kill()), [8], id="a later session"),
    ],
)
def test_the_guardian_ends_the_session_of_a_killed_process(
    world: World, act: Callable[[Life, SimGuardian], object], expired: list[int]
) -> None:
    life = world.node("a").start()
    ended: list[int] = []
    guardian = SimGuardian(life, ended.append)
    guardian.watch(7, b"", 6000)
    act(life, guardian)
    assert ended == []
    world.run_until(0.1)
    assert ended == expired


def test_the_watchdog_ends_the_session_of_a_reactor_that_hangs(world: World) -> None:
    life = world.node("a").start()
    ended: list[float] = []
    watchdog = SimWatchdog(life, lambda _: ended.append(world.now))
    watchdog.watch(7, b"", 6000)
    life.hang()
    watchdog.hung()
    world.run_until(5.0)
    watchdog.back()
    life.resume()
    world.run_until(20.0)
    assert ended == []
    life.hang()
    watchdog.hung()
    world.run_until(30.0)
    assert ended == [26.0]
