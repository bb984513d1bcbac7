"""What the parts of a simulated cluster sent each other and noted of themselves, with the times of the simulation.

The recorder watches the calls that the world plans, because each message between two machines is one of them. So the
simulation needs no part of its own for it, and a recorded history is the same as one that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kafkalite.common.events import BrokerEvent
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.frames import parse_request_header, response_body_offset
from kafkalite.testing.ensemble.client import EnsembleClient
from kafkalite.testing.ensemble.wire import Frame, Leg, ReadRequest, Reply, WriteRequest
from kafkalite.testing.simulation.cluster import PORT, SimCluster
from kafkalite.testing.simulation.wires import Pipe
from kafkalite.testing.simulation.world import Life, ScheduledCall, World
from kafkalite.testing.znodes import NodeTransaction, TransactionKind
from kafkalite.zk.zk_client import WatchEvent

ZOOKEEPER: Final = "zookeeper"
"""The servers of ZooKeeper, as one machine."""
_LENGTH = 4


@dataclass(frozen=True, slots=True)
class KafkaMessage:
    """A request, or (``is_answer``) the answer to one; ``version`` is that of the request."""

    sent: float
    arrived: float
    source: str
    target: str
    api: ApiKey
    version: int
    is_answer: bool
    connection: tuple[int, int]
    """Numbers of the sockets of the machine that asks and of the one that answers."""
    correlation: int
    body: memoryview


@dataclass(frozen=True, slots=True)
class ZooKeeperMessage:
    """A request to ZooKeeper, the answer to it (with the request), or a watch event."""

    sent: float
    arrived: float
    source: str
    target: str
    content: ReadRequest | WriteRequest | Reply | WatchEvent
    request: ReadRequest | WriteRequest | None = None


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event that a broker recorded, with the exact time of the simulation."""

    at: float
    event: BrokerEvent


@dataclass(frozen=True, slots=True)
class ClosedSession:
    """ZooKeeper closed a session, and deleted its ephemeral znodes."""

    at: float
    znodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Bytes of one direction of a connection."""

    sent: float
    arrived: float
    data: bytes


@dataclass(frozen=True, slots=True)
class _Way:
    """One direction of a connection: hosts, numbers of the sockets, and whether it leads to a broker's port."""

    source: str
    target: str
    sockets: tuple[int, int]
    asks: bool


