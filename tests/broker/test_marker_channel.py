"""Markers on the wire: the request, the answer, a connection that breaks and is opened again."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from kafkalite.broker.marker_channel import BrokerMarkerChannel
from kafkalite.cluster.model import Broker
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, spawn
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.values import TransactionMarker
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, encode_response
from tests.support import run

BROKER = Broker(2, ())
MARKERS = (
    TransactionMarker(7, 3, 5, True, (TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("a", 2))),
    TransactionMarker(8, 0, 5, False, (TopicPartition("b", 0),)),
)


class FakeConnection:
    """Answers NOT_LEADER_OR_FOLLOWER for partition 1 of ``b`` and NONE for all else, or breaks."""

    def __init__(self, broken: bool) -> None:
        self.broken = broken
        self.closed = False
        self.requests: list[Any] = []

    async def connect(self) -> None:
        return None

    async def send(self, api_key: int, version: int, body: Any, timeout: float) -> memoryview:  # noqa: ARG002
        if self.broken:
            raise ConnectionResetError("gone")
        request = decode_request(ApiKey(api_key), version, memoryview(body))
        assert isinstance(request, messages.WriteTxnMarkersRequest)
        self.requests.append(request)
        kind = messages.WriteTxnMarkersResponse
        marker_kind = kind.WritableTxnMarkerResult
        topic_kind = marker_kind.WritableTxnMarkerTopicResult
        markers = [
            marker_kind(
                version=version,
                producer_id=marker.producer_id,
                topics=[
                    topic_kind(
                        version=version,
                        name=topic.name,
                        partitions=[
                            topic_kind.WritableTxnMarkerPartitionResult(
                                version=version,
                                partition_index=index,
                                error_code=6 if (topic.name, index) == ("b", 1) else 0,
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
        return memoryview(encode_response(ApiKey(api_key), version, kind(version=version, markers=markers)))

    def close(self) -> None:
        self.closed = True


class PendingConnection:
    """Never answers; outstanding requests fail when it is closed."""

    def __init__(self) -> None:
        self.closed = False
        self._answer: Future[memoryview] = Future()

    async def connect(self) -> None:
        return None

    def send(self, api_key: int, version: int, body: Any, timeout: float) -> Awaitable[memoryview]:  # noqa: ARG002
        return self._answer

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._answer.errback(ConnectionResetError("closed"))


class Opened:
    """The connections, in the order in which they were opened; the first ``broken`` ones break at their first use."""

    def __init__(self, broken: int = 0) -> None:
        self.broken = broken
        self.connections: list[FakeConnection] = []

    def __call__(self, broker: Broker) -> FakeConnection:
        assert broker is BROKER
        self.connections.append(FakeConnection(len(self.connections) < self.broken))
        return self.connections[-1]


def test_markers_are_sent_and_answers_come_by_producer_and_partition() -> None:
    opened = Opened()
    channel = BrokerMarkerChannel(opened, 1.0)
    results = run(channel.send(BROKER, MARKERS))
    assert results == {
        (7, TopicPartition("a", 0)): ErrorCode.NONE,
        (7, TopicPartition("a", 2)): ErrorCode.NONE,
        (7, TopicPartition("b", 1)): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        (8, TopicPartition("b", 0)): ErrorCode.NONE,
    }
    [connection] = opened.connections
    first, second = connection.requests[0].markers
    assert (first.producer_id, first.producer_epoch, first.coordinator_epoch, first.transaction_result) == (
        7,
        3,
        5,
        True,
    )
    assert (second.producer_id, second.producer_epoch, second.transaction_result) == (8, 0, False)
    run(channel.send(BROKER, MARKERS[:1]))
    assert len(opened.connections) == 1, "one connection serves all requests"
    channel.close()
    assert connection.closed


def test_a_broken_connection_is_opened_again() -> None:
    opened = Opened(broken=1)
    channel = BrokerMarkerChannel(opened, 1.0)
    with pytest.raises(ConnectionResetError):
        run(channel.send(BROKER, MARKERS))
    assert opened.connections[0].closed
    assert run(channel.send(BROKER, MARKERS))[8, TopicPartition("b", 0)] == ErrorCode.NONE
    assert len(opened.connections) == 2


def test_only_the_outstanding_request_fails_when_all_is_closed() -> None:
    """It takes its own connection out of the table, in the middle of the closing."""
    opened: list[PendingConnection] = []

    def open_(_: Broker) -> PendingConnection:
        opened.append(PendingConnection())
        return opened[-1]

    channel = BrokerMarkerChannel(open_, 1.0)
    failures: list[BaseException] = []
    for broker in (Broker(2, ()), Broker(3, ())):
        spawn(channel.send(broker, MARKERS), "sending markers", failures.append)
    channel.close()
    assert [type(failure) for failure in failures] == [ConnectionResetError, ConnectionResetError]
    assert all(connection.closed for connection in opened)
