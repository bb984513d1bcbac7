"""A broker's APIs with replicas, controller and ZooKeeper made up; requests go in as bytes and come out as values."""

# ruff: noqa: ARG002

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from kafkalite.admin.config_admin import ConfigAdmin
from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.admin.producer_ids import ProducerIdManager
from kafkalite.admin.topic_admin import TopicAdmin
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.services import BrokerServices
from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.broker.settings import api_config, offset_config, topic_defaults
from kafkalite.cluster.control import ControlRequest, ControlResponse
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.common.types import FileRegion, Part, TopicPartition
from kafkalite.coordinator.group.group_coordinator import GroupCoordinator
from kafkalite.coordinator.group.group_metadata import GroupConfig
from kafkalite.coordinator.offsets.offset_manager import OffsetManager
from kafkalite.log.values import ReadInfo
from kafkalite.network.request import ConnectionInfo, Request
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.protocol.frames import RequestHeader
from kafkalite.replication.broker_topic_stats import BrokerTopicStats
from kafkalite.replication.delayed_operations import FetchParams
from kafkalite.replication.record_traces import RecordTraces
from kafkalite.replication.results import (
    DeleteRecordsResult,
    EpochEndOffset,
    FetchResult,
    LogDirDescription,
    OffsetResult,
    ProduceResult,
    ReplicaDescription,
)
from kafkalite.security.authorizer_interface import Authorizer
from kafkalite.security.token_manager import TokenManager, TokenSettings
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.controller import AdminStore
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.stores.paths import ensure_paths
from kafkalite.zk.stores.tokens import TokenStore
from kafkalite.zk.stores.topics import TopicStore
from kafkalite.zk.stores.transactions import TransactionStore

TOPIC_ID = uuid.UUID(int=0x1234)