class RecordedWorld(World):
    """A world that keeps all messages; :meth:`watch` makes it keep the events of a cluster's brokers, too."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, self._before_event)
        self.closed_sessions: list[ClosedSession] = []
        self._events: list[RecordedEvent] = []
        self._chunks: dict[_Way, list[_Chunk]] = {}
        self._zookeeper: list[ZooKeeperMessage] = []
        self._asked: dict[tuple[EnsembleClient, int], ReadRequest | WriteRequest] = {}
        self._cluster: SimCluster | None = None
        self._watches = False
        self._known: dict[int, int] = {}
        self._last = 0.0

    def record(self, cluster: SimCluster) -> None:
        """Keep what the brokers of ``cluster`` and ZooKeeper say. Call it before the first broker starts."""
        self._cluster = cluster
        cluster.zookeeper.on_commit(self._committed)

    def watch(self) -> None:
        """From now on keep the events of the brokers. They are looked for after each step, which is slow."""
        self._look()
        self._events.clear()
        self._watches = True

    def trace(self, tp: TopicPartition, seconds: float) -> None:
        """Let the brokers trace the records of ``tp``."""
        assert self._cluster is not None
        for broker in self._cluster.brokers.values():
            if broker.server is not None:
                broker.server.traces.arm(tp, seconds)

    # What was recorded

    def kafka_messages(self) -> Iterator[KafkaMessage]:
        """The requests and answers that were sent as a whole, in the order of their connections."""
        requests: dict[tuple[tuple[int, int], int], tuple[ApiKey, int]] = {}
        # First the requests, because an answer does not name its API.
        for way in sorted(self._chunks, key=lambda way: not way.asks):
            for sent, arrived, frame in _frames(self._chunks[way]):
                if way.asks:
                    header, begin = parse_request_header(frame)
                    api, version, correlation = ApiKey(header.api_key), header.api_version, header.correlation_id
                    requests[way.sockets, correlation] = api, version
                else:
                    correlation = int.from_bytes(frame[:4], "big")
                    api, version = requests[way.sockets, correlation]
                    begin = response_body_offset(api, version, frame)
                yield KafkaMessage(
                    sent,
                    arrived,
                    way.source,
                    way.target,
                    api,
                    version,
                    not way.asks,
                    way.sockets,
                    correlation,
                    frame[begin:],
                )

    def zookeeper_messages(self) -> list[ZooKeeperMessage]:
        """The messages of the brokers and ZooKeeper, in the order in which they were sent."""
        return self._zookeeper

    def events_since(self, begin: float) -> list[RecordedEvent]:
        """The events of the brokers from a time on, in the order in which they were seen."""
        return [event for event in self._events if event.at >= begin]

    # Recording

    def plan(
        self, at: float, call: Callable[..., object], args: tuple[object, ...], life: Life | None
    ) -> ScheduledCall:
        """See :meth:`World.plan`."""
        sender = getattr(call, "__self__", None)
        if isinstance(sender, Pipe) and args and isinstance(args[0], bytes):
            self._sent(sender, _Chunk(self.now, at, args[0]))
        elif isinstance(sender, Leg) and sender._messages and not sender.held:
            self._sent_to_zookeeper(sender, at)
        return super().plan(at, call, args, life)

    def _sent(self, pipe: Pipe, chunk: _Chunk) -> None:
        target, source = pipe.target, pipe.target.peer
        assert source is not None, "a side sends before the connection is established"
        asks = target.local[1] == PORT
        numbers = (source.fileno(), target.fileno())
        way = _Way(source.host.name, target.host.name, numbers if asks else (numbers[1], numbers[0]), asks)
        self._chunks.setdefault(way, []).append(chunk)

    def _sent_to_zookeeper(self, leg: Leg[object], at: float) -> None:
        message = leg._messages[-1]
        client, asks = self._client_of(leg)
        if client is None:
            # Servers of ZooKeeper speak to each other, or to a client that has hung up.
            return
        match message:
            case Frame(xid, ReadRequest() | WriteRequest() as request, _):
                self._asked[client, xid] = request
                self._zookeeper.append(ZooKeeperMessage(self.now, at, client.name, ZOOKEEPER, request))
            case Reply(xid) if not asks and (client, xid) in self._asked:
                asked = self._asked[client, xid]
                self._zookeeper.append(ZooKeeperMessage(self.now, at, ZOOKEEPER, client.name, message, asked))
            case WatchEvent():
                self._zookeeper.append(ZooKeeperMessage(self.now, at, ZOOKEEPER, client.name, message))

    def _client_of(self, leg: Leg[object]) -> tuple[EnsembleClient | None, bool]:
        """The client whose connection to ZooKeeper has the leg, and whether it is the one of its requests."""
        assert self._cluster is not None
        for client in self._cluster.zookeeper.clients:
            connection = client._connection
            if connection is not None and leg in (connection.requests, connection.answers):
                return client, leg is connection.requests
        return None, False

    def _committed(self, transaction: NodeTransaction) -> None:
        if transaction.kind is TransactionKind.CLOSE_SESSION:
            znodes = tuple(change.op.path for change in transaction.changes)
            self.closed_sessions.append(ClosedSession(self.now, znodes))

    def _before_event(self, at: float, _node: str, _name: str) -> None:
        if self._watches:
            self._look()
        self._last = at

    def _look(self) -> None:
        """Keep the events which the step before recorded."""
        assert self._cluster is not None
        for number, broker in self._cluster.brokers.items():
            if broker.server is None or not broker.is_alive:
                continue
            known = self._known.get(number, 0)
            new = [event for event in broker.server.events.snapshot().events if event.sequence > known]
            new.sort(key=lambda event: event.sequence)
            if new:
                self._known[number] = new[-1].sequence
                self._events += [RecordedEvent(self._last, event) for event in new]


def _frames(chunks: list[_Chunk]) -> Iterator[tuple[float, float, memoryview]]:
    """When the last byte of each frame was sent and arrived, and the frame without its length."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk.data
        while len(buffer) >= _LENGTH:
            end = _LENGTH + int.from_bytes(buffer[:_LENGTH], "big")
            if len(buffer) < end:
                break
            yield chunk.sent, chunk.arrived, memoryview(bytes(buffer[_LENGTH:end]))
            del buffer[:end]
