"""A group's offsets under random commits, edits, transactions, lost connections and new sessions.

What must hold: no broker answers an older offset after a newer one, nor one that was overwritten some time ago; no
reader sees half of a transaction; no acknowledged commit is lost; and in the end every broker answers what ZooKeeper
contains.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.offset_manager import OffsetManager
from kafkalite.zk.stores.claims import Claim, ClaimLostError, ClaimStore
from kafkalite.zk.stores.transactions import NEW, Stored, TransactionStore
from kafkalite.zk.zk_client import Create, SessionState, SetData, ZkError
from kafkalite.zk.znodes import transactions
from kafkalite.zk.znodes.consumers import group_path, offset_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, TxnProducer
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState
from tests.coordinator.offsets.fixtures import T0, T1, Broker, G, OffsetManagerFixture
from tests.support import Started

TPS = (T0, T1)
PATHS = {offset_path(G, tp): tp for tp in TPS}
MOVER = TxnProducer("mover", 4000, 3)
STEPS = 400
LATENCY = 0.01
SOON = 4 * LATENCY
"""Seconds after which a broker whose connection held knows of a write."""


class Truth:
    """The written values, each with the zxid from which it is valid."""

    def __init__(self, fixture: OffsetManagerFixture) -> None:
        self.order: dict[tuple[TopicPartition, int], int] = {}
        self.whole: set[int] = set()
        """The zxids of the decisions of transactions, each for both partitions."""
        self.deciding = 0
        """The offsets of the transaction that is decided next."""
        self._newest: dict[TopicPartition, list[tuple[float, int]]] = {tp: [(0.0, 0)] for tp in TPS}
        self._clock = fixture.clock
        tree = fixture.server.tree
        original = tree.multi

        def multi(ops: Any, session: int) -> Any:
            outcome = original(ops, session)
            for op in ops:
                if isinstance(op, SetData) and b'"PrepareCommit"' in op.data:
                    self.whole.add(tree.zxid)
                    for tp in TPS:
                        self._note(tp, self.deciding, tree.zxid)
                elif isinstance(op, Create | SetData) and op.path in PATHS:
                    tp, value = PATHS[op.path], int(op.data)
                    # The copy of a transaction's offset is valid from the decision on.
                    self._note(tp, value, self.order.get((tp, value), tree.zxid))
            return outcome

        tree.multi = multi  # type: ignore[method-assign]

    def _note(self, tp: TopicPartition, value: int, zxid: int) -> None:
        self.order[tp, value] = zxid
        newest = self._newest[tp]
        newest.append((self._clock.monotonic(), max(zxid, newest[-1][1])))

    def at(self, time: float, tp: TopicPartition) -> int:
        """The order of the value that was valid then."""
        return max(order for since, order in self._newest[tp] if since <= max(time, 0.0))


class OffsetsSimulation:
    """Two brokers, one of which coordinates at a time, an administrator, and one transactional producer."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.fixture = OffsetManagerFixture(LATENCY)
        self.truth = Truth(self.fixture)
        self.brokers = (self.fixture.first, self.fixture.second)
        self.seen: dict[tuple[int, TopicPartition], int] = {}
        """The newest offset that each broker has answered."""
        self.promised = dict.fromkeys(TPS, 0)
        """The newest offset whose commit was acknowledged."""
        self.claims: dict[int, Claim] = {}
        self.disturbed = {broker.id: 0.0 for broker in self.brokers}
        self.running: list[Started] = []
        self.is_moving = False
        self._value = 0
        self.wait(self._found())

    async def _found(self) -> None:
        for path in ("/consumers", "/brokers", "/brokers/topics", "/brokers/topics/t"):
            await self.fixture.hand.create(path)
        self.decider = Decider(self)
        await self.decider.found()

    def wait(self, work: Any) -> Any:
        started = Started(work)
        for _ in range(1000):
            if started.done:
                break
            self.fixture.clock.advance(LATENCY)
        return started.result

    async def pause(self) -> None:
        """The claim of the current coordinator; for some time there may be none."""
        future: Future[None] = Future()
        self.fixture.clock.call_later(self.rng.choice([0.0, 0.005, 0.05, 0.2]), future.callback, None)
        await future

    def next_value(self) -> int:
        self._value += 1
        return self._value

    # Events

    def step(self) -> None:
        broker = self.rng.choice(self.brokers)
        writes = {self.commit: 15, self.commit_plain: 5, self.edit: 8, self.move: 6}
        every = {self.fetch: 40, **writes, self.claim: 4, self.cut: 2, self.expire: 1}
        self.running.append(Started(self.rng.choices(list(every), list(every.values()))[0](broker)))
        self.fixture.clock.advance(self.rng.choice([0.0, 0.001, 0.004, 0.01, 0.03]))
        if broker.client.state is SessionState.SUSPENDED and self.rng.random() < 0.5:
            broker.client.reconnect()
            self.disturbed[broker.id] = self.fixture.clock.monotonic()

    async def fetch(self, broker: Broker) -> None:
        stable = self.rng.random() < 0.5
        now = self.fixture.clock.monotonic()
        least = {tp: self.seen.get((broker.id, tp), 0) for tp in TPS}
        if self.disturbed[broker.id] < now - SOON:
            least = {tp: max(order, self.truth.at(now - SOON, tp)) for tp, order in least.items()}
        try:
            found = await broker.offsets.fetch(G, self.rng.choice([None, TPS]), require_stable=stable)
        except ZkError:
            return
        orders: dict[TopicPartition, int] = {}
        for tp in TPS:
            answer = found.get(tp)
            if isinstance(answer, ErrorCode):
                assert stable and answer is ErrorCode.UNSTABLE_OFFSET_COMMIT
                continue
            orders[tp] = 0 if answer is None else self.truth.order[tp, answer.offset]
            assert orders[tp] >= least[tp], f"broker {broker.id}: {tp} is not {answer} any more"
            self.seen[broker.id, tp] = max(self.seen.get((broker.id, tp), 0), orders[tp])
        newest = max(self.truth.whole.intersection(orders.values()), default=0)
        assert min(orders.values(), default=newest) >= newest, f"half a transaction: {found}"

    async def commit(self, broker: Broker) -> None:
        claim = self.claims.get(broker.id)
        if claim is None:
            return
        tps, value = self.rng.choice([TPS, (T0,), (T1,)]), self.next_value()
        try:
            errors = await broker.offsets.commit(G, {tp: OffsetAndMetadata(value, 1, "m") for tp in tps}, claim)
        except ClaimLostError:
            self.claims.pop(broker.id, None)
            return
        assert set(errors.values()) <= {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        for tp, error in errors.items():
            if error is ErrorCode.NONE:
                # If a later commit replaced it, its own value was never written.
                self.promised[tp] = max(self.promised[tp], self.truth.order.get((tp, value), 0))

    async def commit_plain(self, broker: Broker) -> None:
        await broker.offsets.commit(G, {self.rng.choice(TPS): OffsetAndMetadata(self.next_value())}, None)

    async def edit(self, _: Broker) -> None:
        try:
            await self.fixture.hand.set(self.rng.choice(list(PATHS)), b"%d" % self.next_value())
        except ZkError:
            return

    async def claim(self, broker: Broker) -> None:
        for other in self.brokers:
            held = self.claims.pop(other.id, None)
            try:
                if held is not None and self.rng.random() < 0.5:
                    await other.claims.release(held)
                await self.fixture.hand.delete(f"{group_path(G)}/coordinator")
            except ZkError:
                continue
        try:
            claim = await broker.claims.claim(group_path(G), broker.id)
        except ZkError:
            return
        if claim is not None:
            self.claims[broker.id] = claim

    async def cut(self, broker: Broker) -> None:
        broker.client.lose_connection()
        self.disturbed[broker.id] = float("inf")

    async def expire(self, broker: Broker) -> None:
        connected = broker.client.state is SessionState.CONNECTED
        broker.client.expire_session()
        self.claims.pop(broker.id, None)
        if connected:
            self.disturbed[broker.id] = self.fixture.clock.monotonic()

    async def move(self, broker: Broker) -> None:
        """One transaction from its begin to its end."""
        claim = self.claims.get(broker.id)
        if self.is_moving or claim is None:
            return
        self.is_moving = True
        value, commits = self.next_value(), self.rng.random() < 0.7
        await self.decider.write(TransactionState.ONGOING)
        try:
            offsets = {tp: OffsetAndMetadata(value) for tp in TPS}
            staged = await broker.offsets.stage(G, claim, MOVER, offsets) is ErrorCode.NONE
        except ZkError:
            staged = False
        await self.pause()
        await self.decider.end(value if commits and staged else None)
        self.is_moving = False

    def settle(self) -> None:
        for broker in self.brokers:
            broker.client.reconnect()
        for _ in range(3000):
            self.fixture.clock.advance(LATENCY)
        for started in self.running:
            _ = started.result
        for broker in self.brokers:
            found = self.wait(broker.offsets.fetch(G, TPS, require_stable=True))
            for path, tp in PATHS.items():
                node = self.fixture.server.tree.nodes.get(path)
                assert (None if node is None else int(node.data)) == (found[tp].offset if tp in found else None)
                if tp in found:
                    assert self.truth.order[tp, found[tp].offset] >= self.promised[tp], "a commit was lost"


class Decider:
    """The transaction's coordinator, whose connection is never cut."""

    def __init__(self, simulation: OffsetsSimulation) -> None:
        self.simulation = simulation
        self.client = simulation.fixture.server.client()
        self.claims = ClaimStore(self.client, simulation.fixture.clock)
        self.store = TransactionStore(self.client, 50)
        self.offsets = OffsetManager(
            self.client, simulation.fixture.clock, simulation.fixture.config, lambda _: True, self.store
        )
        self.stored: Stored | None = None

    async def found(self) -> None:
        number = await self.store.partition_for(MOVER.transactional_id)
        await self.store.prepare(number)
        claim = await self.claims.claim(transactions.partition_path(number), 9)
        assert claim is not None
        self.claim = claim

    async def write(self, state: TransactionState) -> Stored:
        metadata = TransactionMetadata(
            MOVER.transactional_id, MOVER.producer_id, MOVER.producer_epoch, state=state, groups=frozenset({G})
        )
        self.stored = await self.store.write(self.claim, metadata, NEW if self.stored is None else self.stored.version)
        return self.stored

    async def end(self, value: int | None) -> None:
        """Commit a transaction that sets the offsets to ``value``, or abort it."""
        if value is None:
            await self.write(TransactionState.PREPARE_ABORT)
            await self.simulation.pause()
            await self.offsets.transactional.discard(G, MOVER, self.claim)
            await self.write(TransactionState.COMPLETE_ABORT)
            return
        self.simulation.truth.deciding = value
        decision = await self.write(TransactionState.PREPARE_COMMIT)
        await self.simulation.pause()
        await self.offsets.transactional.apply(G, MOVER, self.claim, decision.mzxid)
        await self.simulation.pause()
        await self.write(TransactionState.COMPLETE_COMMIT)


@pytest.mark.parametrize("seed", range(20))
def test_no_broker_answers_an_outdated_offset_under_random_events(seed: int) -> None:
    simulation = OffsetsSimulation(seed)
    for _ in range(STEPS):
        simulation.step()
    simulation.settle()
