"""The control plane: values as frames, and requests in order over transports in memory."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Awaitable
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.network.control import MAX_WAITING, ControlChannel, ControlServer
from kafkalite.network.control_codec import decode, encode
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.protocol.errors import ProtocolError

TOPIC_ID = uuid.UUID(int=5)
BROKERS = (
    Broker(1, (Endpoint("PLAINTEXT", "PLAINTEXT", "a", 9092), Endpoint("CONTROLPLANE", "SSL", "a", 1)), "rack", 77, 75),
    Broker(2, (), None, -1),
)


def state(topic: str, partition: int) -> LeaderAndIsr:
    assignment = PartitionAssignment((1, 2, 3), (3,), (1,))
    return LeaderAndIsr(
        topic, partition, TOPIC_ID, 1, 4, (1, 2), 9, 17, 123456789012, assignment, ((1, 75), (2, 123456789000))
    )


STATES = (state("a", 0), state("a", 1), state("b", 0), LeaderAndIsr("c", 0))
MESSAGES = [
    LeaderAndIsrRequest(1, 2, 1 << 40, STATES, BROKERS),
    UpdateMetadataRequest(1, 2, 3, STATES, BROKERS),
    UpdateMetadataRequest(1, 2, 3, (), ()),
    StopReplicaRequest(
        1,
        2,
        3,
        (
            StopReplicaPartitionState(TopicPartition("a", 0), -2, True, TOPIC_ID),
            StopReplicaPartitionState(TopicPartition("a", 1), 5, False),
        ),
    ),
    ControlledShutdownRequest(3, 99),
    ControlResponse(ErrorCode.NONE),
    ControlResponse(
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ((TopicPartition("a", 0), ErrorCode.NONE), (TopicPartition("b", 1), ErrorCode.FENCED_LEADER_EPOCH)),
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_are_read_as_they_were_written(message: ControlRequest | ControlResponse) -> None:
    frame = encode(7, message)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode(frame[4:]) == (7, message)


def test_a_thousand_states_are_small() -> None:
    states = tuple(state("some-topic", partition) for partition in range(1000))
    assert len(encode(1, LeaderAndIsrRequest(1, 2, 3, states, BROKERS))) < 45_000


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_damaged_messages_are_refused(message: ControlRequest | ControlResponse) -> None:
    rng = random.Random(5)
    frame = bytearray(encode(7, message)[4:])
    for end in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode(frame[:end])
    for _ in range(500):
        damaged = bytearray(frame)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            decode(damaged)
        except ProtocolError:
            continue


class Transport(StringTransport):
    """What was written, and the options of a TCP transport."""

    def setTcpNoDelay(self, _: bool) -> None:  # noqa: N802
        pass

    def setTcpKeepAlive(self, _: bool) -> None:  # noqa: N802
        pass


class Wire:
    """A channel and a server with their transports, whose bytes move when told."""

    def __init__(self, handler: object) -> None:
        self.clock = Clock()
        self.closed: list[ControlChannel] = []
        self.server = ControlServer(None, handler)  # type: ignore[arg-type]
        complaints = RateLimitedLog(logging.getLogger(__name__), self.clock.seconds)
        self.channel = ControlChannel(self.clock, "broker:1", self.closed.append, complaints)
        self.near: Any = self.channel.build()
        self.far: Any = self.server.accept()
        make: Any = Transport
        self.near_transport: Any = make()
        self.far_transport: Any = make()
        make_connection: Any = self.far.makeConnection
        make_connection(self.far_transport)

    def connect(self) -> None:
        self.near.makeConnection(self.near_transport)
        self.channel.connected(self.near)

    def pump(self, step: int = 1 << 30) -> None:
        for source, target in ((self.near_transport, self.far), (self.far_transport, self.near)):
            data = source.value()
            source.clear()
            for pos in range(0, len(data), step):
                target.dataReceived(data[pos : pos + step])


class SlowHandler:
    """Answers when told."""

    def __init__(self) -> None:
        self.requests: list[ControlRequest] = []
        self.answers: list[Future[ControlResponse]] = []

    def __call__(self, request: ControlRequest) -> Awaitable[ControlResponse]:
        self.requests.append(request)
        self.answers.append(Future())
        return self.answers[-1]


@pytest.mark.parametrize("step", [1, 1 << 30])
def test_requests_of_a_connection_are_handled_one_after_the_other(step: int) -> None:
    handler = SlowHandler()
    wire = Wire(handler)
    early = deferred(wire.channel.send(ControlledShutdownRequest(1, 1), 5.0))
    wire.connect()
    late = deferred(wire.channel.send(ControlledShutdownRequest(2, 2), 5.0))
    wire.pump(step)
    assert handler.requests == [ControlledShutdownRequest(1, 1)]
    handler.answers[0].callback(ControlResponse(ErrorCode.NONE))
    assert handler.requests == [ControlledShutdownRequest(1, 1), ControlledShutdownRequest(2, 2)]
    handler.answers[1].callback(ControlResponse(ErrorCode.STALE_BROKER_EPOCH))
    wire.pump(step)
    assert early.result == ControlResponse(ErrorCode.NONE)
    assert late.result == ControlResponse(ErrorCode.STALE_BROKER_EPOCH)
    assert not wire.clock.getDelayedCalls()


def test_a_handler_that_fails_is_answered_for(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: ControlRequest) -> ControlResponse:
        raise RuntimeError("boom")

    wire = Wire(fail)
    wire.connect()
    work = deferred(wire.channel.send(ControlledShutdownRequest(1, 1), 5.0))
    wire.pump()
    wire.pump()
    assert work.result == ControlResponse(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert "boom" in caplog.text


def test_no_answer_in_time_loses_the_connection_and_all_that_is_under_way() -> None:
    wire = Wire(SlowHandler())
    wire.connect()
    works: list[Any] = [
        deferred(wire.channel.send(ControlledShutdownRequest(n, n), timeout)) for n, timeout in ((1, 5.0), (2, 50.0))
    ]
    wire.clock.advance(5.1)
    for work in works:
        errors: list[type] = []
        work.addErrback(lambda failure, errors=errors: errors.append(failure.type))
        assert errors == [ConnectionLost]
    assert wire.closed == [wire.channel]
    assert not wire.clock.getDelayedCalls()
    assert wire.near_transport.disconnecting or wire.near_transport.disconnected


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02zz", encode(1, ControlResponse(ErrorCode.NONE))]
)
def test_nonsense_closes_the_server_side(data: bytes) -> None:
    wire = Wire(SlowHandler())
    wire.far.dataReceived(data)
    assert wire.far_transport.disconnecting or wire.far_transport.disconnected


def test_what_a_gone_client_asked_is_not_answered() -> None:
    handler = SlowHandler()
    wire = Wire(handler)
    wire.connect()
    work = deferred(wire.channel.send(ControlledShutdownRequest(1, 1), 5.0))
    work.addErrback(lambda _: None)
    wire.pump()
    wire.far.connectionLost()
    handler.answers[0].callback(ControlResponse(ErrorCode.NONE))
    assert wire.far_transport.value() == b""


@pytest.mark.parametrize(
    "fields",
    [
        (1, (None, "x", None, (), ())),
        (1, (1, 2.0, 3, (), ())),
        (2, (1, True, 3, (), ())),
        (3, (1, 2, b"3", ())),
        (4, (None, 1)),
        (4, (1, 1.5)),
    ],
)
def test_what_a_message_is_fenced_by_must_be_numbers(fields: tuple[int, tuple[object, ...]]) -> None:
    with pytest.raises(ProtocolError):
        decode(msgpack.packb((1, *fields)))


def test_a_peer_that_does_not_read_is_read_no_further() -> None:
    wire = Wire(SlowHandler())
    wire.connect()
    assert wire.far_transport.producerState == "producing"
    wire.far.pauseProducing()
    assert wire.far_transport.producerState == "paused"
    wire.far.resumeProducing()
    assert wire.far_transport.producerState == "producing"


def test_too_many_requests_wait_in_the_kernel() -> None:
    handler = SlowHandler()
    wire = Wire(handler)
    wire.connect()
    for number in range(MAX_WAITING + 1):
        deferred(wire.channel.send(ControlledShutdownRequest(1, number), 5.0))
    wire.pump()
    assert wire.far_transport.producerState == "paused"
    for number in range(2):
        handler.answers[number].callback(ControlResponse(ErrorCode.NONE))
    assert wire.far_transport.producerState == "producing"


def test_good_frames_before_a_bad_one_are_heard() -> None:
    handler = SlowHandler()
    wire = Wire(handler)
    wire.connect()
    wire.far.dataReceived(encode(1, ControlledShutdownRequest(1, 1)) + b"\xff\xff\xff\xff")
    assert handler.requests == [ControlledShutdownRequest(1, 1)]
    assert wire.far_transport.disconnected
