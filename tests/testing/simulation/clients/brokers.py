"""Brokers for clients to talk to: real APIs, replicas, logs and coordinators; elections and the network by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.admin.producer_ids import ProducerIdManager
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.services import BrokerServices
from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.broker.coordinators import Coordinators
from kafkalite.broker.settings import api_config
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import FileRegion, Part, TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.network.request import ConnectionInfo, Request
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.frames import RequestHeader
from kafkalite.protocol.produce import ProducePartitionResponse, decode_produce, encode_produce_response
from kafkalite.record.batch import iter_headers
from kafkalite.record.records import iter_records
from kafkalite.testing.history.breaches import Breach
from kafkalite.testing.history.checker import check
from kafkalite.testing.history.events import Event, LogEntry, Replica
from kafkalite.testing.simulation.clients.host import ClientHost, Link
from kafkalite.testing.simulation.clients.records import identity_of
from kafkalite.zk.stores.paths import ensure_paths
from kafkalite.zk.stores.stores import Stores
from tests.replication.simulation import TP, SimBroker, SimCluster

LATENCY = 0.002
BOOTSTRAP = (("h", 9001), ("h", 9002))

Fault = Callable[["Wire", "Call"], bool]
"""Looks at a request that arrives; whether it did something with it, so that the broker never sees it."""


class Call:
    """One request of a client."""

    def __init__(self, node: int, key: ApiKey, version: int, body: bytes, future: Future[memoryview] | None) -> None:
        self.node = node
        self.key = key
        self.version = version
        self.body = body
        self.future = future
        self.lose_answer = False


class Wire:
    """A client's connection. Requests and answers arrive in order, each :data:`LATENCY` later."""

    def __init__(self, brokers: Brokers, node: int) -> None:
        self.info = ConnectionInfo(1, "client", "PLAINTEXT")
        self.node = node
        self.connected = False
        self.mute = False
        self.edit: Callable[[Call, bytes], bytes] = lambda _, body: body
        self._brokers = brokers
        self._pending: list[Call] = []
        self._answers: dict[int, bytes] = {}

    async def connect(self, timeout: float = 10.0) -> None:  # noqa: ARG002
        await self._brokers.host.sleep(LATENCY)
        if self._brokers.is_dead(self.node):
            raise ConnectionLost(f"broker {self.node}: refused")
        self.connected = True
        self._brokers.wires.append(self)

    def send(self, api_key: int, version: int, body: list[Part] | bytes, timeout: float = 30.0) -> Future[memoryview]:
        future: Future[memoryview] = Future()
        if not self.connected:
            future.errback(ConnectionLost("not connected"))
            return future
        call = Call(self.node, ApiKey(api_key), version, _joined(body), future)
        self._pending.append(call)
        self._brokers.clock.call_later(LATENCY, self._arrive, call)
        self._brokers.clock.call_later(timeout, self._overdue, call)
        return future

    def post(self, api_key: int, version: int, body: list[Part] | bytes) -> None:
        if self.connected:
            call = Call(self.node, ApiKey(api_key), version, _joined(body), None)
            self._brokers.clock.call_later(LATENCY, self._arrive, call)

    def close(self) -> None:
        self.lose("closed")

    def lose(self, why: str = "lost") -> None:
        """The connection is reset."""
        if not self.connected:
            return
        self.connected = False
        self._brokers.wires.remove(self)
        pending, self._pending = self._pending, []
        for call in pending:
            if call.future is not None:
                call.future.errback(ConnectionLost(why))

    def _overdue(self, call: Call) -> None:
        if call in self._pending:
            self.lose("no answer in time")

    def _arrive(self, call: Call) -> None:
        if not self.connected or self._brokers.is_dead(self.node):
            self.lose()
            return
        self._brokers.calls.append(call)
        if self.mute or self._brokers.interfere(self, call):
            return
        number = self._brokers.calls.index(call)
        header = RequestHeader(int(call.key), call.version, number, "client")
        body = memoryview(bytearray(call.body))
        self._brokers.dispatchers[self.node].handle(Request(header, body, cast("Any", self), 0.0))

    # Calls of requests

    def respond(self, request: Request, parts: list[Part] | None) -> None:
        call = self._brokers.calls[request.header.correlation_id]
        if parts is not None:
            body = b"".join(part.read() if isinstance(part, FileRegion) else bytes(part) for part in parts)
            self.answer(call, body)

    def release(self, size: int) -> None: ...

    def abort(self, why: str) -> None:
        self._brokers.aborted.append(why)
        self.lose(why)

    def answer(self, call: Call, body: bytes) -> None:
        """``body`` is on its way back."""
        if call.lose_answer:
            self.lose("reset before the answer")
            return
        self._answers[id(call)] = self.edit(call, body)
        self._brokers.clock.call_later(LATENCY, self._deliver)

    def _deliver(self) -> None:
        while self._pending and id(self._pending[0]) in self._answers:
            call = self._pending.pop(0)
            body = self._answers.pop(id(call))
            assert call.future is not None
            call.future.callback(memoryview(bytearray(body)))


class _FakeController:
    is_active = False


