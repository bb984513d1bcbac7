"""Markers: many in few requests, and a slow broker delays no markers to other brokers."""

from __future__ import annotations

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker
from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.transaction import marker_channel_manager
from kafkalite.coordinator.transaction.marker_channel_manager import IN_FLIGHT, TransactionMarkerChannelManager
from kafkalite.coordinator.transaction.values import TransactionMarker
from tests.coordinator.transaction.fixtures import T0, T1, Leaders
from tests.support import Started

E = ErrorCode


def marker(producer_id: int) -> TransactionMarker:
    return TransactionMarker(producer_id, 0, 1, True, (T0, T1))


class MarkerChannelFixture:
    """A channel manager for brokers 1 and 2, and the markers that they get."""

    def __init__(self) -> None:
        self.cluster = MetadataCache()
        self.cluster.update_brokers({number: Broker(number, ()) for number in (1, 2)})
        self.leaders = Leaders()
        self.sender = TransactionMarkerChannelManager(self.cluster, self.leaders)

    def send(self, producer_id: int, broker_id: int = 1) -> Started:
        return Started(self.sender.send(broker_id, marker(producer_id)))


def test_one_marker() -> None:
    fixture = MarkerChannelFixture()
    assert fixture.send(7).result == {T0: E.NONE, T1: E.NONE}
    assert fixture.leaders.markers == [(1, marker(7))]


def test_markers_that_wait_behind_requests_are_sent_together() -> None:
    fixture = MarkerChannelFixture()
    fixture.leaders.hold = True
    outcomes = [fixture.send(number) for number in range(IN_FLIGHT + 20)]
    assert len(fixture.leaders.held) == IN_FLIGHT
    # Markers to the other broker do not wait.
    elsewhere = fixture.send(99, 2)
    assert len(fixture.leaders.held) == IN_FLIGHT + 1
    sends: list[int] = []
    original = fixture.leaders.send

    def counted(broker: Broker, batch: list[TransactionMarker]) -> object:
        sends.append(len(batch))
        return original(broker, batch)

    fixture.leaders.send = counted  # type: ignore[method-assign, assignment]
    fixture.leaders.release()
    assert all(outcome.result == {T0: E.NONE, T1: E.NONE} for outcome in [*outcomes, elsewhere])
    assert sends == [20]
    assert not fixture.sender._in_flight and not fixture.sender._waiting


def test_a_request_is_bounded() -> None:
    fixture = MarkerChannelFixture()
    fixture.leaders.hold = True
    outcomes = [fixture.send(number) for number in range(IN_FLIGHT + marker_channel_manager.MAX_MARKERS + 5)]
    fixture.leaders.release()
    assert all(outcome.done for outcome in outcomes)
    assert len(fixture.leaders.markers) == len(outcomes)


def test_a_broker_that_does_not_answer_is_a_network_exception() -> None:
    fixture = MarkerChannelFixture()
    fixture.leaders.answers = [OSError("gone")]
    assert fixture.send(7).result == dict.fromkeys((T0, T1), E.NETWORK_EXCEPTION)
    assert fixture.send(7).result == dict.fromkeys((T0, T1), E.NONE)


def test_an_unknown_broker_is_a_network_exception() -> None:
    fixture = MarkerChannelFixture()
    assert fixture.send(7, 5).result == dict.fromkeys((T0, T1), E.NETWORK_EXCEPTION)
    assert not fixture.leaders.markers


def test_each_marker_gets_the_answer_for_its_partitions() -> None:
    fixture = MarkerChannelFixture()
    fixture.leaders.answers = [E.NOT_LEADER_OR_FOLLOWER]
    assert fixture.send(7).result == dict.fromkeys((T0, T1), E.NOT_LEADER_OR_FOLLOWER)