class FakeReplicas:
    """Remembers what it is asked and answers what the test says."""

    def __init__(self) -> None:
        self.appended: list[tuple[int, int, list[tuple[TopicPartition, bytes]]]] = []
        self.traces = RecordTraces(1, {}, ManualClock())
        self.produce_errors: dict[TopicPartition, ErrorCode] = {}
        self.fetches: list[tuple[FetchParams, list[Any]]] = []
        self.results: dict[TopicPartition, FetchResult] = {}
        self.held: list[Callable[[], object]] = []
        self.hold = False
        self.broken = False
        self.watched: list[TopicPartition] = []
        self.offsets: dict[int, int] = {-1: 100, -2: 10}
        self.topic_stats = BrokerTopicStats()

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Sequence[tuple[TopicPartition, memoryview]],
        on_done: Callable[[list[ProduceResult]], object],
        *,
        from_client: bool = True,
    ) -> None:
        assert from_client
        if self.broken:
            raise RuntimeError("broken")
        self.appended.append((timeout_ms, required_acks, [(tp, bytes(records)) for tp, records in entries]))
        results = [
            ProduceResult(tp, error, -1 if error else 42)
            for tp, _ in entries
            for error in (self.produce_errors.get(tp, ErrorCode.NONE),)
        ]
        if self.hold:
            self.held.append(lambda: on_done(results))
        else:
            on_done(results)

    def fetch(
        self, params: FetchParams, partitions: Sequence[Any], on_done: Callable[[list[FetchResult]], object]
    ) -> None:
        if self.broken:
            raise RuntimeError("broken")
        self.fetches.append((params, list(partitions)))
        named = [TopicPartition(p.topic, p.partition) for p in partitions]
        if params.watch is not None:
            named += [tp for tp in params.watch.dirty if tp not in named]
            params.watch.dirty.clear()
        on_done([self.results.get(tp) or FetchResult(tp, high_watermark=5, log_start_offset=0) for tp in named])

    def watch(self, watch: Any, tp: TopicPartition) -> None:
        self.watched.append(tp)

    def unwatch(self, watch: Any, tp: TopicPartition) -> None:
        self.watched.remove(tp)

    def unwatch_all(self, watch: Any) -> None:
        for tp in watch.partitions:
            self.watched.remove(tp)

    def list_offset(
        self, tp: TopicPartition, timestamp: int, isolation: int | None, epoch: int = -1, follower: bool = False
    ) -> OffsetResult:
        if epoch == 99:
            return OffsetResult(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if timestamp not in self.offsets:
            return OffsetResult(ErrorCode.NONE)
        return OffsetResult(ErrorCode.NONE, timestamp, self.offsets[timestamp] - (isolation or 0), 3)

    def offsets_before(
        self, tp: TopicPartition, timestamp: int, limit: int, to_consumer: bool = True, follower: bool = False
    ) -> list[int]:
        if timestamp == 778:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return [100, 50, 10][:limit] if timestamp == -1 else [10]

    def end_offset_for_epoch(self, tp: TopicPartition, current_leader_epoch: int, epoch: int) -> EpochEndOffset:
        return EpochEndOffset(tp, ErrorCode.NONE, epoch, 77)

    def delete_records(self, timeout_ms: int, offsets: dict[TopicPartition, int], on_done: Any) -> None:
        on_done({tp: DeleteRecordsResult(offset, ErrorCode.NONE) for tp, offset in offsets.items()})

    async def alter_log_dirs(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
        return {
            tp: ErrorCode.NONE if log_dir == "/logs" else ErrorCode.LOG_DIR_NOT_FOUND for tp, log_dir in wanted.items()
        }

    def describe_log_dirs(self, partitions: Any = None) -> list[LogDirDescription]:
        replicas = tuple(ReplicaDescription(tp, 10, 1) for tp in partitions or [TopicPartition("t", 0)])
        return [LogDirDescription("/logs", ErrorCode.NONE, replicas, 1000, 500)]


class FakeController:
    """The controller, or not."""

    def __init__(self) -> None:
        self.is_active = True

    def _check(self) -> None:
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "Not the controller.")

    async def elect_leaders(self, election: str, partitions: Any) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        self._check()
        if election == "unclean":
            raise RuntimeError("secret detail")
        chosen = partitions if partitions is not None else [TopicPartition("t", 0), TopicPartition("t", 1)]
        return {
            tp: (ErrorCode.NONE, "") if tp.partition == 0 else (ErrorCode.ELECTION_NOT_NEEDED, "not needed")
            for tp in chosen
        }

    async def alter_reassignments(self, wanted: Any) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        self._check()
        return {
            tp: (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none") if replicas is None else (ErrorCode.NONE, "")
            for tp, replicas in wanted.items()
        }

    def list_reassignments(self, partitions: Any) -> dict[TopicPartition, PartitionAssignment]:
        self._check()
        return {TopicPartition("t", 0): PartitionAssignment((1, 2, 3), (3,), (2,))}


class FakeControl:
    """Notes the control requests and the connections that they come by; gives the answers of the test, in order."""

    inter_broker_listener = "PLAINTEXT"

    def __init__(self) -> None:
        self.asked: list[tuple[ControlRequest, int]] = []
        self.answers: list[ControlResponse] = []

    async def carry_out(self, request: ControlRequest, connection: ConnectionInfo) -> ControlResponse:
        self.asked.append((request, connection.id))
        return self.answers.pop(0)


class FakeLogs:
    """Logs that allow conversion, or not; ``records`` by the offset from which they are read."""

    def __init__(self) -> None:
        self.records: dict[int, FileRegion] = {}
        self.reads: list[tuple[int, int, int]] = []
        self.compression_type = "producer"
        self.message_downconversion_enable = True

    def get(self, tp: TopicPartition) -> Any:
        return self

    def read(self, offset: int, max_bytes: int, upper_bound: int, min_one_message: bool) -> ReadInfo:
        assert min_one_message
        self.reads.append((offset, max_bytes, upper_bound))
        found = self.records.get(offset)
        return ReadInfo(offset, found, 0 if found is None else len(found))

    @property
    def config(self) -> Any:
        return self


class FakeIds:
    """Blocks of producer ids."""

    def allocate(self, broker_id: int) -> Awaitable[range]:
        async def block() -> range:
            return range(5000, 6000)

        return block()


class FakeConnection:
    """What the network would do with the answer."""

    def __init__(self, listener: str = "PLAINTEXT") -> None:
        self.info = ConnectionInfo(1, "peer", listener)
        self.answers: list[list[Part] | None] = []
        self.closed: list[str] = []
        self.muted: list[float] = []

    def respond(self, request: Request, parts: list[Part] | None) -> None:
        self.answers.append(parts)

    def release(self, size: int) -> None: ...

    def mute(self, seconds: float) -> None:
        self.muted.append(seconds)

    def abort(self, why: str) -> None:
        self.closed.append(why)


class FakeBroker:
    """Broker 1 of three, topic ``t`` with two partitions led by broker 1 and 2."""

    def __init__(self, static: dict[str, str] | None = None, authorizer: Authorizer | None = None) -> None:
        self.clock = ManualClock()
        self.zookeeper = MemoryZooKeeper()
        self.client = client = self.zookeeper.client()
        deferred(ensure_paths(client))
        self.metadata = MetadataCache(self.clock.monotonic)
        self.metadata.update_brokers({number: broker(number) for number in (1, 2, 3)})
        self.metadata.set_controller(1)
        self.metadata.apply(
            [
                LeaderAndIsr("t", index, TOPIC_ID, index + 1, 4, (1, 2), 1, 0, 10, PartitionAssignment((1, 2)))
                for index in (0, 1)
            ]
        )
        self.replicas = FakeReplicas()
        self.controller = FakeController()
        self.control = FakeControl()
        self.logs = FakeLogs()
        self.transactions: Any = None
        self.config = DynamicConfig(BROKER_CONFIGS, {"zookeeper.connect": "zk", **(static or {})})
        self.config_store = ConfigStore(client, self.clock.time_ms)
        claims = ClaimStore(client, self.clock)
        self.offsets = OffsetManager(
            client,
            self.clock,
            offset_config(self.config.values),
            lambda tp: self.metadata.state(tp) is not None,
            TransactionStore(client, 50),
        )
        self.groups: Any = GroupCoordinator(
            1, claims, GroupStore(client), self.offsets, self.metadata, self.clock, GroupConfig(), 18.0
        )
        self.tokens = TokenManager(
            TokenSettings(secret=(static or {}).get("delegation.token.secret.key", ""), renewal_ms=1000),
            TokenStore(client, self.clock.time_ms),
            self.clock.time_ms,
            random.Random(1),
        )
        self.topic_store = TopicStore(client)
        self.topics = TopicAdmin(
            self.topic_store,
            AdminStore(client),
            self.metadata,
            self.config,
            topic_defaults(self.config.values),
            self.clock,
            random.Random(1),
        )
        self.services = BrokerServices(
            broker_id=1,
            cluster_id="cluster",
            api_config=api_config(self.config.values),
            metadata=self.metadata,
            replicas=cast("Any", self.replicas),
            partitions=cast("Any", self.replicas),
            offset_queries=cast("Any", self.replicas),
            logs=cast("Any", self.logs),
            controller=cast("Any", self.controller),
            control=self.control,
            topics=self.topics,
            configs=ConfigAdmin(1, self.config_store, self.metadata, self.config),
            config_store=self.config_store,
            tokens=self.tokens,
            producer_ids=ProducerIdManager(1, FakeIds().allocate),
            offsets=self.offsets,
            groups=cast("Any", self.groups),
            transactions=cast("Any", self.transactions),
            authorizer=authorizer,
            clock=self.clock,
        )
        self.dispatcher = Dispatcher(self.services)
        self.connection = FakeConnection()

    def send(self, api_key: int, version: int, body: bytes) -> None:
        """Hand a request to the dispatcher; its answer goes to ``connection``."""
        header = RequestHeader(api_key, version, 1, "client")
        view = memoryview(bytearray(body))
        self.dispatcher.handle(Request(header, view, cast("Any", self.connection), 0.0))

    def take(self) -> bytes:
        """The body of the oldest answer that was not taken yet."""
        parts = self.connection.answers.pop(0)
        assert parts is not None
        return b"".join(part.read() if isinstance(part, FileRegion) else bytes(part) for part in parts)

    def call(self, api_key: ApiKey, version: int, **fields: Any) -> Any:
        """One request with kafka-python's field names, and its decoded response."""
        return self.answer(api_key, version, request_class(api_key)(version=version, **fields))

    def answer(self, api_key: ApiKey, version: int, request: messages.Message) -> Any:
        """The decoded response to ``request``."""
        self.send(api_key, version, encode_request(api_key, version, request))
        return decode_response(api_key, version, memoryview(self.take()))


def broker(number: int) -> Broker:
    """A broker with two listeners; the second listener is missing on broker 3."""
    endpoints = [
        Endpoint("PLAINTEXT", "PLAINTEXT", f"host{number}", 9092),
        Endpoint("EXTERNAL", "PLAINTEXT", f"ext{number}", 19092),
    ]
    if number == 3:
        del endpoints[1]
    return Broker(number, tuple(endpoints), f"rack{number}", number)


def struct(api_key: ApiKey, name: str, version: int, /, **fields: Any) -> Any:
    """A nested structure of a request, ``name`` as the library has it, dots for levels."""
    kind = request_class(api_key)
    for part in name.split("."):
        kind = getattr(kind, part)
    return kind(version=version, **fields)
