"""Diagrams of recorded runs: three brokers and three servers of ZooKeeper in a simulation of one seed.

Each arrow is a message of the run, decoded from its bytes; each note is an event (``kafkalite events``), a trace point
(``kafkalite trace``) or a line of the simulation. A run has more messages than a picture can hold. So a function for
each run says which it shows, and with which words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Final, Self

from integration.diagrams.recording import (
    ZOOKEEPER,
    KafkaMessage,
    RecordedWorld,
    ZooKeeperMessage,
)
from integration.diagrams.sequence import Arrow, Note, drawn
from kafkalite.common.errors import ErrorCode
from kafkalite.common.events import BrokerEvent, EventKind
from kafkalite.common.trace_points import TracePointKind
from kafkalite.common.types import TopicPartition
from kafkalite.network.control_codec import read_leader_and_isr
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, decode_response
from kafkalite.protocol.fetch import decode_fetch
from kafkalite.protocol.fetch_response import decode_fetch_response
from kafkalite.protocol.messages import message_name
from kafkalite.protocol.produce import decode_produce, decode_produce_response
from kafkalite.record.batch import iter_headers
from kafkalite.testing.ensemble.wire import ReadKind, ReadRequest, Reply, WriteRequest
from kafkalite.testing.simulation.clients.consumer_coordinator import MembershipSettings
from kafkalite.testing.simulation.clients.consumer_protocol import decode_assignment
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.member import Member, MemberSettings
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.zk.zk_client import EventType, SetData, WatchEvent
from tests.testing.simulation.slice import TOPIC, Workload

SEED: Final = 102
"""With it broker 1 is the controller, and partition 0 is on brokers 2, 3, 1: three brokers, three roles."""
TP: Final = TopicPartition(TOPIC, 0)
CONTROLLER, LEADER, NEXT_LEADER = "broker-1", "broker-2", "broker-3"
_IDS = "/brokers/ids"
_WRITTEN = "written"
_STATE = f"/brokers/topics/{TOPIC}/partitions/0/state"

Message = KafkaMessage | ZooKeeperMessage


class RecordedRun:
    """A cluster with the topic ``t``, whose messages are kept. Use it as a context manager."""

    def __init__(self, partitions: int = 1) -> None:
        self.world = RecordedWorld(SEED)
        self.violations: list[str] = []
        self._partitions = partitions

    def __enter__(self) -> Self:
        world = self.world.__enter__()
        assert world is self.world
        self.cluster = SimCluster(self.world)
        self.cluster.__enter__()
        self.world.record(self.cluster)
        self.cluster.start_all()
        workload = Workload(self.cluster, self._partitions)
        admin = self.cluster.client_node("admin")
        admin.spawn(lambda: workload.create_topic(admin), "creating the topic")
        self.until(lambda: workload.leader(TP) > 0)
        # Until the followers fetch, and the brokers have nothing left to do.
        self.world.run_until(self.world.now + 1.0)
        active = [
            number
            for number, broker in self.cluster.brokers.items()
            if broker.services is not None and broker.services.controller.is_active
        ]
        assert (active, workload.leader(TP)) == ([1], 2), f"with seed {SEED} the brokers have other roles: try another"
        self.world.watch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.__exit__(kind, error, trace)
        self.world.__exit__(kind, error, trace)
        if error is None:
            assert ([*map(str, self.world.failures)], self.violations) == ([], []), "the run has failed"

    def until(self, condition: Callable[[], bool]) -> float:
        """Run until ``condition`` holds; the time then."""
        assert self.world.run_until(condition, self.world.now + 20.0)
        return self.world.now

    def client(self, name: str) -> ClientHost:
        """The machine of a client."""
        node = self.cluster.client_node(name)
        return ClientHost(
            node.clock, node.rng, node.connect, lambda _: None, self.violations.append, self.cluster.bootstrap
        )

    def producer(self, rate: float) -> Producer:
        """A running producer that waits for all replicas."""
        host = self.client("client")
        producer = Producer(host, ProducerSettings("client", (TOPIC,), rate=rate, bunch=1))
        self.cluster.client_node("client").spawn(producer.run, "producing")
        return producer

    def arrows(self, begin: float, end: float, label: Callable[[Message], str]) -> Iterator[Arrow]:
        """The messages of a time that have a label."""
        found: list[Message] = [*self.world.kafka_messages(), *self.world.zookeeper_messages()]
        for message in sorted(found, key=lambda each: each.sent):
            if begin <= message.sent and message.arrived <= end and (words := label(message)):
                yield Arrow(message.sent, message.arrived, message.source, message.target, words)

    def events(self, begin: float, end: float, label: Callable[[BrokerEvent], str]) -> Iterator[Note]:
        """The events of a time that have a label."""
        for recorded in self.world.events_since(begin):
            if recorded.at <= end and (words := label(recorded.event)):
                yield Note(recorded.at, f"broker-{recorded.event.broker}", words)


# A produce with acks=all


def one_produce(name: str) -> str:
    """One record from its producer to all replicas, and its answer."""
    with RecordedRun() as run:
        producer = run.producer(rate=4.0)
        run.until(lambda: producer.acknowledged == 1)
        run.world.trace(TP, 60.0)
        end = run.until(lambda: producer.acknowledged == 2)
        sent = [each for each in run.world.kafka_messages() if not each.is_answer]
        begin = max(each.sent for each in sent if each.api is ApiKey.PRODUCE)
        # The fetches that wait at the leader when the record comes.
        waiting = [
            max(
                each.sent for each in sent if each.api is ApiKey.FETCH and each.sent < begin and each.source == follower
            )
            for follower in (NEXT_LEADER, CONTROLLER)
        ]
        arrows = [
            arrow
            for arrow in run.arrows(min(waiting), end, _of_produce)
            if arrow.sent >= begin or (arrow.sent in waiting and arrow.target == LEADER)
        ]
        notes = [
            Note(point.time, f"broker-{point.broker}", words)
            for broker in run.cluster.brokers.values()
            if broker.server is not None
            for point in sorted(broker.server.traces.frames(TP).points, key=lambda each: each.time)
            if (words := _TRACED.get(point.kind, "").format(point.end)) and begin <= point.time <= end
        ]
    roles = {LEADER: "leader", NEXT_LEADER: "follower", CONTROLLER: "follower"}
    return drawn(name, "One produce with acks=all", _lanes(["client", *roles], roles), [*arrows, *notes])


_TRACED: Final[Mapping[str, str]] = {
    TracePointKind.APPENDED: "log end {}",
    TracePointKind.REPLICATED: "log end {}",
    TracePointKind.HIGH_WATERMARK: "high watermark {}",
}
"""Kind of trace point → its words; the other kinds are the ends of messages."""


def _of_produce(message: Message) -> str:
    if isinstance(message, ZooKeeperMessage):
        return ""
    match message.api, message.is_answer:
        case ApiKey.PRODUCE, False:
            acks = decode_produce(message.version, message.body).acks
            return f"Produce, acks={'all' if acks == -1 else acks}"
        case ApiKey.PRODUCE, True:
            [answer] = decode_produce_response(message.version, message.body)
            return f"answer: offset {answer.base_offset}"
        case ApiKey.FETCH, False:
            request = decode_fetch(message.version, message.body)
            return ", ".join(f"Fetch from {each.fetch_offset}" for each in request.partitions)
        case ApiKey.FETCH, True:
            return ", ".join(_records(message))
    return ""


def _records(message: KafkaMessage) -> Iterator[str]:
    for each in decode_fetch_response(message.version, message.body).partitions:
        assert isinstance(each.records, memoryview | None)
        for _, header in iter_headers(each.records or memoryview(b"")):
            first, last = header.base_offset, header.last_offset
            records = f"record {first}" if first == last else f"records {first} to {last}"
            yield f"{records}, high watermark {each.high_watermark}"


# A leader is killed


def killed_leader(name: str) -> str:
    """From the death of a leader to the first record that the next one accepts."""
    with RecordedRun() as run:
        producer = run.producer(rate=20.0)
        run.until(lambda: producer.acknowledged >= 2)
        world, begin = run.world, run.world.now
        run.cluster.kill(2)
        run.until(lambda: any(each.event.kind == EventKind.PRODUCE for each in world.events_since(begin)))
        before = producer.acknowledged
        end = run.until(lambda: producer.acknowledged > before)
        deaths = [line for line in world.lines if line.at == begin and line.node == LEADER and not line.level]
        arrows = [arrow for arrow in run.arrows(begin, end, _of_failover) if LEADER not in (arrow.source, arrow.target)]
        # Later reads are those of a broker that looks again.
        written = max(arrow.sent for arrow in arrows if arrow.label == _WRITTEN)
        moments: list[Arrow | Note] = [
            *(Note(line.at, line.node, line.text, ends=True) for line in deaths),
            *(Note(each.at, ZOOKEEPER, f"session closed: {each.znodes[0]} deleted") for each in world.closed_sessions),
            *(each for each in arrows if each.sent <= written or ZOOKEEPER not in (each.source, each.target)),
            *run.events(begin, end, lambda event: event.text if event.kind in _DECIDED else ""),
        ]
    roles = {CONTROLLER: "controller", LEADER: "leader, killed", NEXT_LEADER: "next leader"}
    return drawn(name, "A killed leader", _lanes([ZOOKEEPER, *roles, "client"], roles), moments)


_DECIDED = (EventKind.LEADERSHIP, EventKind.PRODUCE)


def _of_failover(message: Message) -> str:
    if isinstance(message, ZooKeeperMessage):
        return _of_controller(message) if CONTROLLER in (message.source, message.target) else ""
    match message.api, message.is_answer:
        case ApiKey.LEADER_AND_ISR, False:
            request = decode_request(message.api, message.version, message.body)
            assert isinstance(request, messages.LeaderAndIsrRequest)
            states = read_leader_and_isr(request, "PLAINTEXT").states
            return ", ".join(f"LeaderAndIsr: leader {each.leader}, epoch {each.leader_epoch}" for each in states)
        case ApiKey.UPDATE_METADATA, False:
            return "UpdateMetadata"
        case ApiKey.METADATA, False:
            return "Metadata?"
        case ApiKey.METADATA, True:
            topics = decode_response(message.api, message.version, message.body).topics
            return ", ".join(f"Metadata: leader {each.leader_id}" for topic in topics for each in topic.partitions)
        case ApiKey.FETCH | ApiKey.PRODUCE, _:
            return _of_produce(message)
    return ""


def _of_controller(message: ZooKeeperMessage) -> str:
    match message.content, message.request:
        case WatchEvent(kind, path), _ if path.startswith(_IDS):
            return f"watch event: {f'children of {path}' if kind is EventType.CHILD else f'{path} {kind.value}'}"
        case ReadRequest(ReadKind.GET_CHILDREN, path), _ if path == _IDS:
            return f"children of {path}?"
        case Reply(value=list() as ids), ReadRequest(ReadKind.GET_CHILDREN, path) if path == _IDS:
            return f"brokers {', '.join(map(str, ids))}"
        case WriteRequest(ops), _ if any(op.path == _STATE for op in ops):
            return " and ".join(f"{'set' if isinstance(op, SetData) else 'check'} {_short(op.path)}" for op in ops)
        case Reply(error=None), WriteRequest(ops) if any(op.path == _STATE for op in ops):
            return _WRITTEN
    return ""


def _short(path: str) -> str:
    return "…" + path[-len("/0/state") :] if path == _STATE else path


# A member joins a group


def rebalance(name: str) -> str:
    """A second member joins a group of one."""
    with RecordedRun(partitions=2) as run:
        first, second = (
            Member(run.client(each), MemberSettings(each, MembershipSettings("g", (TOPIC,)))) for each in _MEMBERS
        )
        run.cluster.client_node("member-a").spawn(first.run, "the first member")
        run.until(lambda: len(first.assigned) == 2)
        run.world.run_until(run.world.now + 1.0)
        begin = run.world.now
        run.cluster.client_node("member-b").spawn(second.run, "the second member")
        run.until(lambda: len(first.assigned) == len(second.assigned) == 1)
        end = max(m.arrived for m in run.world.kafka_messages() if m.api is ApiKey.SYNC_GROUP)
        [coordinator] = {m.target for m in run.world.kafka_messages() if m.api is ApiKey.JOIN_GROUP and not m.is_answer}
        ids = {
            str(decode_response(m.api, m.version, m.body).member_id): m.target
            for m in run.world.kafka_messages()
            if m.api is ApiKey.JOIN_GROUP and m.is_answer
        }

        def named(words: str) -> str:
            for member, node in ids.items():
                words = words.replace(member, node)
            return words

        moments: list[Arrow | Note] = [
            *run.arrows(begin, end, lambda message: named(_of_rebalance(message))),
            *run.events(begin, end, lambda event: named(event.text) if event.kind == EventKind.REBALANCE else ""),
        ]
    asked = [m.target for m in moments if isinstance(m, Arrow) and m.label.startswith("FindCoordinator")]
    nodes = dict.fromkeys([ZOOKEEPER, *asked, coordinator, *_MEMBERS])
    return drawn(name, "A member joins a group", _lanes(nodes, {coordinator: "coordinator of group g"}), moments)


_CLAIM: Final = "/consumers/g/coordinator"
_MEMBERS: Final = ("member-a", "member-b")
_ASKED: Final = (ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT)


def _of_rebalance(message: Message) -> str:
    if isinstance(message, ZooKeeperMessage):
        match message.content, message.request:
            case ReadRequest(ReadKind.GET, path), _ if path == _CLAIM:
                return f"{path}?"
            case Reply(value=(bytes() as data, _)), ReadRequest(ReadKind.GET, path) if path == _CLAIM:
                return f"broker {json.loads(data)['brokerid']}"
            case WriteRequest(ops), _ if any("/generation/" in op.path for op in ops):
                return "write …" + next(op.path for op in ops if "/generation/" in op.path).removeprefix("/consumers")
            case Reply(error=None), WriteRequest(ops) if any("/generation/" in op.path for op in ops):
                return _WRITTEN
        return ""
    if message.api not in _ASKED:
        return ""
    if not message.is_answer:
        request = decode_request(message.api, message.version, message.body)
        return f"{message_name(message.api)}{_asked(request)}"
    answer = decode_response(message.api, message.version, message.body)
    if message.api is ApiKey.FIND_COORDINATOR:
        return ", ".join(f"broker {each.node_id}" for each in answer.coordinators)
    if answer.error_code:
        return ErrorCode(answer.error_code).name
    match message.api:
        case ApiKey.JOIN_GROUP:
            return f"generation {answer.generation_id}, leader {answer.leader}"
        case ApiKey.SYNC_GROUP:
            return ", ".join(f"assigned: {each}" for each in decode_assignment(answer.assignment))
    return ""


def _asked(request: messages.Message) -> str:
    match request:
        case messages.JoinGroupRequest():
            return "" if request.member_id else " without an id"
        case messages.SyncGroupRequest():
            return " with the assignment" if request.assignments else ""
    return ""


# Lanes


def _lanes(nodes: Iterable[str], roles: dict[str, str]) -> dict[str, tuple[str, str]]:
    names = {ZOOKEEPER: "ZooKeeper"}
    return {node: (names.get(node, node.replace("-", " ")), roles.get(node, "")) for node in nodes}
