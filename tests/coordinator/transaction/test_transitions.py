"""The transitions: every request in every state, as in Kafka; and every transition interrupted and repeated."""

from __future__ import annotations

import itertools

import pytest

from integration.blocks import blocks_of
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction import transitions
from kafkalite.coordinator.transaction.states import (
    AT_REST,
    DECIDED,
    LEGAL,
    IllegalTransactionTransitionError,
    mermaid,
    transition,
)
from kafkalite.coordinator.transaction.transitions import Transition
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.zk.znodes.offsets import TxnProducer
from kafkalite.zk.znodes.transactions import NO_TIMEOUT, TransactionMetadata, TransactionState

S = TransactionState
E = ErrorCode
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ME = ProducerIdAndEpoch(10, 5)
OTHER_ID = ProducerIdAndEpoch(11, 5)
OLDER, NEWER = ProducerIdAndEpoch(10, 4), ProducerIdAndEpoch(10, 6)
NOW = 1_000_000


def in_state(state: S, **changes: object) -> TransactionMetadata:
    """The metadata of an id in ``state``; with partitions only while a transaction is open or ending."""
    is_open = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.PREPARE_EPOCH_FENCE)
    metadata = TransactionMetadata(
        "tx",
        10,
        5,
        10,
        -1,
        60_000,
        state,
        frozenset({A0, A1}) if is_open else frozenset(),
        frozenset({"g"}) if is_open else frozenset(),
        NOW - 1000 if state is not S.EMPTY else -1,
        NOW - 500,
    )
    return metadata.with_(**changes)


WRITTEN = [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]
"""The states that a znode can have."""
RESTING = [state for state in S if state in AT_REST]
ENDING = [state for state in S if state in DECIDED]


# States


def test_the_transitions_are_those_of_kafka() -> None:
    # kafka.coordinator.transaction.TransactionState.validPreviousStates of 3.9
    previous = {
        S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
        S.ONGOING: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
        S.PREPARE_COMMIT: {S.ONGOING},
        S.PREPARE_ABORT: {S.ONGOING, S.PREPARE_EPOCH_FENCE},
        S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
        S.COMPLETE_ABORT: {S.PREPARE_ABORT},
        S.DEAD: {S.EMPTY, S.COMPLETE_ABORT, S.COMPLETE_COMMIT},
        S.PREPARE_EPOCH_FENCE: {S.ONGOING},
    }
    assert set(LEGAL) == {(old, new) for new, olds in previous.items() for old in olds}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(S, S)))
def test_only_legal_transitions_are_made(old: S, new: S) -> None:
    if (old, new) in LEGAL:
        assert transition(in_state(old), new, update_ms=7) == in_state(old).with_(state=new, update_ms=7)
    else:
        with pytest.raises(IllegalTransactionTransitionError, match="tx"):
            transition(in_state(old), new)


def test_the_documentation_contains_the_diagram() -> None:
    [shown] = blocks_of("docs/transactions.md", __file__)
    assert shown.text == mermaid()


def test_the_diagram_has_every_state_and_transition() -> None:
    lines = mermaid().splitlines()
    assert all(any(state.value in line for line in lines) for state in S)
    assert sum("-->" in line for line in lines) == len(LEGAL) + 2


# InitProducerId


def init(
    metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None = None, timeout_ms: int = 30_000
) -> Transition:
    return transitions.init_producer_id(metadata, timeout_ms, expected, 99, NOW)


def test_a_new_id_begins_with_epoch_0() -> None:
    begun = transitions.begin_id("tx", 10, 30_000, NOW)
    assert begun.producer_epoch == -1
    for expected in (None, ProducerIdAndEpoch(7, 3)):
        # A producer that continues with a removed id (KIP-360) gets a new one.
        decision = init(begun, expected)
        assert decision == Transition(
            write=TransactionMetadata("tx", 10, 0, -1, -1, 30_000, S.EMPTY, start_ms=-1, update_ms=NOW)
        )


