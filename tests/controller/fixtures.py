"""A cluster without sockets: a ZooKeeper in memory, controllers on virtual time, brokers that only take notes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafkalite.cluster.control import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.controller.active_controller import ControllerConfig
from kafkalite.controller.controller import Controller
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.brokers import BrokerStore
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.controller import AdminStore, NotificationStore
from kafkalite.zk.stores.stores import Stores
from kafkalite.zk.stores.topics import IsrStore, TopicStore
from kafkalite.zk.znodes import topics
from kafkalite.zk.znodes.admin import REASSIGN_PARTITIONS, encode_reassignment
from kafkalite.zk.znodes.topics import TopicAssignment
from tests.support import run


def tp(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def numbers(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "none"


def assignment_text(value: PartitionAssignment) -> str:
    text = numbers(value.replicas)
    if value.adding:
        text += f" adding {numbers(value.adding)}"
    if value.removing:
        text += f" removing {numbers(value.removing)}"
    return text


class ControllerFixture:
    """The cluster. ``notes`` are the requests that brokers got, ``take()`` is their transcript."""

    def __init__(self, config: ControllerConfig | None = None) -> None:
        self.zk = MemoryZooKeeper()
        self.clock = ManualClock()
        self.config = config or ControllerConfig(auto_leader_rebalance=False)
        self.sessions: dict[int, MemoryZkClient] = {}
        self.unclean_start_epochs: dict[int, int] = {}
        self.controllers: dict[int, Controller] = {}
        self.controller_clients: dict[int, MemoryZkClient] = {}
        self.active: dict[int, int] = {}
        self.notes: list[tuple[int, ControlRequest]] = []
        self.reached: dict[int, str] = {}
        self.mute: set[int] = set()
        self.refuse: set[int] = set()
        self.held: list[tuple[Future[ControlResponse], ControlResponse]] = []
        self.answer: Callable[[int, ControlRequest], ControlResponse] = lambda _, __: ControlResponse(ErrorCode.NONE)
        self.client = self.zk.client()
        self.topics = TopicStore(self.client)
        self.admin = AdminStore(self.client)
        self.configs = ConfigStore(self.client, self.clock.time_ms)
        self.notifications = NotificationStore(self.client)

    # Brokers

    def start(self, *broker_ids: int) -> ControllerFixture:
        """Brokers register after an unclean start."""
        for broker_id in broker_ids:
            self._register(broker_id)
            self.unclean_start_epochs[broker_id] = self.epoch(broker_id)
        return self

    def start_cleanly(self, *broker_ids: int) -> None:
        """Brokers register whose logs are whole: a clean start, or the same process in a new session."""
        for broker_id in broker_ids:
            self._register(broker_id, self.unclean_start_epochs[broker_id])

    def _register(self, broker_id: int, unclean_start_epoch: int = -1) -> None:
        client = self.sessions[broker_id] = self.zk.client()
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9000 + broker_id)
        broker = Broker(broker_id, (endpoint,), unclean_start_epoch=unclean_start_epoch)
        run(BrokerStore(client, self.clock).register(broker))

    def epoch(self, broker_id: int) -> int:
        """The czxid of a broker's znode."""
        return self.zk.tree.node(f"/brokers/ids/{broker_id}").stat().czxid

    def kill(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.sessions.pop(broker_id).close()

    def bounce(self, broker_id: int, cleanly: bool = False) -> None:
        """A restart so quick that the controller sees one change."""
        with self.unseen(broker_id):
            self.kill(broker_id)
        self.start_cleanly(broker_id) if cleanly else self.start(broker_id)

    @contextmanager
    def unseen(self, *broker_ids: int) -> Iterator[None]:
        """What happens to the registrations of these brokers meanwhile, the first controller sees with what follows."""
        client = self.controller_clients[next(iter(self.controller_clients))]
        hidden = [(client._child_watches, "/brokers/ids")]
        hidden += [(client._data_watches, f"/brokers/ids/{broker_id}") for broker_id in broker_ids]
        kept = [dict(watches.pop(path, {})) for watches, path in hidden]
        yield
        for (watches, path), before in zip(hidden, kept, strict=True):
            watches[path] = before

    def control(self, broker_id: int) -> Controller:
        """A controller on a session of its own, standing for election."""
        client = self.controller_clients[broker_id] = self.zk.client()
        stores = Stores(client, self.clock, 18.0, random.Random(1))

        def changed(controller_id: int) -> None:
            self.active[broker_id] = controller_id

        controller = self.controllers[broker_id] = Controller(broker_id, stores, self, self.clock, self.config, changed)
        client.add_listener(controller.on_session)
        controller.start()
        return controller

    def send(self, broker: Broker, request: ControlRequest) -> Awaitable[ControlResponse]:
        answer: Future[ControlResponse] = Future()
        if broker.id in self.refuse:
            answer.errback(OSError("connection refused"))
            return answer
        self.notes.append((broker.id, request))
        self.reached[broker.id] = broker.endpoints[0].host
        response = self.answer(broker.id, request)
        if broker.id in self.mute:
            self.held.append((answer, response))
        else:
            answer.callback(response)
        return answer

    def release(self) -> None:
        """Answer what mute brokers were asked."""
        held, self.held = self.held, []
        self.mute.clear()
        for answer, response in held:
            answer.callback(response)

    # Topics

    def topic(
        self, name: str, partitions: Mapping[int, Sequence[int]], config: Mapping[str, str] | None = None
    ) -> uuid.UUID:
        topic_id = uuid.uuid4()
        value = TopicAssignment(topic_id, {i: PartitionAssignment(tuple(r)) for i, r in partitions.items()})
        run(self.topics.create(name, value, config or {}))
        return topic_id

    def request_reassignments(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """What a ZooKeeper tool writes."""
        run(self.client.create(REASSIGN_PARTITIONS, encode_reassignment(targets)))

    def leader_writes(self, name: str, isr: Sequence[int], notify: bool = True) -> None:
        """The leader of a partition changes its ISR."""
        state = self.read(name)
        assert state is not None
        epochs = {**self.unclean_start_epochs, **dict(state.unclean_start_epochs)}
        written = state.with_(isr=tuple(isr), unclean_start_epochs=tuple((r, epochs[r]) for r in isr))
        run(self.client.set(topics.state_path(tp(name)), topics.encode_state(written)))
        if notify:
            run(IsrStore(self.client).notify([tp(name)]))

    def read(self, name: str) -> LeaderAndIsr | None:
        return run(self.topics.state(tp(name)))

    def state(self, name: str) -> str:
        state = self.read(name)
        if state is None:
            return "none"
        return f"leader {state.leader} epoch {state.leader_epoch} isr {numbers(state.isr)} by {state.controller_epoch}"

    def assignment(self, name: str) -> str:
        found = run(self.topics.assignment(tp(name).topic))
        assert found is not None
        return assignment_text(found[0].partitions[tp(name).partition])

    # Transcripts

    def take(self) -> str:
        """What the brokers were told since the last time."""
        notes, self.notes = self.notes, []
        return "\n".join(f"{broker_id} <- {self._text(request)}" for broker_id, request in notes)

    def _text(self, request: ControlRequest) -> str:
        if isinstance(request, (LeaderAndIsrRequest, UpdateMetadataRequest)):
            kind = "lead/follow" if isinstance(request, LeaderAndIsrRequest) else "metadata"
            states = [
                f"{s.topic_partition}: {s.leader}/{s.leader_epoch} [{numbers(s.isr)}]"
                for s in sorted(request.states, key=lambda s: s.topic_partition)
            ]
            alive = numbers([broker.id for broker in request.brokers])
            return f"{kind} ({alive}) " + "; ".join(states) if states else f"{kind} ({alive})"
        assert isinstance(request, StopReplicaRequest)
        stops = [
            f"{p.topic_partition} at {p.leader_epoch}{' and delete' if p.delete else ''}"
            for p in sorted(request.partitions, key=lambda p: p.topic_partition)
        ]
        return "stop " + "; ".join(stops)
