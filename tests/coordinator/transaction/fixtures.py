"""The transaction coordinators of several brokers, with one ZooKeeper in memory; leaders and groups are fakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.transactional_offsets import TransactionalOffsets
from kafkalite.coordinator.placement import preferred
from kafkalite.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kafkalite.coordinator.transaction.values import (
    CoordinatorDependencies,
    MarkerResults,
    ProducerIdAndEpoch,
    TransactionConfig,
    TransactionMarker,
)
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.claims import Claim, ClaimStore
from kafkalite.zk.stores.paths import ensure
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.znodes.offsets import TxnProducer
from kafkalite.zk.znodes.transactions import (
    TransactionMetadata,
    TransactionState,
    decode_transaction,
    id_path,
    partition_path,
    state_partition_for,
)
from tests.support import Started, run

TX = "tx"
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
COUNT = 4
NUMBER = state_partition_for(TX, COUNT)
BASE = partition_path(NUMBER)


class Leaders:
    """Every leader's log of markers. ``answers`` are used in order first; ``hold`` delays all."""

    def __init__(self) -> None:
        self.markers: list[tuple[int, TransactionMarker]] = []
        self.answers: list[ErrorCode | Exception] = []
        self.held: list[Callable[[], object]] = []
        self.hold = False

    def send(self, broker: Broker, markers: Sequence[TransactionMarker]) -> Awaitable[MarkerResults]:
        future: Future[MarkerResults] = Future()
        answer: ErrorCode | Exception = self.answers.pop(0) if self.answers else ErrorCode.NONE

        def arrive() -> None:
            if isinstance(answer, Exception):
                future.errback(answer)
                return
            self.markers.extend((broker.id, marker) for marker in markers)
            future.callback({(marker.producer_id, tp): answer for marker in markers for tp in marker.partitions})

        if self.hold:
            self.held.append(arrive)
        else:
            arrive()
        return future

    def release(self) -> None:
        """Deliver the delayed markers."""
        self.hold = False
        held, self.held = self.held, []
        for arrive in held:
            arrive()

    def told(self) -> list[tuple[TopicPartition, bool]]:
        """The partitions of the markers, each with commit or abort, in order."""
        return [(tp, marker.commit) for _, marker in self.markers for tp in marker.partitions]


