"""Brokers in one process: real logs, ZooKeeper in memory, a network of function calls, virtual time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kafkalite.cluster.control import ControlResponse, LeaderAndIsrRequest, StopReplicaRequest
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.events import EventLog
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import FileRegion, TopicPartition
from kafkalite.log.background_work import Flusher
from kafkalite.log.file_system import FileSystem
from kafkalite.log.future_logs import FutureLogs
from kafkalite.log.log import Log, LogServices
from kafkalite.log.log_config import LogConfig, log_config
from kafkalite.log.log_loader import LogLoader
from kafkalite.log.log_manager import LogManager
from kafkalite.protocol.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse
from kafkalite.record.batch import iter_headers
from kafkalite.record.records import Record, encode_batch, iter_records
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.delayed_operations import FetchParams, FetchWatch
from kafkalite.replication.replica_manager import ReplicaManager
from kafkalite.replication.replication_config import ReplicationConfig
from kafkalite.replication.results import FetchResult, ProduceResult
from kafkalite.testing.clock import InlineExecutor, ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.topics import IsrStore
from kafkalite.zk.zk_client import ConnectionLostError, SessionState
from kafkalite.zk.znodes import topics as znodes
from tests.log.fixtures import PRODUCER_EXPIRATION_MS, InlineOwner

TOPIC_ID = uuid.UUID("11111111-2222-3333-4444-555555555555")
TP = TopicPartition("t", 0)


def batch(*values: str, **fields: Any) -> memoryview:
    """A batch as a producer sends it, writable."""
    records = [Record(n, 1_700_000_000_000, None, value.encode(), (), -1) for n, value in enumerate(values)]
    return memoryview(bytearray(encode_batch(records, base_offset=0, **fields)))


def values_of(records: bytes | memoryview) -> list[str]:
    """The values in some batches."""
    found = []
    view = memoryview(records)
    for position, header in iter_headers(view):
        found += [(record.value or b"").decode() for record in iter_records(view, header, position)]
    return found


class Logs:
    """A log store over real logs, without the manager's background work."""

    def __init__(self, path: Path, clock: ManualClock, on_dir_failure: Callable[[str], None]) -> None:
        self.path = path
        self.second = path.with_name(f"{path.name}-second")
        for folder in (path, self.second):
            folder.mkdir(parents=True, exist_ok=True)
        self.log_dirs = [str(path), str(self.second)]
        self.offline_dirs: set[str] = set()
        self.offline_logs: dict[TopicPartition, uuid.UUID | None] = {}
        self._on_dir_failure = on_dir_failure
        self.services = LogServices(FileSystem(), clock, PRODUCER_EXPIRATION_MS)
        self.logs: dict[TopicPartition, Log] = {}
        self.future_logs = FutureLogs(
            self.logs, {}, self.services, InlineExecutor(), self._make, self._replaced, self._take_away
        )
        flusher = Flusher(InlineExecutor(), lambda log_dir, _: self.handle_failure(log_dir), self.services)
        self.flush_to_end = flusher.flush_to_end
        self.deleted: list[TopicPartition] = []
        self.taken_away: list[Log] = []
        self.checkpoints = 0

    def get(self, tp: TopicPartition) -> Log | None:
        return self.logs.get(tp)

    def get_or_create(self, tp: TopicPartition, topic_id: uuid.UUID | None, is_new: bool, config: Any) -> Log:  # noqa: ARG002
        if tp not in self.logs:
            log_dir = self.future_logs.preferred.pop(tp, str(self.path))
            self.logs[tp] = self._make(tp, log_dir, f"{tp}-{len(self.deleted)}", config)
            if topic_id is not None:
                self.logs[tp].set_topic_id(topic_id)
        return self.logs[tp]

    def _make(self, tp: TopicPartition, log_dir: str, name: str, config: Any) -> Log:
        path = f"{log_dir}/{name}"
        Path(path).mkdir()
        return LogLoader(tp, path, log_dir, config, self.services, InlineOwner(self.services.fs)).create()

    def _replaced(self, gone: Log, current: Log) -> None:
        assert gone is not current
        self._take_away(gone)

    def _take_away(self, gone: Log) -> None:
        gone.mark_broken()
        self.taken_away.append(gone)
        target = f"{gone.log_dir}/gone-{len(self.taken_away)}"
        Path(gone.dir).rename(target)
        gone.renamed(target)

    def is_online(self, log_dir: str) -> bool:
        return log_dir in self.log_dirs and log_dir not in self.offline_dirs

    def delete(self, tp: TopicPartition) -> Future[None]:
        del self.logs[tp]
        self.future_logs.drop(tp)
        self.deleted.append(tp)
        done: Future[None] = Future()
        done.callback(None)
        return done

    def space(self, log_dir: str) -> tuple[int, int]:
        return FileSystem().space(log_dir)

    def handle_failure(self, log_dir: str) -> None:
        self.offline_dirs.add(log_dir)
        self.future_logs.directory_failed(log_dir, [tp for tp, log in self.logs.items() if log.log_dir == log_dir])
        self._on_dir_failure(log_dir)

    def checkpoint_high_watermarks(self) -> None:
        self.checkpoints += 1