@pytest.mark.parametrize("state", RESTING, ids=str)
def test_another_producer_gets_the_next_epoch(state: S) -> None:
    written = init(in_state(state)).write
    assert written == TransactionMetadata("tx", 10, 6, 10, -1, 30_000, S.EMPTY, start_ms=-1, update_ms=NOW)


@pytest.mark.parametrize(
    ("changes", "expected", "error", "given"),
    [
        # it continues: its epoch and the former one are stored
        ({}, ME, E.NONE, (10, 6, 5)),
        # it repeats the request after a lost answer: the same answer
        ({"last_producer_epoch": 4}, OLDER, E.NONE, (10, 5, 4)),
        # a zombie
        ({}, OLDER, E.PRODUCER_FENCED, None),
        ({"last_producer_epoch": 3}, OLDER, E.PRODUCER_FENCED, None),
        ({}, NEWER, E.PRODUCER_FENCED, None),
        ({}, OTHER_ID, E.PRODUCER_FENCED, None),
        ({"last_producer_id": 11}, OTHER_ID, E.PRODUCER_FENCED, None),
        # the epochs are exhausted
        ({"producer_epoch": 32765}, None, E.NONE, (10, 32766, -1)),
        ({"producer_epoch": 32766}, None, E.NONE, (99, 0, -1)),
        ({"producer_epoch": 32767}, None, E.NONE, (99, 0, -1)),
        ({"producer_epoch": 32766}, ProducerIdAndEpoch(10, 32766), E.NONE, (99, 0, 32766)),
        ({"producer_epoch": 32766}, OLDER, E.PRODUCER_FENCED, None),
        (
            {"producer_epoch": 32766, "last_producer_epoch": 32765},
            ProducerIdAndEpoch(10, 32765),
            E.NONE,
            (10, 32766, 32765),
        ),
        # … and the answer with the new id was lost
        (
            {"producer_id": 99, "producer_epoch": 0, "last_producer_id": 10, "last_producer_epoch": 32766},
            ProducerIdAndEpoch(10, 32766),
            E.NONE,
            (99, 0, 32766),
        ),
        (
            {"producer_id": 99, "producer_epoch": 1, "last_producer_id": 10, "last_producer_epoch": -1},
            ProducerIdAndEpoch(10, 32766),
            E.PRODUCER_FENCED,
            None,
        ),
        ({"producer_id": 99, "producer_epoch": 0, "last_producer_id": 10}, ME, E.PRODUCER_FENCED, None),
    ],
)
@pytest.mark.parametrize("state", RESTING, ids=str)
def test_init_producer_id_after_an_error(
    state: S,
    changes: dict[str, int],
    expected: ProducerIdAndEpoch | None,
    error: ErrorCode,
    given: tuple[int, int, int] | None,
) -> None:
    decision = init(in_state(state, **changes), expected)
    assert decision.error is error
    written = decision.write
    assert (written is None) == (given is None)
    if written is not None:
        assert (written.producer_id, written.producer_epoch, written.last_producer_epoch) == given
        assert (written.state, written.timeout_ms, written.start_ms) == (S.EMPTY, 30_000, -1)
        assert not written.partitions and not written.groups


@pytest.mark.parametrize("expected", [None, ME])
def test_an_open_transaction_is_aborted_under_an_epoch_that_no_producer_gets(
    expected: ProducerIdAndEpoch | None,
) -> None:
    decision = init(in_state(S.ONGOING), expected)
    assert decision.error is E.CONCURRENT_TRANSACTIONS
    assert decision.write == in_state(
        S.PREPARE_ABORT, producer_epoch=6, last_producer_epoch=5, start_ms=NOW - 1000, update_ms=NOW
    )


