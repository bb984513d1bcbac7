"""The metadata cache: only what is newer counts, and the dead stay dead."""

from __future__ import annotations

import uuid

import pytest

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import ZERO_UUID, TopicPartition

A, B = uuid.UUID(int=1), uuid.UUID(int=2)


def state(epoch: int = 0, version: int = 0, topic_id: uuid.UUID = A, **fields: object) -> LeaderAndIsr:
    plain = LeaderAndIsr("t", 0, topic_id, 1, epoch, (1,), 1, version, assignment=PartitionAssignment((1,)))
    return plain.with_(**fields)


@pytest.mark.parametrize(
    ("second", "taken"),
    [
        (state(5, 7), False),
        (state(5, 8), True),
        (state(6, 0), True),
        (state(4, 9), False),
        (state(5, 6), False),
        (state(5, 7, assignment=PartitionAssignment((1, 2))), True),
        (state(5, 7, ZERO_UUID), False),
        (state(5, 8, ZERO_UUID), True),
    ],
)
def test_order(second: LeaderAndIsr, taken: bool) -> None:
    cache = MetadataCache()
    first = state(5, 7)
    assert cache.apply([first]) == [first]
    version = cache.version
    assert cache.apply([second]) == ([second] if taken else [])
    assert cache.state(TopicPartition("t", 0)) == (second if taken else first)
    assert (cache.version > version) is taken
    assert cache.topic_id("t") == A


def test_a_recreated_topic_starts_fresh_and_the_old_one_is_ignored() -> None:
    cache = MetadataCache()
    cache.apply([state(9, 9), state(9, 9, partition=1)])
    new = state(0, 0, B)
    assert cache.apply([new]) == [new]
    assert dict(cache.partitions("t")) == {0: new}
    assert cache.apply([state(10, 10)]) == []
    assert (cache.topic_name(A), cache.topic_name(B)) == (None, "t")


@pytest.mark.parametrize(
    ("known", "other", "taken"),
    [
        ({"mzxid": 10}, {"mzxid": 9}, False),
        ({"mzxid": 10}, {"mzxid": 11}, True),
        ({"controller_epoch": 3}, {"controller_epoch": 2}, False),
        ({"controller_epoch": 3}, {"controller_epoch": 3}, True),
    ],
)
def test_which_of_two_ids_is_younger(known: dict[str, int], other: dict[str, int], taken: bool) -> None:
    cache = MetadataCache()
    cache.apply([state().with_(**known)])
    assert bool(cache.apply([state(topic_id=B).with_(**other)])) is taken


def test_removed_topics_do_not_come_back() -> None:
    cache = MetadataCache()
    first = state()
    cache.apply([first])
    assert cache.remove_topics(["t", "nothing"]) == [first]
    assert cache.apply([state(5, 5)]) == []
    assert cache.is_forgotten(A)
    assert cache.topic_id("t") == ZERO_UUID
    assert cache.apply([state(topic_id=B)]) == [state(topic_id=B)]


def test_a_leader_of_minus_two_is_the_end_of_that_topic_only() -> None:
    cache = MetadataCache()
    cache.apply([state(), state(partition=1)])
    end = LeaderAndIsr("t", 0, A, -2)
    assert cache.apply([end]) == [end]
    assert dict(cache.partitions("t")) == {}
    assert cache.is_forgotten(A)
    cache.apply([state(topic_id=B)])
    assert cache.apply([end]) == []
    assert len(cache.partitions("t")) == 1


def test_a_topic_gets_its_id_later() -> None:
    cache = MetadataCache()
    cache.apply([state(topic_id=ZERO_UUID)])
    assert cache.topic_id("t") == ZERO_UUID
    assert cache.apply([state(topic_id=A)]) == [state(topic_id=A)]
    assert cache.topic_name(A) == "t"


def test_a_later_mzxid_of_the_same_state_is_kept_silently() -> None:
    cache = MetadataCache()
    cache.apply([state()])
    assert cache.apply([state(mzxid=5)]) == []
    known = cache.state(TopicPartition("t", 0))
    assert known is not None and known.mzxid == 5


def test_brokers_and_controller() -> None:
    cache = MetadataCache()
    one, two = Broker(1, (), epoch=1), Broker(2, (), epoch=2)
    assert cache.update_brokers({1: one, 2: two}) == {1, 2}
    assert cache.update_brokers({1: one, 2: two}) == set()
    assert cache.update_brokers({2: Broker(2, (), epoch=3)}) == {1, 2}
    assert (cache.alive(1), cache.alive(2), cache.broker(1)) == (False, True, None)
    assert cache.set_controller(2) and not cache.set_controller(2)


def test_an_older_list_of_brokers_changes_nothing() -> None:
    cache = MetadataCache()
    one, two = Broker(1, ()), Broker(2, ())
    cache.update_brokers({1: one, 2: two}, 7)
    assert cache.update_brokers({1: one}, 6) == set()
    assert cache.brokers == {1: one, 2: two}
    assert cache.update_brokers({1: one}, 8) == {2}
    assert cache.update_brokers({}) == {1}, "a list without a version counts"
    assert cache.update_brokers({2: two}, 7) == set(), "and leaves the known version as it is"


def test_brokers_that_went_are_remembered_for_a_while() -> None:
    now = [10.0]
    cache = MetadataCache(lambda: now[0])
    first, second = Broker(1, ()), Broker(2, ())
    cache.update_brokers({1: first, 2: second})
    assert cache.departed(5) == []
    cache.update_brokers({1: first})
    now[0] = 14.0
    cache.update_brokers({})
    assert cache.departed(5) == [second, first]
    assert cache.departed(5, since=14.0) == [first]
    now[0] = 16.0
    assert cache.departed(5) == [first]
    cache.update_brokers({1: first})
    assert cache.departed(100) == [second]
    assert not cache.alive(2)