class ServerSession:
    """The leader's end of a fetch session, as the Fetch API keeps it."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, FetchPartition] = {}
        self.watch = FetchWatch(self.partitions, True)
        self.told: dict[TopicPartition, tuple[int, int]] = {}
        self.epoch = 1


class EndPoint:
    """A follower's connection to a leader in the same process. Requests and answers take ``network.latency``."""

    def __init__(self, network: Network, source: int, target: int) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.closed = False
        self.pending: dict[Future[FetchResponse], None] = {}
        network.end_points.append(self)

    def fetch(self, request: FetchRequest, _version: int) -> Future[FetchResponse]:
        future: Future[FetchResponse] = Future()
        if self.closed:
            # Like a connection that was lost without an outstanding request.
            future.errback(ConnectionError("lost"))
            return future
        self.pending[future] = None
        self.network.requests.append((self.source, self.target, request))
        self.network.clock.call_later(self.network.latency, self._arrive, request, future)
        return future

    def _arrive(self, request: FetchRequest, future: Future[FetchResponse]) -> None:
        if self.closed:
            return
        if (self.source, self.target) in self.network.cut:
            self.network.clock.call_later(1.0, self._fail, future)
            return
        broker = self.network.brokers.get(self.target)
        if broker is None or broker.dead:
            self._fail(future)
            return
        broker.serve(request, lambda response: self._reply(future, response))

    def _reply(self, future: Future[FetchResponse], response: FetchResponse) -> None:
        for answer in response.partitions:
            if isinstance(answer.records, FileRegion):
                answer.records = memoryview(bytearray(answer.records.read()))
        self.network.clock.call_later(self.network.latency, self._deliver, future, response)

    def _deliver(self, future: Future[FetchResponse], response: FetchResponse) -> None:
        if (self.source, self.target) in self.network.cut or (self.target, self.source) in self.network.cut:
            self.network.clock.call_later(1.0, self._fail, future)
            return
        if not self.closed and future in self.pending:
            del self.pending[future]
            future.callback(response)

    def _fail(self, future: Future[FetchResponse]) -> None:
        if future in self.pending:
            del self.pending[future]
            future.errback(ConnectionError("lost"))

    def close(self) -> None:
        self.closed = True
        if self in self.network.end_points:
            self.network.end_points.remove(self)
        for future in list(self.pending):
            self._fail(future)


class Network:
    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.latency = 0.001
        self.brokers: dict[int, SimBroker] = {}
        self.cut: set[tuple[int, int]] = set()
        self.end_points: list[EndPoint] = []
        self.requests: list[tuple[int, int, FetchRequest]] = []


