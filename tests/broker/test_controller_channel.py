"""Control requests to other brokers: their order, and what happens when a connection fails."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from kafkalite.broker.controller_channel import ControllerChannel
from kafkalite.cluster.control import ControlledShutdownRequest, ControlResponse, StopReplicaRequest
from kafkalite.cluster.model import Broker, Endpoint
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import Part
from kafkalite.network.client import ConnectionLost
from kafkalite.network.control_codec import ControlVersions, controlled_shutdown_response
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import encode_response
from kafkalite.protocol.errors import ProtocolError
from tests.support import Started

BROKER = Broker(
    2, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092), Endpoint("CONTROLLER", "PLAINTEXT", "h", 9093)), None, 5
)
OK = ControlResponse(ErrorCode.NONE)


class FakeConnection:
    """Notes what is sent; the test opens it, answers, or loses it."""

    def __init__(self) -> None:
        self.opening: Future[None] = Future()
        self.sent: list[tuple[int, int, float]] = []
        self.answers: list[Future[memoryview]] = []
        self.connected = False

    def connect(self) -> Awaitable[None]:
        return self.opening

    def open(self) -> None:
        self.connected = True
        self.opening.callback(None)

    def send(self, api_key: int, version: int, body: list[Part] | bytes, timeout: float) -> Awaitable[memoryview]:
        answer: Future[memoryview] = Future()
        if not self.connected:
            answer.errback(ConnectionLost("not connected"))
            return answer
        assert isinstance(body, bytes)
        self.sent.append((api_key, version, timeout))
        self.answers.append(answer)
        return answer

    def answer(self, number: int, response: ControlResponse = OK) -> None:
        message = controlled_shutdown_response(response, 3)
        self.answers[number].callback(memoryview(encode_response(ApiKey.CONTROLLED_SHUTDOWN, 3, message)))

    def lose(self) -> None:
        self.connected = False
        for answer in self.answers:
            if not answer.called:
                answer.errback(ConnectionLost("lost"))

    def close(self) -> None:
        self.lose()


class ControllerChannelFixture:
    def __init__(self, control_listener: str = "PLAINTEXT") -> None:
        self.connections: list[FakeConnection] = []
        self.listeners: list[str] = []
        self.channel = ControllerChannel(self._open, ControlVersions(), control_listener, "PLAINTEXT", 30.0)

    def _open(self, broker: Broker, listener: str) -> FakeConnection:
        assert broker is BROKER
        self.listeners.append(listener)
        self.connections.append(FakeConnection())
        return self.connections[-1]

    def shut_down(self, epoch: int = 1) -> Started:
        return Started(self.channel.send(BROKER, ControlledShutdownRequest(1, epoch)))


def test_requests_wait_for_the_connection_and_go_in_their_order() -> None:
    fixture = ControllerChannelFixture()
    works = [
        fixture.shut_down(),
        Started(fixture.channel.send(BROKER, StopReplicaRequest(1, 2, 5, ()))),
        fixture.shut_down(),
    ]
    [connection] = fixture.connections
    assert connection.sent == []
    connection.open()
    assert connection.sent == [(7, 3, 30.0), (5, 4, 30.0), (7, 3, 30.0)]
    connection.answer(0)
    assert [work.done for work in works] == [True, False, False]
    assert works[0].result == OK
    fixture.shut_down()
    assert [key for key, _, _ in connection.sent] == [7, 5, 7, 7]
    assert len(fixture.connections) == 1


def test_the_control_plane_and_the_controller_are_reached_by_their_listeners() -> None:
    fixture = ControllerChannelFixture("CONTROLLER")
    Started(fixture.channel.send(BROKER, StopReplicaRequest(1, 2, 5, ())))
    fixture.shut_down()
    assert fixture.listeners == ["CONTROLLER", "PLAINTEXT"]


def test_a_broker_without_the_listener_cannot_be_reached() -> None:
    work = Started(ControllerChannelFixture("OTHER").channel.send(BROKER, StopReplicaRequest(1, 2, 5, ())))
    with pytest.raises(ConnectionLost, match="broker 2 has no listener OTHER"):
        _ = work.result


def test_after_a_lost_connection_all_requests_fail_and_the_next_opens_another() -> None:
    fixture = ControllerChannelFixture()
    works = [fixture.shut_down(), fixture.shut_down()]
    fixture.connections[0].open()
    # As after a request that was not answered in time: the connection closes itself, and fails what is outstanding.
    fixture.connections[0].lose()
    for work in works:
        with pytest.raises(ConnectionLost):
            _ = work.result
    later = fixture.shut_down()
    fixture.connections[1].open()
    fixture.connections[1].answer(0)
    assert later.result == OK
    assert fixture.connections[0].sent[2:] == []


def test_a_connection_that_cannot_be_opened_fails_all_that_wait_for_it() -> None:
    fixture = ControllerChannelFixture()
    works = [fixture.shut_down(), fixture.shut_down()]
    fixture.connections[0].opening.errback(ConnectionLost("refused"))
    for work in works:
        with pytest.raises(ConnectionLost, match="refused"):
            _ = work.result
    assert len(fixture.connections) == 1
    fixture.shut_down()
    assert len(fixture.connections) == 2


def test_a_connection_that_the_broker_closed_for_idleness_costs_no_request() -> None:
    fixture = ControllerChannelFixture()
    first = fixture.shut_down()
    fixture.connections[0].open()
    fixture.connections[0].answer(0)
    assert first.result == OK
    fixture.connections[0].lose()
    second = fixture.shut_down()
    assert not second.done
    fixture.connections[1].open()
    fixture.connections[1].answer(0)
    assert second.result == OK


def test_an_answer_that_cannot_be_read_closes_the_connection() -> None:
    fixture = ControllerChannelFixture()
    works = [fixture.shut_down(), fixture.shut_down()]
    fixture.connections[0].open()
    fixture.connections[0].answers[0].callback(memoryview(b"\0"))
    with pytest.raises(ProtocolError):
        _ = works[0].result
    with pytest.raises(ConnectionLost):
        _ = works[1].result


def test_a_close_fails_the_outstanding_requests() -> None:
    fixture = ControllerChannelFixture()
    work = fixture.shut_down()
    fixture.connections[0].open()
    fixture.channel.close()
    with pytest.raises(ConnectionLost):
        _ = work.result
