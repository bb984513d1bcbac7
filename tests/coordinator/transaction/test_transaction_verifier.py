"""Verification by leaders: a lagging ZooKeeper server neither refuses a valid producer nor accepts a late batch."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction import transaction_verifier
from kafkalite.coordinator.transaction.transaction_verifier import TransactionVerifier
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.zk.zk_client import ConnectionLostError
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState
from tests.coordinator.transaction.fixtures import T0, T1, TX
from tests.support import run

E = ErrorCode
S = TransactionState
ME = ProducerIdAndEpoch(1000, 7)


def made(state: S = S.ONGOING, *partitions: TopicPartition, start_ms: int = 1) -> TransactionMetadata:
    return TransactionMetadata(TX, *ME, state=state, partitions=frozenset(partitions), start_ms=start_ms)


class Stored:
    """The metadata at the server that is read (``seen``), and the latest metadata."""

    def __init__(self) -> None:
        self.seen: TransactionMetadata | None = None
        self.truth: TransactionMetadata | None = None
        self.made_sure = 0
        self.failure: Exception | None = None

    async def read(self, transactional_id: str) -> tuple[TransactionMetadata, object] | None:
        assert transactional_id == TX
        if self.failure is not None:
            raise self.failure
        return None if self.seen is None else (self.seen, object())

    async def read_current(self, transactional_id: str) -> TransactionMetadata | None:
        assert transactional_id == TX
        self.made_sure += 1
        return self.truth

    def both(self, metadata: TransactionMetadata | None) -> None:
        self.seen = self.truth = metadata


class VerifierFixture:
    """A verifier."""

    def __init__(self) -> None:
        self.store = Stored()
        self.verifier = TransactionVerifier(self.store)  # type: ignore[arg-type]

    def verify(self, *partitions: TopicPartition, ended: Collection[TopicPartition] = ()) -> dict[TopicPartition, E]:
        found: dict[TopicPartition, E] = run(self.verifier.verify(TX, ME, partitions or (T0,), ended))
        return found


def test_a_partition_of_the_open_transaction_is_accepted() -> None:
    fixture = VerifierFixture()
    fixture.store.seen = made(S.ONGOING, T0, T1)
    assert fixture.verify(T0, T1) == {T0: E.NONE, T1: E.NONE}
    assert not fixture.store.made_sure


@pytest.mark.parametrize("seen", [None, made(S.EMPTY), made(S.COMPLETE_COMMIT), made(S.ONGOING, T1)])
def test_a_refusal_is_read_again(seen: TransactionMetadata | None) -> None:
    fixture = VerifierFixture()
    fixture.store.seen, fixture.store.truth = seen, made(S.ONGOING, T0)
    assert fixture.verify() == {T0: E.NONE}
    assert fixture.store.made_sure == 1


@pytest.mark.parametrize(
    ("truth", "error"),
    [
        (None, E.INVALID_PRODUCER_ID_MAPPING),
        (made(S.EMPTY), E.TRANSACTION_ABORTABLE),
        (made(S.ONGOING, T1), E.TRANSACTION_ABORTABLE),
        (made(S.PREPARE_ABORT, T0), E.CONCURRENT_TRANSACTIONS),
        (made(S.ONGOING, T0).with_(producer_epoch=8), E.PRODUCER_FENCED),
        (made(S.ONGOING, T0).with_(producer_id=8), E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_errors_of_the_verification(truth: TransactionMetadata | None, error: ErrorCode) -> None:
    fixture = VerifierFixture()
    fixture.store.both(truth)
    assert fixture.verify() == {T0: error}


# trap: kafkalite/coordinator/transaction/transaction_verifier.py: A late batch opens a transaction that has ended and
# that no producer will end, and a lagging ZooKeeper server agrees.
def test_an_outdated_read_does_not_accept_a_late_batch() -> None:
    fixture = VerifierFixture()
    fixture.store.seen = made(S.ONGOING, T0)
    assert fixture.verify() == {T0: E.NONE}
    # The transaction ends and its marker is written here, and the server does not have the end yet.
    fixture.store.truth = made(S.PREPARE_COMMIT, T0)
    assert fixture.verify(ended=[T0]) == {T0: E.CONCURRENT_TRANSACTIONS}
    # A leader that has not verified the transaction, but finds its end in the log, reads again, too.
    fixture = VerifierFixture()
    fixture.store.seen, fixture.store.truth = made(S.ONGOING, T0), made(S.COMPLETE_ABORT)
    assert fixture.verify(ended=[T0]) == {T0: E.TRANSACTION_ABORTABLE}


def test_the_next_transaction_is_known_by_its_beginning() -> None:
    fixture = VerifierFixture()
    fixture.store.both(made(S.ONGOING, T0, start_ms=1))
    assert fixture.verify() == {T0: E.NONE}
    fixture.store.seen = made(S.ONGOING, T0, start_ms=2)
    assert fixture.verify(ended=[T0]) == {T0: E.NONE}
    assert not fixture.store.made_sure


@pytest.mark.parametrize("failure", [ConnectionLostError("/transactions"), MalformedZnodeError("bad")])
def test_verification_without_zookeeper_fails_with_a_retriable_error(failure: Exception) -> None:
    fixture = VerifierFixture()
    fixture.store.failure = failure
    assert fixture.verify(T0, T1) == dict.fromkeys((T0, T1), E.COORDINATOR_NOT_AVAILABLE)


def test_the_memory_of_seen_transactions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_verifier, "_REMEMBERED", 3)
    fixture = VerifierFixture()
    partitions = [TopicPartition("t", number) for number in range(5)]
    fixture.store.both(made(S.ONGOING, *partitions))
    fixture.verify(*partitions)
    fixture.verify(partitions[4])
    assert [tp for tp, _ in fixture.verifier._seen] == [*partitions[2:4], partitions[4]]
