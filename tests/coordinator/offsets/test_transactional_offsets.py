"""Offsets of transactions: invisible before the decision, visible with it, and copied idempotently."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.offset_manager import OffsetConfig
from kafkalite.zk.stores.claims import Claim, ClaimLostError
from kafkalite.zk.stores.paths import set_or_create
from kafkalite.zk.stores.transactions import NEW, Stored
from kafkalite.zk.zk_client import ConnectionLostError, Delete, ZkError
from kafkalite.zk.znodes import transactions
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, TxnProducer
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState
from tests.coordinator.offsets.fixtures import T0, T1, U0, Broker, G, OffsetManagerFixture
from tests.support import run

MOVER = TxnProducer("mover", 4000, 3)
OTHER = TxnProducer("other", 4001, 0)
OK, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
ONGOING, COMMIT, ABORT = TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT


class Transactions:
    """A stand-in for the transaction coordinator: broker 2 decides, broker 1 coordinates the group."""

    def __init__(self) -> None:
        self.fixture = OffsetManagerFixture()
        self.group: Broker = self.fixture.first
        self.decider: Broker = self.fixture.second
        for topic in "tu":
            run(set_or_create(self.fixture.hand, f"/brokers/topics/{topic}", b""))
        self.store = self.decider.transactions
        self.claim = self.group.claim()
        self.stored: dict[str, Stored] = {}
        self.claims: dict[str, Claim] = {}

    def begin(self, producer: TxnProducer = MOVER, *groups: str) -> None:
        number = run(self.store.partition_for(producer.transactional_id))
        run(self.store.prepare(number))
        claim = run(self.decider.claims.claim(transactions.partition_path(number), 2))
        assert claim is not None
        self.claims[producer.transactional_id] = claim
        self.set_state(ONGOING, producer, *groups)

    def set_state(self, state: TransactionState, producer: TxnProducer = MOVER, *groups: str) -> int:
        """One write; its mzxid."""
        tid = producer.transactional_id
        metadata = TransactionMetadata(
            tid, producer.producer_id, producer.producer_epoch, state=state, groups=frozenset(groups or (G,))
        )
        version = self.stored[tid].version if tid in self.stored else NEW
        self.stored[tid] = run(self.store.write(self.claims[tid], metadata, version))
        return self.stored[tid].mzxid

    def stage(self, offset: int, *tps: TopicPartition, producer: TxnProducer = MOVER) -> ErrorCode:
        offsets = {tp: OffsetAndMetadata(offset, 1, "x") for tp in tps or (T0,)}
        error = run(self.group.offsets.stage(G, self.claim, producer, offsets))
        assert isinstance(error, ErrorCode)
        return error

    def commit(self, offset: int, *tps: TopicPartition) -> None:
        run(self.group.offsets.commit(G, {tp: OffsetAndMetadata(offset) for tp in tps or (T0,)}, self.claim))

    def apply(self, decision: int, producer: TxnProducer = MOVER) -> None:
        claim = self.claims[producer.transactional_id]
        run(self.decider.offsets.transactional.apply(G, producer, claim, decision))

    def numbers(self, *, stable: bool = False) -> Any:
        """The offsets of the group that both brokers answer."""
        answers = [broker.fetch(stable=stable) for broker in (self.group, self.decider)]
        assert answers[0] == answers[1]
        return {tp: getattr(value, "offset", value) for tp, value in answers[0].items()}

    @property
    def staged(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.fixture.server.paths("/consumers/g/staged/")]


@pytest.fixture
def txn() -> Transactions:
    return Transactions()


def test_the_decision_makes_all_staged_offsets_visible(txn: Transactions) -> None:
    txn.commit(1, T0)
    txn.begin()
    assert txn.stage(7, T0, U0) is OK
    assert txn.numbers() == {T0: 1}, "not before the decision"
    assert txn.numbers(stable=True) == {T0: UNSTABLE, U0: UNSTABLE}
    decision = txn.set_state(COMMIT)
    assert txn.numbers() == txn.numbers(stable=True) == {T0: 7, U0: 7}
    assert txn.group.fetch(U0) == {U0: OffsetAndMetadata(7, 1, "x", txn.fixture.clock.time_ms())}
    assert txn.fixture.server.data("/consumers/g/offsets/t/0") == b"1", "nothing was copied yet"
    txn.apply(decision)
    assert txn.staged == [] and txn.fixture.server.data("/consumers/g/offsets/t/0") == b"7"
    assert txn.numbers() == {T0: 7, U0: 7}
    assert txn.group.fetch(U0) == {U0: OffsetAndMetadata(7, 1, "x", txn.fixture.clock.time_ms())}
    txn.set_state(TransactionState.COMPLETE_COMMIT)
    assert txn.numbers(stable=True) == {T0: 7, U0: 7}


# trap: kafkalite/coordinator/offsets/committed_offset_reader.py: A reader sees half of the offsets of a transaction.
def test_a_reader_sees_all_or_no_offsets_of_a_transaction(txn: Transactions) -> None:
    """The offsets are decided, copied and removed while a reader has one partition cached and reads the other."""
    txn.commit(1, T0, T1)
    txn.begin()
    txn.stage(7, T0, T1)
    assert txn.numbers() == {T0: 1, T1: 1}
    txn.fixture.edit(2, T1)

    def end(_name: str, path: str) -> None:
        if path == "/consumers/g/offsets/t/1":
            txn.group.client.before = None
            txn.apply(txn.set_state(COMMIT))

    txn.group.client.before = end
    assert {tp: value.offset for tp, value in txn.group.fetch(T0, T1).items()} == {T0: 7, T1: 7}


def test_offsets_are_unstable_while_transactions_follow_too_fast(txn: Transactions) -> None:
    txn.begin()
    txn.stage(7)
    states = [ONGOING, COMMIT] * 50

    def go_on(_name: str, path: str) -> None:
        if path.startswith("/transactions/"):
            run(txn.fixture.hand.set(path, txn.fixture.server.data(path)))
            states.pop()

    txn.group.client.before = go_on
    assert txn.group.fetch(T0, stable=True) == {T0: UNSTABLE}
    assert len(states) > 80, "and it is not asked for ever"


def test_a_group_with_staged_offsets_has_offsets(txn: Transactions) -> None:
    txn.begin()

    def has_any() -> bool:
        return bool(run(txn.group.offsets.has_any(G)))

    assert not has_any()
    txn.stage(7)
    assert has_any()
    txn.set_state(COMMIT)
    assert has_any()
    txn.set_state(ABORT)
    assert not has_any()
    txn.commit(1)
    assert has_any()


def test_an_aborted_transaction_leaves_no_offsets(txn: Transactions) -> None:
    txn.commit(1)
    txn.begin()
    txn.stage(7, T0, U0)
    txn.set_state(ABORT)
    assert txn.numbers(stable=True) == {T0: 1}
    for _ in range(2):
        run(txn.decider.offsets.transactional.discard(G, MOVER, txn.claims["mover"]))
    assert txn.staged == [] and txn.numbers(stable=True) == {T0: 1}


@pytest.mark.parametrize("applied", [False, True], ids=["before it is applied", "after"])
def test_an_offset_that_is_written_after_the_decision_stays(txn: Transactions, applied: bool) -> None:
    txn.begin()
    txn.stage(7, T0, T1, U0)
    txn.fixture.edit(3, T0)
    decision = txn.set_state(COMMIT)
    assert txn.numbers() == {T0: 7, T1: 7, U0: 7}, "an edit before the decision does not count"
    if applied:
        txn.apply(decision)
    txn.fixture.edit(100, T0)
    txn.commit(200, T1)
    assert txn.numbers() == {T0: 100, T1: 200, U0: 7}
    txn.apply(decision)
    assert txn.numbers() == {T0: 100, T1: 200, U0: 7}


def test_an_edit_while_offsets_are_copied_stays(txn: Transactions) -> None:
    txn.commit(1)
    txn.begin()
    txn.stage(7)
    decision = txn.set_state(COMMIT)

    def edit(name: str, _path: str) -> None:
        if name == "multi":
            txn.decider.client.before = None
            txn.fixture.edit(100)

    txn.decider.client.before = edit
    txn.apply(decision)
    assert txn.numbers() == {T0: 100}


# trap: kafkalite/coordinator/offsets/transactional_offsets.py: A decision that is copied late overwrites the offsets of
# a later one.
@pytest.mark.parametrize("order", [(MOVER, OTHER), (OTHER, MOVER)], ids=["in order", "the other way round"])
def test_the_offset_of_the_later_decision_is_valid(txn: Transactions, order: tuple[TxnProducer, ...]) -> None:
    for producer, offset in ((MOVER, 7), (OTHER, 8)):
        txn.begin(producer)
        txn.stage(offset, producer=producer)
    decisions = {OTHER: txn.set_state(COMMIT, OTHER), MOVER: txn.set_state(COMMIT, MOVER)}
    assert txn.numbers() == {T0: 7}
    for producer in order:
        txn.apply(decisions[producer], producer)
        assert txn.numbers() == {T0: 7}


def test_several_commits_in_one_transaction(txn: Transactions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalite.coordinator.offsets.transactional_offsets.CHUNK_BYTES", 500)
    txn.begin()
    for offset, tps in ((1, (T0, T1)), (2, (T0,)), (3, (T0, U0)), (4, (T1,)), (5, (U0,))):
        assert txn.stage(offset, *tps) is OK
    assert len(txn.staged) > 1
    decision = txn.set_state(COMMIT)
    assert txn.numbers() == {T0: 3, T1: 4, U0: 5}
    txn.apply(decision)
    assert txn.numbers() == {T0: 3, T1: 4, U0: 5} and txn.staged == []


def test_many_partitions_are_many_chunks(txn: Transactions) -> None:
    tps = [TopicPartition("t", index) for index in range(5000)]
    txn.fixture.partitions.update(tps)
    txn.begin()
    assert txn.stage(6, *tps) is OK
    assert len(txn.staged) > 5
    txn.apply(txn.set_state(COMMIT))
    assert set(txn.numbers().values()) == {6} and len(txn.numbers()) == 5000


@pytest.mark.parametrize(
    ("producer", "state", "groups", "expected"),
    [
        (MOVER, ONGOING, (G,), OK),
        (MOVER, ONGOING, (G, "more"), OK),
        (MOVER, ONGOING, ("another",), ErrorCode.INVALID_TXN_STATE),
        (MOVER, COMMIT, (G,), ErrorCode.INVALID_TXN_STATE),
        (MOVER, ABORT, (G,), ErrorCode.INVALID_TXN_STATE),
        (MOVER, TransactionState.EMPTY, (G,), ErrorCode.INVALID_TXN_STATE),
        (TxnProducer("mover", 4000, 2), ONGOING, (G,), ErrorCode.INVALID_PRODUCER_EPOCH),
        (TxnProducer("mover", 3999, 3), ONGOING, (G,), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (TxnProducer("unknown", 4000, 3), ONGOING, (G,), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_only_the_current_producer_of_an_open_transaction_may_stage(
    txn: Transactions, producer: TxnProducer, state: TransactionState, groups: tuple[str, ...], expected: ErrorCode
) -> None:
    txn.begin()
    txn.set_state(state, MOVER, *groups)
    assert txn.stage(1, producer=producer) is expected
    assert bool(txn.staged) == (expected is OK)


def test_refused_offsets_are_not_staged(txn: Transactions) -> None:
    txn.begin()
    txn.fixture.first.offsets.config = OffsetConfig(max_metadata_size=0)
    assert txn.stage(1) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert txn.stage(1, TopicPartition("none", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert txn.staged == []


# trap: kafkalite/coordinator/offsets/transactional_offsets.py: Offsets are staged after the transaction was decided,
# and belong to none.
def test_nothing_is_staged_after_the_decision(txn: Transactions) -> None:
    """The decision is written between the read of the transaction and the staging write."""
    txn.begin()
    txn.stage(1)
    run(txn.fixture.hand.delete("/consumers/g/staged/4000-3"))

    def decide(name: str, _path: str) -> None:
        if name == "multi":
            txn.group.client.before = None
            txn.set_state(COMMIT)

    txn.group.client.before = decide
    assert txn.stage(2) is ErrorCode.INVALID_TXN_STATE
    assert txn.staged == []


def test_a_zombie_coordinator_stages_nothing(txn: Transactions) -> None:
    txn.begin()
    run(txn.fixture.hand.delete("/consumers/g/coordinator"))
    txn.decider.claim()
    with pytest.raises(ClaimLostError):
        txn.stage(1)
    assert txn.staged == []


def test_a_zombie_coordinator_of_transactions_copies_and_removes_nothing(txn: Transactions) -> None:
    txn.begin()
    txn.stage(7)
    decision = txn.set_state(COMMIT)
    claim = txn.claims["mover"]
    run(txn.fixture.hand.delete(f"{claim.base}/coordinator"))
    run(txn.group.claims.claim(claim.base, 1))
    for work in (
        txn.decider.offsets.transactional.apply(G, MOVER, claim, decision),
        txn.decider.offsets.transactional.discard(G, MOVER, claim),
    ):
        with pytest.raises(ClaimLostError):
            run(work)
    assert txn.staged == ["4000-3"]


def test_copying_completes_after_an_interruption_at_any_request() -> None:
    for step in range(100):
        again = Transactions()
        again.commit(1, T0)
        again.begin()
        again.stage(7, T0, T1, U0)
        again.fixture.edit(50, U0)
        decision = again.set_state(COMMIT)
        left = [step]

        def cut(_name: str, _path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise ConnectionLostError

        again.decider.client.before = cut
        try:
            again.apply(decision)
        except ConnectionLostError:
            again.decider.client.before = None
            assert again.numbers() == {T0: 7, T1: 7, U0: 7}, f"after step {step}"
            again.fixture.edit(60, U0)
            again.apply(decision)
            assert again.numbers() == {T0: 7, T1: 7, U0: 60} and again.staged == []
        else:
            assert step > 5
            return
    pytest.fail("never ended")


@pytest.mark.parametrize("half", [False, True], ids=["gone", "about to go"])
def test_offsets_of_a_deleted_topic_do_not_come_back(txn: Transactions, half: bool) -> None:
    txn.begin()
    txn.stage(7, T0, U0)
    decision = txn.set_state(COMMIT)
    run(
        set_or_create(txn.fixture.hand, "/admin/delete_topics/u", b"")
        if half
        else txn.fixture.hand.delete("/brokers/topics/u")
    )
    txn.apply(decision)
    assert txn.numbers() == {T0: 7}


def test_offsets_of_a_topic_whose_deletion_ends_while_they_are_copied_do_not_come_back(txn: Transactions) -> None:
    topic, request = "/brokers/topics/u", "/admin/delete_topics/u"
    txn.begin()
    txn.stage(7, T0, U0)
    decision = txn.set_state(COMMIT)
    run(set_or_create(txn.fixture.hand, request, b""))
    reads = list[str]()

    def end_the_deletion(_: str, path: str) -> None:
        if path in (topic, request):
            reads.append(path)
            if len(reads) == 2:
                run(txn.fixture.hand.multi([Delete(topic), Delete(request)]))

    txn.decider.client.before = end_the_deletion
    txn.apply(decision)
    assert reads and txn.numbers() == {T0: 7}


def test_staged_offsets_of_an_older_epoch_are_ignored(txn: Transactions) -> None:
    txn.commit(1)
    txn.begin()
    txn.stage(7)
    fenced = TxnProducer("mover", 4000, 4)
    txn.set_state(ONGOING, fenced)
    assert txn.numbers(stable=True) == {T0: 1}
    txn.set_state(COMMIT, fenced)
    assert txn.numbers(stable=True) == {T0: 1}


def test_malformed_staged_offsets_do_not_hide_others(txn: Transactions) -> None:
    txn.commit(1)
    run(set_or_create(txn.fixture.hand, "/consumers/g/staged/4000-3", b"x"))
    assert txn.numbers(stable=True) == {T0: 1}
    txn.begin()
    assert txn.stage(7) is OK
    assert txn.numbers(stable=True) == {T0: UNSTABLE}


def test_offsets_are_staged_again_after_an_administrator_removed_the_path(txn: Transactions) -> None:
    txn.begin()
    txn.stage(7)
    paths = txn.fixture.server.paths("/consumers/g/staged")
    txn.fixture.server.tree.multi([Delete(path) for path in reversed(paths)], 0)
    assert txn.stage(8) is OK
    txn.apply(txn.set_state(COMMIT))
    assert txn.numbers() == {T0: 8}


def test_an_unexpected_zookeeper_error_is_raised(txn: Transactions) -> None:
    txn.begin()

    def fail(name: str, path: str) -> None:
        if name == "multi":
            raise ZkError(path, "broken:")

    txn.group.client.before = fail
    with pytest.raises(ZkError, match="broken"):
        txn.stage(1)
