"""Asks the brokers once a second where the log of each replica starts and ends, and the leaders for high watermarks.

Answers to: ``kafka.tools.ReplicaVerificationTool``, which asks the same way: any replica answers a ListOffsets request
with the replica id -2, with the end of its own log. Reactor shell: it is handed the connections.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, cast

from kafkalite.common.clock import Clock
from kafkalite.common.tasks import gather, sleep
from kafkalite.common.types import TopicPartition
from kafkalite.dashboard.entities import Value
from kafkalite.dashboard.live_state import LiveState
from kafkalite.network.client import BrokerConnection, ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.protocol.errors import ProtocolError

log = logging.getLogger(__name__)

INTERVAL: Final = 1.0
"""Seconds between two rounds."""
TIMEOUT: Final = 5.0
"""Seconds in which a broker connects or answers."""
_VERSION: Final = 7
_DEBUGGING_REPLICA, _CONSUMER = -2, -1
_LATEST, _EARLIEST = -1, -2
AT_ONCE: Final = 100
"""Partitions in a request: changes in ZooKeeper wait while one is written or read, here and in the broker."""

Connect = Callable[[str, int], BrokerConnection]
"""Makes a connection to ``host`` and ``port``, which is not open yet."""


class LogOffsets:
    """Puts ``log/<topic>/<partition>`` into the ``state`` while a page is open.

    Brokers are asked on their first listener with the security ``protocol``, which ``connect`` must speak.
    """

    def __init__(self, state: LiveState, connect: Connect, clock: Clock, protocol: str = "PLAINTEXT") -> None:
        self._state = state
        self._connect = connect
        self._clock = clock
        self._protocol = protocol
        self._connections: dict[int, BrokerConnection] = {}
        self._known: set[str] = set()

    async def run(self) -> None:
        """Ask without end."""
        while True:
            await sleep(self._clock, INTERVAL)
            if self._state.is_watched:
                await self._round()

    async def _round(self) -> None:
        hosted: dict[int, list[TopicPartition]] = defaultdict(list)
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic in self._state.topics():
            for partition in cast("list[Value]", topic.get("partitions", [])):
                tp = TopicPartition(str(topic["name"]), cast("int", partition["partition"]))
                led[cast("int", partition["leader"])].append(tp)
                for broker_id in cast("list[int]", partition["replicas"]):
                    hosted[broker_id].append(tp)
        addresses = {
            cast("int", broker["id"]): address_of(broker, self._protocol)
            for broker in self._state.brokers()
            if "id" in broker
        }
        for gone in self._connections.keys() - addresses.keys():
            self._connections.pop(gone).close()
        found: dict[str, Value] = {}
        await gather(
            self._ask(broker_id, address, hosted[broker_id], led[broker_id], found)
            for broker_id, address in addresses.items()
            if address is not None
        )
        missing = dict.fromkeys(self._known - found.keys())
        self._known = set(found)
        self._state.put({**missing, **found})

    async def _ask(
        self,
        broker_id: int,
        address: tuple[str, int],
        hosted: list[TopicPartition],
        led: list[TopicPartition],
        found: dict[str, Value],
    ) -> None:
        try:
            connection = await self._connection(broker_id, address)
            starts = await _list_offsets(connection, _DEBUGGING_REPLICA, _EARLIEST, hosted)
            ends = await _list_offsets(connection, _DEBUGGING_REPLICA, _LATEST, hosted)
            watermarks = await _list_offsets(connection, _CONSUMER, _LATEST, led)
        except (ConnectionLost, ProtocolError) as error:
            log.debug("broker %d does not tell its offsets: %s", broker_id, error)
            return
        for tp in starts.keys() & ends.keys():
            replicas = cast("Value", found.setdefault(_key(tp), {"replicas": {}, "request": REQUEST})["replicas"])
            replicas[str(broker_id)] = {"start": starts[tp], "end": ends[tp]}
        for tp, watermark in watermarks.items():
            found.setdefault(_key(tp), {"replicas": {}, "request": REQUEST})["high_watermark"] = watermark

    async def _connection(self, broker_id: int, address: tuple[str, int]) -> BrokerConnection:
        connection = self._connections.get(broker_id)
        if connection is None or not connection.connected or (connection.host, connection.port) != address:
            if connection is not None:
                connection.close()
            connection = self._connections[broker_id] = self._connect(*address)
            await connection.connect(TIMEOUT)
        return connection


REQUEST: Final = f"ListOffsets v{_VERSION}"


def _key(tp: TopicPartition) -> str:
    return f"log/{tp.topic}/{tp.partition}"


def address_of(broker: Value, protocol: str) -> tuple[str, int] | None:
    """Host and port of the broker's first listener with the security ``protocol``; ``None`` where it has none."""
    for endpoint in cast("list[Value]", broker.get("endpoints", [])):
        if endpoint["protocol"] == protocol:
            return str(endpoint["host"]), cast("int", endpoint["port"])
    return None


async def _list_offsets(
    connection: BrokerConnection, replica_id: int, at: int, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offset at time ``at`` of each partition that the broker answers for."""
    found: dict[TopicPartition, int] = {}
    for start in range(0, len(partitions), AT_ONCE):
        request = _request(replica_id, at, tuple(partitions[start : start + AT_ONCE]))
        body = await connection.send(ApiKey.LIST_OFFSETS, _VERSION, request, TIMEOUT)
        answer: messages.ListOffsetsResponse = decode_response(ApiKey.LIST_OFFSETS, _VERSION, body)
        found |= {
            TopicPartition(topic.name, entry.partition_index): entry.offset
            for topic in answer.topics
            for entry in topic.partitions
            if not entry.error_code
        }
    return found


@lru_cache(maxsize=1000)
def _request(replica_id: int, at: int, partitions: tuple[TopicPartition, ...]) -> bytes:
    """The body of a request, kept because the same ones are sent once a second, and the codec is slow."""
    kind = messages.ListOffsetsRequest.ListOffsetsTopic
    topics = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(
            kind.ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=-1, timestamp=at)
        )
    request = messages.ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=0,
        topics=[kind(name=name, partitions=entries) for name, entries in topics.items()],
    )
    return encode_request(ApiKey.LIST_OFFSETS, _VERSION, request)
