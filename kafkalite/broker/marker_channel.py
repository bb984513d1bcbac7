"""The transaction coordinator's way to the leaders: WriteTxnMarkers over one connection a broker.

Answers to: ``kafka.coordinator.transaction.TransactionMarkerChannelManager`` (its ``InterBrokerSendThread``).
Deterministic (the connection is a port).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkalite.cluster.model import Broker
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.coordinator.transaction.values import MarkerResults, TransactionMarker
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.replication.leader_endpoint import LeaderConnection

_VERSION: Final = 1


class BrokerMarkerChannel:
    """Implements :class:`kafkalite.coordinator.transaction.values.MarkerChannel`; ``timeout`` in seconds."""

    def __init__(self, open_connection: Callable[[Broker], LeaderConnection], timeout: float) -> None:
        self._open = open_connection
        self._timeout = timeout
        self._connections: dict[Broker, LeaderConnection] = {}

    async def send(self, broker: Broker, markers: Sequence[TransactionMarker]) -> MarkerResults:
        """The broker's answer for each partition. Raises the connection's error if that fails."""
        connection = self._connections.get(broker) or await self._connect(broker)
        body = encode_request(ApiKey.WRITE_TXN_MARKERS, _VERSION, _request(markers))
        try:
            answer = await connection.send(int(ApiKey.WRITE_TXN_MARKERS), _VERSION, body, self._timeout)
        except Exception:
            # Its other requests fail with it; the next call opens a new connection.
            if self._connections.get(broker) is connection:
                del self._connections[broker]
            connection.close()
            raise
        return _results(decode_response(ApiKey.WRITE_TXN_MARKERS, _VERSION, answer))

    async def _connect(self, broker: Broker) -> LeaderConnection:
        connection = self._open(broker)
        await connection.connect()
        first = self._connections.setdefault(broker, connection)
        if first is not connection:
            connection.close()  # another call's connection was ready sooner
        return first

    def close(self) -> None:
        """Close all connections; outstanding requests fail."""
        # Clear the table first, because each request that fails removes its connection from it.
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()


def _request(markers: Sequence[TransactionMarker]) -> messages.WriteTxnMarkersRequest:
    kind = messages.WriteTxnMarkersRequest
    entry = kind.WritableTxnMarker
    written = [
        entry(
            version=_VERSION,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            topics=[
                entry.WritableTxnMarkerTopic(version=_VERSION, name=name, partition_indexes=indexes)
                for name, indexes in by_topic((tp, tp.partition) for tp in marker.partitions).items()
            ],
        )
        for marker in markers
    ]
    return kind(version=_VERSION, markers=written)


def _results(response: messages.WriteTxnMarkersResponse) -> MarkerResults:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): ErrorCode(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
