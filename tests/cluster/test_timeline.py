"""The order of the events of brokers whose clocks differ by two seconds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kafkalite.cluster.timeline import merge
from kafkalite.common.events import BrokerEvent, EventKind

AHEAD = {1: 0, 2: 2000, 3: -2000}
"""By how many ms the clock of each broker is ahead."""


def event(broker: int, sequence: int, at: int, kind: EventKind, text: str, **facts: int) -> BrokerEvent:
    """An event at the true time ``at``, with the time of its broker's clock."""
    topic = "t" if "partition" in facts else ""
    return BrokerEvent(broker, sequence, at + AHEAD[broker], kind.value, text, topic=topic, **facts)  # type: ignore[arg-type]


FAILOVER = [
    event(2, 1, 100, EventKind.SESSION, "2: the session of controller 1 closed"),
    event(2, 2, 110, EventKind.CONTROLLER, "2: controller, epoch 8", controller_epoch=8, zxid=50),
    event(3, 1, 111, EventKind.SESSION, "3: the session of controller 1 closed"),
    event(2, 3, 120, EventKind.CONTROLLER, "2: has read the cluster", controller_epoch=8),
    event(
        2, 4, 130, EventKind.LEADERSHIP, "2: t-0 is led by 3", partition=0, leader_epoch=4, controller_epoch=8, zxid=51
    ),
    event(
        2, 5, 131, EventKind.LEADERSHIP, "2: t-1 is led by 2", partition=1, leader_epoch=6, controller_epoch=8, zxid=52
    ),
    event(3, 2, 140, EventKind.LEADERSHIP, "3: leads t-0", partition=0, leader_epoch=4, controller_epoch=8),
    event(3, 3, 150, EventKind.PRODUCE, "3: first produce of t-0", partition=0, leader_epoch=4),
    event(3, 4, 160, EventKind.ISR, "3: ISR of t-0", partition=0, leader_epoch=4, zxid=60),
    event(2, 6, 170, EventKind.REGISTRATION, "2: broker 1 came", controller_epoch=8, cause=61),
]
"""A failover as it was."""
CAUSES = [
    ("2: controller, epoch 8", "3: leads t-0"),
    ("2: t-0 is led by 3", "3: leads t-0"),
    ("3: leads t-0", "3: first produce of t-0"),
    ("2: t-1 is led by 2", "3: ISR of t-0"),
    ("3: ISR of t-0", "2: broker 1 came"),
]
"""What came before what, as the epochs and zxids prove."""


def shuffled(seed: int) -> list[BrokerEvent]:
    return random.Random(seed).sample(FAILOVER, len(FAILOVER))


@pytest.mark.parametrize("seed", range(5))
def test_a_failover_reads_as_a_story_if_it_is_known_how_far_the_clocks_differ(seed: int) -> None:
    assert [each.text for each in merge(shuffled(seed), AHEAD)] == [each.text for each in FAILOVER]


@pytest.mark.parametrize("seed", range(5))
def test_epochs_and_zxids_order_what_the_clocks_show_in_another_order(seed: int) -> None:
    merged = [each.text for each in merge(shuffled(seed))]
    by_clock = [each.text for each in sorted(FAILOVER, key=lambda each: each.time_ms)]
    assert any(by_clock.index(first) > by_clock.index(second) for first, second in CAUSES)
    assert [(first, second) for first, second in CAUSES if merged.index(first) > merged.index(second)] == []


def test_the_events_of_one_broker_stay_in_their_order_when_its_clock_goes_backward() -> None:
    back = [event(1, number, 1000 - number, EventKind.SESSION, str(number)) for number in range(1, 5)]
    assert merge(back[::-1]) == back


def test_the_write_that_began_an_epoch_comes_before_later_writes_of_it() -> None:
    elected = event(2, 1, 500, EventKind.LEADERSHIP, "elected", partition=0, leader_epoch=4, zxid=10)
    shrunk = event(3, 1, 400, EventKind.ISR, "shrunk", partition=0, leader_epoch=4, zxid=20)
    leads = event(3, 2, 410, EventKind.LEADERSHIP, "leads", partition=0, leader_epoch=4)
    assert [each.text for each in merge([leads, shrunk, elected])] == ["elected", "shrunk", "leads"]


def test_a_cause_that_is_not_known_itself_comes_after_the_last_known_write_before_it() -> None:
    written = event(2, 1, 500, EventKind.ISR, "written", zxid=10)
    later = event(2, 2, 600, EventKind.ISR, "later", zxid=30)
    follows = event(3, 1, 100, EventKind.REGISTRATION, "follows", cause=20)
    assert [each.text for each in merge([later, follows, written], AHEAD)] == ["written", "follows", "later"]


def test_events_that_contradict_each_other_are_all_there_once() -> None:
    first = event(2, 1, 100, EventKind.ISR, "a", zxid=20)
    second = replace(first, sequence=2, zxid=10, text="b")
    third = event(3, 1, 50, EventKind.ISR, "c", zxid=15)
    merged = merge([first, second, third])
    assert sorted(each.text for each in merged) == ["a", "b", "c"]


def test_no_events_are_an_empty_timeline() -> None:
    assert merge([]) == []