class SimBroker:
    """One broker: a replica manager with its logs, metadata and session."""

    def __init__(self, cluster: SimCluster, broker_id: int) -> None:
        self.id = broker_id
        self.cluster = cluster
        self.dead = False
        self.logs = Logs(cluster.path / f"b{broker_id}", cluster.clock, self._log_dir_failed)
        self.log_dir_events: list[float] = []
        self.events = EventLog(broker_id, cluster.clock.time_ms)
        self.overrides: dict[str, str] = {}
        self.sessions: dict[int, ServerSession] = {}
        self.metadata = MetadataCache()
        self.start()

    def start(self) -> None:
        """A new process over the logs that are there."""
        cluster = self.cluster
        self.dead = False
        self.sessions.clear()
        self.zk: MemoryZkClient = cluster.zookeeper.client()
        self.unreadable: set[str] = set()
        self.being_deleted: set[str] = set()
        self.unreadable_requests: set[str] = set()
        self.config = ReplicationConfig(self.id, rack=f"rack{self.id}", **cluster.config)
        store = IsrStore(self.zk)
        self.broker_epoch = BrokerEpoch()
        self.manager = ReplicaManager(
            self.config,
            cast("LogManager", self.logs),
            self.metadata,
            store,
            self._connect,
            self._topic_config,
            self._is_being_deleted,
            self.broker_epoch,
            cluster.clock,
            self._log_dir_event,
            record=self.events.record,
        )
        self.zk.add_listener(self.manager.on_zk_state)
        cluster.register(self)

    def _log_dir_failed(self, log_dir: str) -> None:
        self.manager.directory_failed(log_dir)

    def _log_dir_event(self) -> None:
        self.log_dir_events.append(self.cluster.clock.monotonic())
        self.cluster.on_log_dir_event(self.id)

    async def _topic_config(self, topic: str) -> LogConfig:
        if topic in self.unreadable:
            raise ConnectionLostError(f"/config/topics/{topic}")
        return log_config({}, self.overrides)

    async def _is_being_deleted(self, topic: str) -> bool:
        if topic in self.unreadable_requests:
            raise ConnectionLostError(f"/admin/delete_topics/{topic}")
        return topic in self.being_deleted

    def _connect(self, broker: Broker, _number: int) -> EndPoint:
        return EndPoint(self.cluster.network, self.id, broker.id)

    def crash(self) -> None:
        """The process is gone, its logs stay."""
        self.dead = True
        deferred(self.manager.shutdown())
        for end_point in list(self.cluster.network.end_points):
            if end_point.target == self.id:
                end_point.close()
        self.zk.close()
        self.cluster.unregister(self)

    # Serving the controller, as the control plane does

    async def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> ControlResponse:
        stale = self.broker_epoch.check(request.controller_epoch, request.broker_epoch)
        return ControlResponse(stale) if stale else await self.manager.become_leader_or_follower(request)

    async def stop_replicas(self, request: StopReplicaRequest) -> ControlResponse:
        stale = self.broker_epoch.check(request.controller_epoch, request.broker_epoch)
        return ControlResponse(stale) if stale else await self.manager.stop_replicas(request)

    # Serving followers

    def serve(self, request: FetchRequest, reply: Any) -> None:
        if request.session_epoch == 0:
            session = ServerSession()
            session_id = self.cluster.next_session()
            self.sessions[session_id] = session
        else:
            session_id = request.session_id
            found = self.sessions.get(session_id)
            if found is None:
                reply(FetchResponse(0, 70, 0, []))
                return
            if found.epoch != request.session_epoch:
                reply(FetchResponse(0, 71, 0, []))
                return
            session = found
            session.epoch += 1
        for topic, _, index in request.forgotten:
            tp = TopicPartition(topic or "", index)
            session.partitions.pop(tp, None)
            self.manager.replicas.unwatch(session.watch, tp)
        for partition in request.partitions:
            tp = TopicPartition(partition.topic or "", partition.partition)
            if tp not in session.partitions:
                self.manager.replicas.watch(session.watch, tp)
            session.partitions[tp] = partition
        params = FetchParams(
            request.replica_id,
            request.replica_epoch,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            watch=session.watch,
        )

        def done(results: list[FetchResult]) -> None:
            answers = []
            for result in results:
                told = (result.high_watermark, result.log_start_offset)
                tp = result.topic_partition
                news = session.told.get(tp) != told or result.error or result.size or result.diverging_epoch
                session.told[tp] = told
                if news:
                    answers.append(
                        FetchPartitionResponse(
                            tp.topic,
                            TOPIC_ID,
                            tp.partition,
                            result.error,
                            result.high_watermark,
                            result.last_stable_offset,
                            result.log_start_offset,
                            None,
                            -1,
                            result.records,
                            result.diverging_epoch,
                        )
                    )
            reply(FetchResponse(0, 0, session_id, answers))

        self.manager.fetch(params, request.partitions, done)

    # Clients

    def produce(self, *values: str, acks: int = -1, tp: TopicPartition = TP) -> list[ProduceResult]:
        """Returns a list that will hold the result."""
        answers: list[ProduceResult] = []
        self.manager.append_records(5000, acks, [(tp, batch(*values))], answers.extend)
        return answers

    def consume(
        self, offset: int = 0, tp: TopicPartition = TP, max_wait_ms: int = 0, **params: Any
    ) -> list[FetchResult]:
        answers: list[FetchResult] = []
        partition = FetchPartition(tp.topic, TOPIC_ID, tp.partition, -1, offset)
        self.manager.fetch(FetchParams(max_wait_ms=max_wait_ms, **params), [partition], answers.extend)
        return answers

    def values(self, tp: TopicPartition = TP) -> list[str]:
        """All that is in the log."""
        log = self.logs.logs[tp]
        info = log.read(log.log_start_offset, 1 << 30, log.log_end_offset, True)
        return values_of(info.records.read()) if info.records is not None else []


