"""What waits for a broker that hangs: the last word about everything, and no more."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import LEADER_DURING_DELETE
from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.controller.channel_manager import MOST_PARTITIONS, PendingRequests

OLD, NEW = uuid.UUID(int=7), uuid.UUID(int=8)
ONE, TWO = Broker(1, ()), Broker(2, ())


def state(partition: int, epoch: int, topic_id: uuid.UUID = OLD, leader: int = 1) -> LeaderAndIsr:
    return LeaderAndIsr("t", partition, topic_id, leader, epoch, (1,), 5)


def order(*states: LeaderAndIsr, brokers: tuple[Broker, ...] = (ONE,)) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(1, 5, 11, states, brokers)


def metadata(*states: LeaderAndIsr, brokers: tuple[Broker, ...] = (ONE,)) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(1, 5, 11, states, brokers)


def stop(partition: int, epoch: int = -2, topic_id: uuid.UUID = OLD, delete: bool = True) -> StopReplicaRequest:
    return StopReplicaRequest(
        1, 5, 11, (StopReplicaPartitionState(TopicPartition("t", partition), epoch, delete, topic_id),)
    )


SIGN = state(0, 0, OLD, LEADER_DURING_DELETE)


@pytest.mark.parametrize(
    ("put", "taken"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([order(state(0, 1)), order(state(0, 2))], [order(state(0, 2))], id="the later order counts"),
        pytest.param(
            [order(state(0, 1)), order(state(1, 1), brokers=(ONE, TWO))],
            [order(state(0, 1), state(1, 1), brokers=(ONE, TWO))],
            id="different partitions, the later brokers",
        ),
        pytest.param(
            [stop(0), metadata(state(0, 1)), order(state(1, 1)), metadata(state(0, 2))],
            [order(state(1, 1)), metadata(state(0, 2)), stop(0)],
            id="one request of a kind: roles, metadata, stops",
        ),
        pytest.param([order(state(0, 1)), stop(0)], [order(), stop(0)], id="a stop takes the order back"),
        pytest.param(
            [stop(0, 1, delete=False), order(state(0, 2))],
            [order(state(0, 2)), StopReplicaRequest(1, 5, 11, ())],
            id="an order takes the stop back",
        ),
        pytest.param(
            [stop(0), order(state(0, 0, NEW))], [order(state(0, 0, NEW)), stop(0)], id="of another topic of that name"
        ),
        pytest.param(
            [metadata(state(0, 1), state(1, 1)), metadata(SIGN), metadata(state(0, 0, NEW))],
            [metadata(SIGN, state(0, 0, NEW))],
            id="a deleted topic and its successor",
        ),
    ],
)
def test_merging(put: list[ControlRequest], taken: list[ControlRequest]) -> None:
    outbox = PendingRequests()
    for request in put:
        outbox.put(request)
    assert len(outbox) == len(taken)
    found = []
    while (request_out := outbox.take()) is not None:
        found.append(request_out)
    assert found == taken
    assert len(outbox) == 0


def test_what_was_taken_is_not_changed_by_what_comes_later() -> None:
    outbox = PendingRequests()
    outbox.put(order(state(0, 1)))
    first = outbox.take()
    outbox.put(order(state(0, 2)))
    assert (first, outbox.take()) == (order(state(0, 1)), order(state(0, 2)))


def test_a_thousand_changes_wait_as_one() -> None:
    outbox = PendingRequests()
    for epoch in range(1000):
        outbox.put(order(state(0, epoch)))
        outbox.put(metadata(state(0, epoch)))
    assert len(outbox) == 2
    assert outbox.take() == order(state(0, 999))
    outbox.clear()
    assert outbox.take() is None


@pytest.mark.parametrize("make", [order, metadata])
def test_many_partitions_go_in_several_requests(make: Callable[..., ControlRequest]) -> None:
    outbox = PendingRequests()
    states = [state(number, 1) for number in range(2 * MOST_PARTITIONS + 1)]
    outbox.put(make(*states))
    assert outbox.take() == make(*states[:MOST_PARTITIONS])
    later = state(MOST_PARTITIONS, 2)
    outbox.put(make(later, brokers=(ONE, TWO)))
    assert outbox.take() == make(*states[MOST_PARTITIONS + 1 :], brokers=(ONE, TWO))
    assert (len(outbox), outbox.take(), outbox.take()) == (1, make(later, brokers=(ONE, TWO)), None)


def test_many_stops_go_in_several_requests() -> None:
    outbox = PendingRequests()
    for number in range(MOST_PARTITIONS + 2):
        outbox.put(stop(number))
    first, second, third = outbox.take(), outbox.take(), outbox.take()
    assert isinstance(first, StopReplicaRequest)
    assert isinstance(second, StopReplicaRequest)
    assert (len(first.partitions), len(second.partitions), third) == (MOST_PARTITIONS, 2, None)


def test_only_what_a_controller_tells_brokers() -> None:
    with pytest.raises(TypeError, match="ControlledShutdown"):
        PendingRequests().put(ControlledShutdownRequest(1, 11))