@pytest.mark.parametrize("state", ENDING, ids=str)
@pytest.mark.parametrize(
    ("expected", "error"),
    [(None, E.CONCURRENT_TRANSACTIONS), (ME, E.CONCURRENT_TRANSACTIONS), (OTHER_ID, E.PRODUCER_FENCED)],
)
def test_init_producer_id_waits_for_an_ending_transaction(
    state: S, expected: ProducerIdAndEpoch | None, error: ErrorCode
) -> None:
    assert init(in_state(state), expected) == Transition(error)


def test_a_zombie_cannot_abort_its_successors_transaction() -> None:
    assert init(in_state(S.ONGOING), OTHER_ID) == Transition(E.PRODUCER_FENCED)


@pytest.mark.parametrize(
    ("metadata", "expected", "wanted"),
    [
        (in_state(S.EMPTY), None, False),
        (in_state(S.EMPTY, producer_epoch=32766), None, True),
        (in_state(S.COMPLETE_ABORT, producer_epoch=32767), None, True),
        (in_state(S.EMPTY, producer_epoch=32766), ProducerIdAndEpoch(10, 32766), True),
        (in_state(S.EMPTY, producer_epoch=32766), ProducerIdAndEpoch(10, 32765), False),
        (in_state(S.ONGOING, producer_epoch=32766), None, False),
    ],
)
def test_a_new_producer_id_is_fetched_only_where_it_is_used(
    metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None, wanted: bool
) -> None:
    assert transitions.wants_producer_id(metadata, expected) is wanted
    written = init(metadata, expected).write
    assert (written is not None and written.producer_id == 99) is wanted


@pytest.mark.parametrize(
    ("timeout_ms", "two_phase", "legal"),
    [
        (1, False, True),
        (900_000, False, True),
        (900_001, False, False),
        (0, False, False),
        (-1, True, False),
        (NO_TIMEOUT, False, False),
        (NO_TIMEOUT, True, True),
        (NO_TIMEOUT - 1, True, False),
    ],
)
def test_timeouts_that_a_producer_may_ask_for(timeout_ms: int, two_phase: bool, legal: bool) -> None:
    assert transitions.timeout_is_legal(timeout_ms, 900_000, two_phase) is legal


# Adding


@pytest.mark.parametrize(
    ("producer", "error"),
    [(OTHER_ID, E.INVALID_PRODUCER_ID_MAPPING), (OLDER, E.PRODUCER_FENCED), (NEWER, E.PRODUCER_FENCED)],
)
@pytest.mark.parametrize("state", WRITTEN, ids=str)
def test_requests_of_other_producers_are_refused(state: S, producer: ProducerIdAndEpoch, error: ErrorCode) -> None:
    metadata = in_state(state)
    assert transitions.add(metadata, producer, [A0], [], NOW) == Transition(error)
    assert transitions.end(metadata, producer, True, NOW) == Transition(error)
    assert transitions.end(metadata, producer, False, NOW) == Transition(error)
    assert transitions.verify(metadata, producer, [A0, B0]) == {A0: error, B0: error}


@pytest.mark.parametrize("state", RESTING, ids=str)
def test_the_first_partition_begins_the_transaction(state: S) -> None:
    assert transitions.add(in_state(state), ME, [A0, B0], [], NOW) == Transition(
        write=in_state(state).with_(state=S.ONGOING, partitions=frozenset({A0, B0}), start_ms=NOW, update_ms=NOW)
    )
    assert transitions.add(in_state(state), ME, [], ["g"], NOW) == Transition(
        write=in_state(state).with_(state=S.ONGOING, groups=frozenset({"g"}), start_ms=NOW, update_ms=NOW)
    )


def test_more_partitions_and_groups_join() -> None:
    metadata = in_state(S.ONGOING)
    assert transitions.add(metadata, ME, [A1, B0], [], NOW) == Transition(
        write=metadata.with_(partitions=frozenset({A0, A1, B0}), update_ms=NOW)
    )
    assert transitions.add(metadata, ME, [], ["h"], NOW) == Transition(
        write=metadata.with_(groups=frozenset({"g", "h"}), update_ms=NOW)
    )