class SimCluster:
    """Brokers and, by hand, the controller's decisions."""

    def __init__(self, path: Path, brokers: Sequence[int] = (1, 2, 3), **config: Any) -> None:
        self.path = path
        self.clock = ManualClock()
        self.zookeeper = MemoryZooKeeper(self.clock, 0.001)
        self.admin = self.zookeeper.client()
        self.network = Network(self.clock)
        self.config: Mapping[str, Any] = config
        self.controller_epoch = 1
        self.on_log_dir_event: Callable[[int], object] = lambda _broker_id: None
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self._sessions = 0
        self._live: dict[int, Broker] = {}
        self.brokers: dict[int, SimBroker] = {}
        for path_name in ("/brokers", "/brokers/ids", "/brokers/topics", "/isr_change_notification"):
            self.admin.create(path_name)
        self.run(0.1)
        for broker_id in brokers:
            self.brokers[broker_id] = SimBroker(self, broker_id)
            self.network.brokers[broker_id] = self.brokers[broker_id]

    def __getitem__(self, broker_id: int) -> SimBroker:
        return self.brokers[broker_id]

    def run(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def next_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def register(self, broker: SimBroker) -> None:
        created: list[int] = []
        made = broker.zk.create(f"/brokers/ids/{broker.id}", b"", ephemeral=True)
        made.addCallback(lambda answer: created.append(answer[1].czxid))
        self.run(0.01)
        self._live[broker.id] = Broker(
            broker.id,
            (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9000 + broker.id),),
            f"rack{broker.id}",
            created[0],
            created[0],
        )
        broker.metadata.update_brokers(self._live)
        broker.manager.registered(created[0], broker.zk.session, created[0])
        self._tell_brokers()

    def unregister(self, broker: SimBroker) -> None:
        self._live.pop(broker.id, None)
        self._tell_brokers()

    def _tell_brokers(self) -> None:
        for broker in self.brokers.values():
            broker.metadata.update_brokers(self._live)
            broker.manager.brokers_changed()
        for one in self._live.values():
            if one.id in self.brokers:
                self.brokers[one.id].metadata.update_brokers(self._live)

    def epoch(self, broker_id: int) -> int:
        """The broker epoch in every broker's metadata."""
        return self._live[broker_id].epoch

    def announce(self, broker_id: int, epoch: int) -> None:
        """Put a broker's new epoch into the metadata of all brokers."""
        self._live[broker_id] = replace(self._live[broker_id], epoch=epoch)
        self._tell_brokers()

    # The controller's part

    def create(self, tp: TopicPartition = TP, replicas: Sequence[int] = (1, 2, 3), **overrides: str) -> None:
        """A partition led by the first of ``replicas``, all in sync."""
        assignment = PartitionAssignment(tuple(replicas))
        for broker in self.brokers.values():
            broker.overrides = {name.replace("_", "."): value for name, value in overrides.items()}
        if tp.partition == 0:
            self.admin.create(znodes.topic_path(tp.topic), znodes.encode_topic(znodes.TopicAssignment(TOPIC_ID, {})))
            self.admin.create(znodes.partitions_path(tp.topic))
        self.admin.create(znodes.partition_path(tp))
        state = LeaderAndIsr(
            tp.topic, tp.partition, TOPIC_ID, replicas[0], 0, tuple(replicas), self.controller_epoch, 0, -1, assignment
        )
        self.admin.create(znodes.state_path(tp), znodes.encode_state(state))
        self.run(0.01)
        self.states[tp] = state
        self.send(tp)
        self.run(0.1)

    def read(self, tp: TopicPartition = TP) -> LeaderAndIsr:
        """The state znode as it stands."""
        known = self.states[tp]
        node = self.zookeeper.tree.node(znodes.state_path(tp))
        return znodes.decode_state(tp, node.data, node.stat(), TOPIC_ID, known.assignment)

    def elect(self, leader: int, isr: Sequence[int] | None = None, tp: TopicPartition = TP, send: bool = True) -> None:
        """Make ``leader`` lead, in a new leader epoch; the ISR loses the dead."""
        current = self.read(tp)
        new_isr = tuple(
            isr if isr is not None else [r for r in current.isr if r in self._live and not self.brokers[r].dead]
        )
        state = current.with_(
            leader=leader,
            leader_epoch=current.leader_epoch + 1,
            isr=new_isr,
            controller_epoch=self.controller_epoch,
        )
        self.admin.set(znodes.state_path(tp), znodes.encode_state(state), current.zk_version)
        self.run(0.01)
        self.states[tp] = self.read(tp).with_(mzxid=-1)
        if send:
            self.send(tp)
            self.run(0.1)

    def reassign(self, replicas: Sequence[int], tp: TopicPartition = TP, adding: Sequence[int] = ()) -> None:
        """Give ``tp`` these replicas; those that are new have to catch up. ``adding``: the reassignment goes on."""
        current = self.read(tp)
        state = current.with_(
            leader_epoch=current.leader_epoch + 1, assignment=PartitionAssignment(tuple(replicas), tuple(adding))
        )
        self.admin.set(znodes.state_path(tp), znodes.encode_state(state), current.zk_version)
        self.run(0.01)
        self.states[tp] = state
        self.states[tp] = self.read(tp).with_(mzxid=-1)
        self.send(tp)
        self.run(0.1)

    def send(self, tp: TopicPartition = TP, to: Sequence[int] | None = None) -> list[Any]:
        """LeaderAndIsr to the replicas (or ``to``); the answers."""
        answers: list[Any] = []
        for broker_id in to if to is not None else self.states[tp].replicas:
            broker = self.brokers.get(broker_id)
            if broker is None or broker.dead or broker_id not in self._live:
                continue
            request = LeaderAndIsrRequest(
                0,
                self.controller_epoch,
                self._live[broker_id].epoch,
                (self.states[tp],),
                tuple(self._live.values()),
            )
            deferred(broker.become_leader_or_follower(request)).addCallback(answers.append)
        return answers

    def stop(self, broker_id: int, *partitions: Any) -> list[Any]:
        answers: list[Any] = []
        request = StopReplicaRequest(0, self.controller_epoch, self._live[broker_id].epoch, partitions)
        deferred(self.brokers[broker_id].stop_replicas(request)).addCallback(answers.append)
        return answers

    def suspended(self, broker_id: int) -> bool:
        return self.brokers[broker_id].zk.state is not SessionState.CONNECTED