class Brokers(SimCluster):
    """A cluster with doors for clients. ``faults`` are asked about every request that arrives, the first first."""

    def __init__(self, path: Path, brokers: Sequence[int] = (1, 2, 3), seed: int = 1, **static: str) -> None:
        super().__init__(path, brokers)
        self.wires: list[Wire] = []
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.aborted: list[str] = []
        self.clients: list[Any] = []
        self.events: list[Event] = []
        self.violations: list[str] = []
        self.dispatchers: dict[int, Dispatcher] = {}
        self.coordinators: dict[int, Coordinators] = {}
        self._static = static
        deferred(ensure_paths(self.admin))
        self.run(0.1)
        self.host = ClientHost(
            self.clock, random.Random(seed), self._connect, self.events.append, self.violations.append, BOOTSTRAP
        )
        for broker in self.brokers.values():
            self._open(broker)
        self.run(1.0)

    def _open(self, broker: SimBroker) -> None:
        client = self.zookeeper.client()
        stores = Stores(client, self.clock, 6.0, random.Random(broker.id))
        config = DynamicConfig(BROKER_CONFIGS, {"zookeeper.connect": "zk", **self._static})
        producer_ids = ProducerIdManager(broker.id, stores.producer_ids.allocate)
        coordinators = Coordinators(
            broker.id,
            stores,
            broker.metadata,
            producer_ids,
            lambda target: cast("Any", Wire(self, target.id)),
            self.clock,
            config.values,
            random.Random(broker.id),
        )
        coordinators.start()
        self.coordinators[broker.id] = coordinators
        unused: Any = None
        self.dispatchers[broker.id] = Dispatcher(
            BrokerServices(
                broker_id=broker.id,
                cluster_id="cluster",
                api_config=api_config(config.values),
                metadata=broker.metadata,
                replicas=broker.manager,
                partitions=broker.manager.replicas,
                offset_queries=broker.manager.offset_queries,
                logs=cast("Any", broker.logs),
                controller=cast("Any", _FakeController()),
                control=unused,
                topics=unused,
                configs=unused,
                config_store=stores.config,
                tokens=unused,
                producer_ids=producer_ids,
                offsets=coordinators.offsets,
                groups=coordinators.groups,
                transactions=coordinators.transactions,
                clock=self.clock,
            )
        )

    def _connect(self, host: str, port: int, client_id: str) -> Link:
        del host, client_id
        return Wire(self, port - 9000)

    def is_dead(self, node: int) -> bool:
        return self.brokers[node].dead

    def interfere(self, wire: Wire, call: Call) -> bool:
        return any(fault(wire, call) for fault in list(self.faults))

    # Calls of tests

    def send(self, tp: TopicPartition = TP, to: Sequence[int] | None = None) -> list[Any]:
        """LeaderAndIsr and UpdateMetadata."""
        for broker in self.brokers.values():
            broker.metadata.apply([self.states[tp]])
        return super().send(tp, to)

    def restart(self, node: int) -> None:
        """A new process over the logs of one that is dead."""
        self.brokers[node].start()
        self._open(self.brokers[node])

    def start(self, client: Any) -> list[object]:
        """Run a client; the list is filled when it ends."""
        self.clients.append(client)
        ended: list[object] = []
        deferred(client.run()).addBoth(ended.append)
        return ended

    def finish(self) -> None:
        """Kill the clients that still run, so that no coroutine is left unfinished."""
        for client in self.clients:
            client.kill()
        self.run(30)

    def count(self, key: ApiKey) -> int:
        """Requests of a kind that arrived."""
        return sum(call.key is key for call in self.calls)

    def found(self) -> list[Breach]:
        """The violations in the history, with the replicas of the living brokers."""
        replicas = [
            Replica(str(tp), broker.id, entries_of(broker, tp))
            for tp in self.states
            for broker in self.brokers.values()
            if tp in broker.logs.logs and not broker.dead
        ]
        return check([*self.events, *replicas])

    def of(self, kind: type) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


def entries_of(broker: SimBroker, tp: TopicPartition) -> tuple[LogEntry, ...]:
    """The log of a replica."""
    log = broker.logs.logs[tp]
    found = log.read(log.log_start_offset, 1 << 30, log.log_end_offset, True)
    if found.records is None:
        return ()
    view = memoryview(found.records.read())
    entries: list[LogEntry] = []
    for place, header in iter_headers(view):
        for record in iter_records(view, header, place):
            identity = None if header.is_control else identity_of(record)
            entries.append(LogEntry(record.offset, header.leader_epoch, identity, header.crc))
    return tuple(entries)


def _joined(body: list[Part] | bytes) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join(part.read() if isinstance(part, FileRegion) else bytes(part) for part in body)


# Faults


def once(key: ApiKey, fault: Fault, after: int = 0) -> Fault:
    """``fault`` for one request of this kind, after so many others."""
    seen: list[Call] = []

    def act(wire: Wire, call: Call) -> bool:
        if call.key is not key or call in seen:
            return False
        seen.append(call)
        return fault(wire, call) if len(seen) == after + 1 else False

    return act


def lose_request(wire: Wire, call: Call) -> bool:
    """The connection is reset before the broker sees the request."""
    del call
    wire.lose()
    return True


def lose_answer(wire: Wire, call: Call) -> bool:
    """The broker carries the request out; the connection is reset before the answer."""
    del wire
    call.lose_answer = True
    return False


def swallow(wire: Wire, call: Call) -> bool:
    """Neither this request nor a later one of the connection is carried out."""
    del call
    wire.mute = True
    return True


def refuse_produce(code: ErrorCode) -> Fault:
    """Produce is answered with an error, and nothing is written."""

    def act(wire: Wire, call: Call) -> bool:
        request = decode_produce(call.version, memoryview(bytearray(call.body)))
        answers = [ProducePartitionResponse(tp.topic, tp.partition, code) for tp, _ in request.partitions]
        wire.answer(call, encode_produce_response(call.version, answers))
        return True

    return act
