"""High watermarks that stand still are told when they stop and when they move again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from kafkalite.common.clock import Clock
from kafkalite.common.events import EventLog
from kafkalite.common.types import TopicPartition
from kafkalite.replication.high_watermark_stalls import HighWatermarkStalls
from kafkalite.replication.partition import Partition
from kafkalite.testing.clock import ManualClock


def leader(high_watermark: int, end: int, epoch: int = 1) -> Partition:
    """A partition that waits for broker 2."""
    return cast(
        "Partition",
        SimpleNamespace(
            topic_partition=TopicPartition("t", 0),
            leader_epoch=epoch,
            log=SimpleNamespace(high_watermark=high_watermark, log_end_offset=end),
            high_watermark_followers=(SimpleNamespace(broker_id=2, log_end_offset=high_watermark),),
        ),
    )


def told(*looks: list[Partition]) -> list[tuple[str, str]]:
    clock: Clock = ManualClock()
    events = EventLog(1, clock.time_ms)
    stalls = HighWatermarkStalls(events.record)
    for leaders in looks:
        stalls.look(leaders)
    return [(event.text, event.why) for event in events.snapshot().events]


STILL = ("t-0: high watermark 5 stands still, log end 9", "broker 2 lags")


def test_a_high_watermark_that_stands_still_is_told_once() -> None:
    assert told([leader(5, 7)], [leader(5, 9)], [leader(5, 11)]) == [STILL]


def test_one_that_moves_or_has_all_is_not_told() -> None:
    assert told([leader(5, 7)], [leader(6, 9)], [leader(9, 9)], [leader(9, 9)]) == []


def test_it_is_told_when_it_moves_again() -> None:
    moved = ("t-0: high watermark 12 moves again, log end 12", "")
    assert told([leader(5, 9)], [leader(5, 9)], [leader(12, 12)], [leader(12, 12)]) == [STILL, moved]


def test_a_new_leader_epoch_is_compared_from_its_beginning() -> None:
    assert told([leader(5, 9)], [leader(5, 9, epoch=2)]) == []


def test_a_partition_that_is_led_no_more_is_forgotten() -> None:
    assert told([leader(5, 9)], [leader(5, 9)], [], [leader(5, 9)], [leader(5, 9)]) == [STILL, STILL]
