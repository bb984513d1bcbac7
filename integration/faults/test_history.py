"""The checker finds planted violations, and none in a valid history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration.faults.history import (
    Batch,
    EpochTrail,
    History,
    Identity,
    compare_replicas,
    decode_value,
    encode_value,
)


def good() -> History:
    """Two producers, taking turns in two partitions: offset 2k is number k of producer 0, 2k+1 of producer 1."""
    history = History(2, 2)
    for partition in (0, 1):
        for offset in range(6):
            identity = Identity(offset % 2, partition, offset // 2)
            history.acked(identity, offset)
            history.read(partition, offset, identity, "live")
            history.read(partition, offset, identity, "again")
    return history


def test_a_valid_history_has_no_violation() -> None:
    history = good()
    assert history.check() == []
    assert history.acknowledged == 12
    assert history.reads == 24
    for number in (3, 4):
        history.acked(Identity(0, 1, number), None if number == 3 else 3 + number)
        history.read(1, 3 + number, Identity(0, 1, number), "live")
    assert history.check() == []


def test_a_read_record_without_an_acknowledgement_is_no_violation() -> None:
    history = good()
    history.read(0, 6, Identity(0, 0, 3), "live")
    assert history.check() == []


def lost_at_the_end(history: History) -> None:
    history.acked(Identity(0, 0, 3), 6)


def lost_somewhere(history: History) -> None:
    history.acked(Identity(0, 0, 3), None)


def lost_by_another_in_its_place(history: History) -> None:
    history.acked(Identity(0, 0, 3), 6)
    history.read(0, 6, Identity(1, 0, 3), "live")


def two_records_at_an_offset(history: History) -> None:
    history.read(0, 2, Identity(1, 0, 7), "late")


def read_and_gone(history: History) -> None:
    history.read(0, 6, Identity(0, 0, 3), "early")
    history.read(0, 6, Identity(1, 0, 3), "late")


def reordered(history: History) -> None:
    for offset, number in ((6, 4), (7, 3)):
        history.acked(Identity(0, 0, number), offset)
        history.read(0, offset, Identity(0, 0, number), "live")


def twice(history: History) -> None:
    history.acked(Identity(0, 0, 3), 6)
    history.read(0, 6, Identity(0, 0, 3), "live")
    history.read(0, 7, Identity(0, 0, 3), "live")


def missing_in_between(history: History) -> None:
    history.acked(Identity(0, 0, 4), 6)
    history.read(0, 6, Identity(0, 0, 4), "live")


def hole(history: History) -> None:
    history.read(0, 7, Identity(0, 0, 3), "live")


def acknowledged_twice(history: History) -> None:
    history.acked(Identity(0, 0, 1), 2)


def refused(history: History) -> None:
    history.failed(Identity(0, 0, 3), "timed out")


def in_the_wrong_partition(history: History) -> None:
    history.read(0, 6, Identity(0, 1, 3), "live")


def behind_the_end(history: History) -> None:
    history.read(0, 6, Identity(0, 0, 3), "early")
    history.ended(0, 6)


def of_no_producer(history: History) -> None:
    history.read(0, 6, Identity(9, 0, 0), "live")


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        (lost_at_the_end, "lost: Identity(producer=0, partition=0, number=3), acknowledged at offset 6"),
        (lost_somewhere, "lost: Identity(producer=0, partition=0, number=3), acknowledged somewhere"),
        (lost_by_another_in_its_place, "lost: Identity(producer=0, partition=0, number=3), acknowledged at 6, where"),
        (two_records_at_an_offset, "two records at offset 2 of partition 0"),
        (read_and_gone, "two records at offset 6 of partition 0"),
        (reordered, "reordered or twice"),
        (twice, "reordered or twice"),
        (missing_in_between, "some are missing"),
        (hole, "no record at offset 6"),
        (acknowledged_twice, "acknowledged twice"),
        (refused, "was not acknowledged: timed out"),
        (in_the_wrong_partition, "in partition 0 at 6"),
        (of_no_producer, "no such producer"),
        (behind_the_end, "a reader saw partition 0 up to 7, the log ends at 6"),
    ],
)
def test_planted_violations_are_found(plant: Callable[[History], None], text: str) -> None:
    for checked_before in (False, True):
        history = good()
        if checked_before:
            assert history.check() == []
        plant(history)
        assert any(text in breach for breach in history.check()), history.breaches


def test_values_carry_the_identity() -> None:
    identity = Identity(65535, 12345, 1 << 39)
    value = encode_value(identity, 100)
    assert len(value) == 100
    assert decode_value(value) == identity
    for bad in (b"", b"kl", b"xx" + value[2:]):
        with pytest.raises(ValueError, match="not a record of ours"):
            decode_value(bad)


def test_epochs_only_grow_and_have_one_leader_each() -> None:
    trail = EpochTrail()
    for epoch, leader in ((0, 1), (0, 1), (1, -1), (3, 2)):
        trail.see_leader("t-0", epoch, leader)
    assert trail.breaches == []
    assert trail.changes == {"leader epoch of t-0": 2}
    trail.see_leader("t-0", 3, 1)
    assert trail.breaches == ["t-0 has two leaders in epoch 3: 2 and 1"]
    trail.see("controller epoch", 5)
    trail.see("controller epoch", 4)
    assert trail.breaches[1:] == ["controller epoch went back from 5 to 4"]


def test_replicas_are_compared_batch_for_batch() -> None:
    log = [Batch(0, 4, 0, 11), Batch(5, 5, 0, 12), Batch(6, 9, 2, 13)]
    assert compare_replicas("t-0", {1: log, 2: list(log), 3: list(log)}) == []
    assert compare_replicas("t-0", {1: []}) == []
    other = [*log[:2], Batch(6, 9, 2, 14)]
    assert "on 1" in compare_replicas("t-0", {1: log, 2: other})[0]
    assert compare_replicas("t-0", {1: log, 2: log[:2]}) == ["t-0: 3 batches on 1, 2 on 2"]
    assert "follows" in compare_replicas("t-0", {1: [log[0], log[2]]})[0]
    assert "goes back" in compare_replicas("t-0", {1: [log[0], Batch(5, 5, -1, 1)]})[0]