def test_adding_a_known_partition_writes_nothing() -> None:
    assert transitions.add(in_state(S.ONGOING), ME, [A0], [], NOW) == Transition()
    assert transitions.add(in_state(S.ONGOING), ME, [], ["g"], NOW) == Transition()


@pytest.mark.parametrize("state", ENDING, ids=str)
def test_nothing_is_added_to_an_ending_transaction(state: S) -> None:
    assert transitions.add(in_state(state), ME, [A0], [], NOW) == Transition(E.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize(
    ("state", "known", "unknown"),
    [
        (S.EMPTY, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
        (S.ONGOING, E.NONE, E.TRANSACTION_ABORTABLE),
        (S.PREPARE_COMMIT, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_ABORT, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (S.COMPLETE_COMMIT, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
        (S.COMPLETE_ABORT, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
    ],
)
def test_verifying(state: S, known: ErrorCode, unknown: ErrorCode) -> None:
    assert transitions.verify(in_state(state), ME, [A0, B0]) == {A0: known, B0: unknown}


# Ending


@pytest.mark.parametrize(
    ("state", "commit", "error", "then"),
    [
        (S.EMPTY, True, E.INVALID_TXN_STATE, None),
        (S.EMPTY, False, E.INVALID_TXN_STATE, None),
        (S.ONGOING, True, E.NONE, S.PREPARE_COMMIT),
        (S.ONGOING, False, E.NONE, S.PREPARE_ABORT),
        (S.PREPARE_COMMIT, True, E.CONCURRENT_TRANSACTIONS, None),
        (S.PREPARE_COMMIT, False, E.INVALID_TXN_STATE, None),
        (S.PREPARE_ABORT, True, E.INVALID_TXN_STATE, None),
        (S.PREPARE_ABORT, False, E.CONCURRENT_TRANSACTIONS, None),
        (S.COMPLETE_COMMIT, True, E.NONE, None),
        (S.COMPLETE_COMMIT, False, E.INVALID_TXN_STATE, None),
        (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE, None),
        (S.COMPLETE_ABORT, False, E.NONE, None),
    ],
)
def test_end_in_every_state(state: S, commit: bool, error: ErrorCode, then: S | None) -> None:
    decision = transitions.end(in_state(state), ME, commit, NOW)
    assert decision.error is error
    # The partitions stay until all have their markers.
    assert decision.write == (None if then is None else in_state(state).with_(state=then, update_ms=NOW))


@pytest.mark.parametrize(
    ("state", "then"), [(S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)]
)
def test_completion_removes_partitions_and_groups(state: S, then: S) -> None:
    done = transitions.complete(in_state(state), NOW)
    assert done == in_state(state).with_(state=then, partitions=frozenset(), groups=frozenset(), update_ms=NOW)


def test_no_producer_continues_from_a_fenced_epoch() -> None:
    fenced = transitions.fence(in_state(S.ONGOING), NOW)
    done = transitions.complete(fenced, NOW)
    assert (done.state, done.producer_epoch) == (S.COMPLETE_ABORT, 6)
    assert init(done, ME) == Transition(E.PRODUCER_FENCED)
    written = init(done).write
    assert written is not None and written.producer_epoch == 7


# trap: kafkalite/coordinator/transaction/transitions.py: Offsets staged under the producer epoch before a fence are
# forgotten.
def test_offsets_staged_before_a_fence_are_discarded() -> None:
    def stager(epoch: int) -> TxnProducer:
        return TxnProducer("tx", 10, epoch)

    assert transitions.stagers(transitions.fence(in_state(S.ONGOING), NOW)) == [stager(6), stager(5)]
    assert transitions.stagers(in_state(S.PREPARE_ABORT)) == [stager(5)]
    # The epoch before the last InitProducerId has no staged offsets that could be committed.
    assert transitions.stagers(in_state(S.PREPARE_COMMIT, last_producer_epoch=4)) == [stager(5)]


def test_the_last_epoch_of_all_can_still_be_fenced() -> None:
    fenced = transitions.fence(in_state(S.ONGOING, producer_epoch=32766), NOW)
    assert fenced.producer_epoch == 32767
    again = transitions.fence(in_state(S.ONGOING, producer_epoch=32767), NOW)
    assert again.producer_epoch == 32767


# Time


@pytest.mark.parametrize("state", WRITTEN, ids=str)
def test_only_open_transactions_time_out(state: S) -> None:
    metadata = in_state(state, timeout_ms=1000, start_ms=NOW - 1000)
    assert not transitions.has_timed_out(metadata, NOW)
    assert transitions.has_timed_out(metadata, NOW + 1) is (state is S.ONGOING)


def test_a_two_phase_transaction_never_times_out() -> None:
    metadata = in_state(S.ONGOING, timeout_ms=NO_TIMEOUT, start_ms=0)
    assert metadata.two_phase and not transitions.has_timed_out(metadata, 1 << 50)


@pytest.mark.parametrize("state", WRITTEN, ids=str)
def test_only_ids_at_rest_expire(state: S) -> None:
    metadata = in_state(state, update_ms=NOW)
    assert not transitions.has_expired(metadata, 1000, NOW + 999)
    assert transitions.has_expired(metadata, 1000, NOW + 1000) is (state in AT_REST)


def test_an_expired_id_is_dead() -> None:
    assert transitions.bury(in_state(S.EMPTY)).state is S.DEAD
    with pytest.raises(IllegalTransactionTransitionError):
        transitions.bury(in_state(S.ONGOING))


# Interruptions: each answer may be lost, and the client repeats the request at the current coordinator


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_end_is_answered_with_the_progress(commit: bool) -> None:
    metadata = in_state(S.ONGOING)
    decided = transitions.end(metadata, ME, commit, NOW).write
    assert decided is not None
    assert transitions.end(decided, ME, commit, NOW + 1) == Transition(E.CONCURRENT_TRANSACTIONS)
    assert transitions.end(decided, ME, not commit, NOW + 1) == Transition(E.INVALID_TXN_STATE)
    completed = transitions.complete(decided, NOW + 2)
    assert transitions.end(completed, ME, commit, NOW + 3) == Transition()
    assert transitions.end(completed, ME, not commit, NOW + 3) == Transition(E.INVALID_TXN_STATE)


def test_a_repeated_add_is_answered_the_same() -> None:
    for metadata in map(in_state, [*RESTING, S.ONGOING]):
        once = transitions.add(metadata, ME, [A1, B0], ["h"], NOW).write
        assert once is not None
        assert transitions.add(once, ME, [A1, B0], ["h"], NOW + 5) == Transition()


def test_a_repeated_init_never_gives_an_epoch_to_two_producers() -> None:
    metadata = in_state(S.COMPLETE_COMMIT)
    once = init(metadata).write
    assert once is not None
    twice = init(once).write
    assert twice is not None and twice.producer_epoch == once.producer_epoch + 1
    # A producer that sends its id and epoch gets the same answer.
    given = init(metadata, ME).write
    assert given is not None
    again = init(given, ME).write
    assert again == given


def test_a_repeated_fence_aborts_once() -> None:
    fenced = init(in_state(S.ONGOING)).write
    assert fenced is not None
    assert init(fenced) == Transition(E.CONCURRENT_TRANSACTIONS)
    # A commit or abort of the fenced producer is refused.
    for commit in (True, False):
        assert transitions.end(fenced, ME, commit, NOW) == Transition(E.PRODUCER_FENCED)
    assert transitions.add(fenced, ME, [A0], [], NOW) == Transition(E.PRODUCER_FENCED)
