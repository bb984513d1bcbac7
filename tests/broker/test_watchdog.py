"""When the watchdog gives a session up, and when not."""

from __future__ import annotations

import threading

import pytest

from kafkalite.broker.watchdog import HangDetector, Watchdog
from kafkalite.testing.clock import ManualClock


@pytest.mark.parametrize(
    ("looks", "fires"),
    [
        pytest.param([(1, 1), (2, 2), (9, 3), (10, 4)], [], id="beats come"),
        pytest.param([(i, 0) for i in range(1, 9)], [8], id="no beat for the whole timeout"),
        pytest.param([(i, 0) for i in range(1, 20)], [8], id="one hang is given up once"),
        pytest.param([(i, 0) for i in range(1, 8)] + [(8, 1), (9, 1)], [], id="a beat in time"),
        pytest.param([(1, 0), (100, 0), (101, 1)], [], id="the whole process was stopped"),
        pytest.param([(i, 0) for i in range(1, 9)] + [(9, 1)] + [(i, 1) for i in range(10, 18)], [8, 17], id="twice"),
    ],
)
def test_the_hang_detector_fires_when_the_heartbeats_stop(looks: list[tuple[int, int]], fires: list[int]) -> None:
    detector = HangDetector(8.0, 0.0)
    assert [now for now, beats in looks if detector.look(now, beats)] == fires


# trap: kafkalite/broker/watchdog.py: A broker whose reactor hangs would keep its session and lead for ever: the
# watchdog gives the session up.
def test_a_hung_clock_gives_the_session_up_with_its_credentials() -> None:
    given_up = threading.Event()
    seen: list[tuple[object, ...]] = []

    def give_up(*what: object) -> bool:
        seen.append(what)
        given_up.set()
        return True

    watchdog = Watchdog("h:1", ManualClock(), give_up)
    watchdog.watch(7, b"p" * 16, 40)
    assert given_up.wait(30)
    watchdog.stop()
    assert seen[0] == ("h:1", 7, b"p" * 16, 40)


def test_the_watchdog_repeats_until_the_session_is_closed() -> None:
    """The hung broker's own ZooKeeper thread can take the session back before it is closed."""
    outcomes = [False, False, True]
    last = threading.Event()
    calls: list[int] = []

    def give_up(_: str, session: int, *__: object) -> bool:
        calls.append(session)
        done = outcomes[len(calls) - 1]
        if done:
            last.set()
        return done

    watchdog = Watchdog("h:1", ManualClock(), give_up)
    watchdog.watch(7, b"p" * 16, 40)
    assert last.wait(30)
    watchdog.stop()
    assert calls == [7, 7, 7]


def test_a_reactor_that_is_back_keeps_its_session() -> None:
    clock = ManualClock()
    calls: list[int] = []

    def give_up(_: str, session: int, *__: object) -> bool:
        calls.append(session)
        watchdog.watch(8, b"p" * 16, 1_000_000)  # a beat
        return False

    watchdog = Watchdog("h:1", clock, give_up)
    watchdog.watch(7, b"p" * 16, 40)
    while not calls:
        threading.Event().wait(0.005)
    watchdog.stop()
    assert calls == [7]
