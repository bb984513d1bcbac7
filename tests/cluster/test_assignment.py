"""Replica assignment: the tables of Kafka's documentation, and what is refused."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kafkalite.cluster.assignment import alternate_racks, assign_added_partitions, assign_replicas
from kafkalite.cluster.model import Broker
from kafkalite.common.errors import ApiError, ErrorCode

RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def brokers(*ids: int, racks: dict[int, str] | None = None) -> list[Broker]:
    return [Broker(broker_id, (), (racks or {}).get(broker_id)) for broker_id in ids]


def test_without_racks() -> None:
    assert assign_replicas(brokers(0, 1, 2, 3, 4), 10, 3, random.Random(1), fixed_start=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_racks_alternate() -> None:
    assert alternate_racks(RACKS) == [0, 3, 1, 5, 4, 2]
    assert alternate_racks({1: "a", 2: "a", 3: "a", 4: "b"}) == [1, 4, 2, 3]


def test_with_racks() -> None:
    assert assign_replicas(brokers(*RACKS, racks=RACKS), 12, 3, random.Random(1), fixed_start=0) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
        7: (3, 2, 0),
        8: (1, 0, 3),
        9: (5, 3, 1),
        10: (4, 1, 5),
        11: (2, 5, 4),
    }


@pytest.mark.parametrize("seed", range(20))
def test_every_rack_has_a_replica_and_leaders_are_spread(seed: int) -> None:
    assignment = assign_replicas(brokers(*RACKS, racks=RACKS), 60, 3, random.Random(seed))
    for replicas in assignment.values():
        assert len(set(replicas)) == 3
        assert {RACKS[replica] for replica in replicas} == {"rack1", "rack2", "rack3"}
    assert set(Counter(replicas[0] for replicas in assignment.values()).values()) == {10}


def test_more_replicas_than_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    for replicas in assign_replicas(brokers(1, 2, 3, racks=racks), 9, 3, random.Random(0)).values():
        assert set(replicas) == {1, 2, 3}


def test_one_broker() -> None:
    assert assign_replicas(brokers(7), 2, 1, random.Random(0)) == {0: (7,), 1: (7,)}


def test_added_partitions_go_on_where_the_others_end() -> None:
    all_brokers = brokers(0, 1, 2, 3, 4)
    existing = {0: (1, 2, 3), 1: (2, 3, 4)}
    expected = assign_replicas(all_brokers, 3, 3, random.Random(0), start_partition=2, fixed_start=1)
    assert assign_added_partitions(all_brokers, existing, 3, random.Random(0)) == expected
    assert list(expected) == [2, 3, 4]


@pytest.mark.parametrize(
    ("partitions", "factor", "racks", "code"),
    [
        (0, 1, {}, ErrorCode.INVALID_PARTITIONS),
        (1, 0, {}, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 4, {}, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 1, {1: "a"}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_refused(partitions: int, factor: int, racks: dict[int, str], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        assign_replicas(brokers(1, 2, 3, racks=racks), partitions, factor, random.Random(0))
    assert caught.value.code is code