class Groups(TransactionalOffsets):
    """The calls for staged offsets ("apply" or "discard", group, epoch); ``failures`` are raised first."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self.claims: list[Claim] = []
        self.decisions: list[int] = []
        self.failures: list[Exception] = []

    async def apply(self, group: str, producer: TxnProducer, claim: Claim, decision_mzxid: int) -> None:
        self._call("apply", group, producer, claim)
        self.decisions.append(decision_mzxid)

    async def discard(self, group: str, producer: TxnProducer, claim: Claim) -> None:
        self._call("discard", group, producer, claim)

    def _call(self, what: str, group: str, producer: TxnProducer, claim: Claim) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.calls.append((what, group, producer.producer_epoch))
        self.claims.append(claim)


class ProducerIds:
    """1000, 1001, …; while ``held`` is a list, callers wait."""

    def __init__(self) -> None:
        self.next = 1000
        self.held: list[Future[int]] | None = None

    def generate(self) -> Awaitable[int]:
        future: Future[int] = Future()
        if self.held is not None:
            self.held.append(future)
        else:
            self.give(future)
        return future

    def give(self, future: Future[int]) -> None:
        self.next += 1
        future.callback(self.next - 1)


class Node:
    """One broker."""

    def __init__(self, fixture: TransactionCoordinatorFixture, broker_id: int) -> None:
        self.id = broker_id
        self.fixture = fixture
        self.client: MemoryZkClient = fixture.server.client()
        self.claims = ClaimStore(self.client, fixture.clock)
        self.store = TransactionStore(self.client, COUNT)
        self.coordinator = TransactionCoordinator(
            broker_id,
            self.claims,
            self.store,
            CoordinatorDependencies(fixture.producer_ids.generate, fixture.groups, fixture.metadata, fixture.leaders),
            fixture.clock,
            fixture.config,
        )
        self.client.add_listener(self.coordinator.on_session)
        self.coordinator.start()

    def die(self) -> None:
        """The process dies, its session expires, and the other brokers are informed."""
        self.client.close()
        run(self.coordinator.stop())
        self.fixture.broker_gone(self.id)

    # Requests of a producer

    def init(self, **more: Any) -> Started:
        return Started(self.coordinator.init_producer_id(TX, more.pop("timeout_ms", 60_000), **more))

    def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition) -> Started:
        return Started(self.coordinator.add_partitions(TX, producer, partitions or (T0,)))

    def offsets(self, producer: ProducerIdAndEpoch, group: str = "g") -> Started:
        return Started(self.coordinator.add_offsets(TX, producer, group))

    def end(self, producer: ProducerIdAndEpoch, commit: bool = True) -> Started:
        return Started(self.coordinator.end(TX, producer, commit=commit))


class TransactionCoordinatorFixture:
    """ZooKeeper, time, the cluster, and brokers 1 to ``brokers``. ``latency``: of ZooKeeper's answers, in seconds."""

    def __init__(self, brokers: int = 2, latency: float = 0.0, config: TransactionConfig | None = None) -> None:
        self.clock = ManualClock()
        self.server = MemoryZooKeeper(self.clock if latency else None, latency)
        self.metadata = MetadataCache()
        self.leaders = Leaders()
        self.groups = Groups()
        self.producer_ids = ProducerIds()
        self.config = config or TransactionConfig()
        self._live = {number: Broker(number, ()) for number in range(1, brokers + 1)}
        self.metadata.update_brokers(self._live)
        self.lead(T0, 1)
        self.lead(T1, 2)
        self.lead(T2, 1)
        admin = self.server.client()
        Started(ensure(admin, "/brokers/topics/t"))
        self.clock.advance(1)
        self.admin = admin
        self.nodes = {number: Node(self, number) for number in self._live}

    def lead(self, tp: TopicPartition, leader: int) -> None:
        known = self.metadata.state(tp)
        epoch = 0 if known is None else known.leader_epoch + 1
        state = LeaderAndIsr(
            tp.topic, tp.partition, leader=leader, leader_epoch=epoch, assignment=PartitionAssignment((1, 2))
        )
        self.metadata.apply([state])

    @property
    def owner(self) -> Node:
        """The broker that placement gives the state partition of :data:`TX`."""
        number = preferred(BASE, self._live)
        assert number is not None
        return self.nodes[number]

    @property
    def other(self) -> Node:
        """Another broker."""
        return next(node for number, node in self.nodes.items() if node is not self.owner and number in self._live)

    def broker_gone(self, number: int) -> None:
        """Broker ``number`` is no longer registered; other brokers lead its partitions."""
        del self._live[number]
        for state in list(self.metadata.states()):
            if state.leader == number:
                self.lead(state.topic_partition, min(self._live))
        self.brokers_changed()

    def brokers_changed(self) -> None:
        self.metadata.update_brokers(self._live)
        for number in self._live:
            self.nodes[number].coordinator.brokers_changed()

    def stored(self, transactional_id: str = TX) -> TransactionMetadata:
        """The state in ZooKeeper."""
        path = id_path(state_partition_for(transactional_id, COUNT), transactional_id)
        return decode_transaction(path, self.server.data(path), transactional_id)

    def state(self) -> TransactionState:
        return self.stored().state

    def opened(self, *partitions: TopicPartition, node: Node | None = None) -> ProducerIdAndEpoch:
        """A producer with an open transaction."""
        node = node or self.owner
        producer: ProducerIdAndEpoch = node.init().result
        assert node.add(producer, *(partitions or (T0, T1))).error is ErrorCode.NONE
        return producer
