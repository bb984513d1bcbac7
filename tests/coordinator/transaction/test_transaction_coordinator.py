"""The transaction coordinator: claims, the order of writes and answers, and the completion of transactions."""

from __future__ import annotations

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch, TransactionConfig, TransactionListing
from kafkalite.zk.zk_client import ConnectionLostError, ZkError
from kafkalite.zk.znodes.transactions import NO_TIMEOUT, TransactionState
from tests.coordinator.transaction.fixtures import BASE, T0, T1, T2, TX, TransactionCoordinatorFixture
from tests.support import Started, run

S = TransactionState
E = ErrorCode


# A transaction


@pytest.mark.parametrize("commit", [True, False])
def test_from_begin_to_end(commit: bool) -> None:
    fixture = TransactionCoordinatorFixture()
    owner = fixture.owner
    producer = owner.init().result
    assert producer == ProducerIdAndEpoch(1000, 0) and fixture.state() is S.EMPTY
    assert owner.add(producer, T0, T1).error is E.NONE
    assert fixture.stored().partitions == {T0, T1} and fixture.state() is S.ONGOING
    assert owner.offsets(producer).error is E.NONE
    assert fixture.stored().groups == {"g"}
    assert owner.end(producer, commit).error is E.NONE
    assert sorted(fixture.leaders.told()) == [(T0, commit), (T1, commit)]
    assert {(broker, marker.partitions) for broker, marker in fixture.leaders.markers} == {(1, (T0,)), (2, (T1,))}
    assert {marker[:2] for _, marker in fixture.leaders.markers} == {(1000, 0)}
    assert fixture.groups.calls == [("apply" if commit else "discard", "g", 0)]
    assert fixture.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert not fixture.stored().partitions and not fixture.stored().groups
    # and the next one
    assert owner.add(producer, T2).error is E.NONE
    assert fixture.stored().partitions == {T2}


def test_the_decision_is_answered_before_the_markers_and_the_next_transaction_waits_for_them() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened()
    fixture.leaders.hold = True
    assert fixture.owner.end(producer).error is E.NONE
    assert fixture.state() is S.PREPARE_COMMIT and fixture.stored().partitions == {T0, T1}
    assert fixture.owner.add(producer, T2).error is E.CONCURRENT_TRANSACTIONS
    assert fixture.owner.end(producer).error is E.CONCURRENT_TRANSACTIONS
    assert fixture.owner.end(producer, commit=False).error is E.INVALID_TXN_STATE
    assert fixture.owner.init().error is E.CONCURRENT_TRANSACTIONS
    fixture.leaders.release()
    assert fixture.state() is S.COMPLETE_COMMIT
    assert fixture.owner.end(producer).error is E.NONE
    assert fixture.owner.add(producer, T2).error is E.NONE


def test_offsets_come_before_markers_and_know_when_it_was_decided() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened()
    assert fixture.owner.offsets(producer).error is E.NONE
    fixture.groups.failures = [ConnectionLostError("/consumers/g")]
    assert fixture.owner.end(producer).error is E.NONE
    assert not fixture.leaders.markers and fixture.state() is S.PREPARE_COMMIT
    decided = fixture.server.tree.node(f"{BASE}/ids/{TX}").mzxid
    fixture.clock.advance(0.1)
    assert fixture.groups.calls == [("apply", "g", 0)] and fixture.groups.decisions == [decided]
    assert fixture.leaders.told() and fixture.state() is S.COMPLETE_COMMIT


def test_a_completion_is_retried_after_an_unexpected_error() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0)
    fixture.owner.offsets(producer)
    fixture.groups.failures = [ZeroDivisionError(), ZeroDivisionError()]
    fixture.owner.end(producer)
    fixture.clock.advance(11)
    assert fixture.state() is S.COMPLETE_COMMIT


def test_the_completion_ends_when_an_administrator_removes_the_id() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0)
    fixture.leaders.hold = True
    fixture.owner.end(producer)
    run(fixture.admin.delete(f"{BASE}/ids/{TX}"))
    fixture.leaders.release()
    fixture.clock.advance(5)
    requests = fixture.owner.client.requests
    fixture.clock.advance(9)
    assert fixture.owner.client.requests == requests
    assert fixture.owner.init().result == ProducerIdAndEpoch(1001, 0)


def test_a_transaction_too_large_for_zookeeper_is_refused_and_can_be_ended() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0)

    def refuse(name: str, path: str) -> None:
        if name == "multi":
            raise ZkError(path, "a request of 2000000 bytes")

    fixture.owner.client.before = refuse
    assert fixture.owner.add(producer, T1).error is E.UNKNOWN_SERVER_ERROR
    fixture.owner.client.before = None
    assert fixture.owner.end(producer, commit=False).error is E.NONE
    assert fixture.leaders.told() == [(T0, False)]


def test_a_write_in_flight_blocks_other_requests() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened()
    fixture.owner.client.black_hole(apply=True)
    adding = fixture.owner.add(producer, T2)
    assert not adding.done
    assert fixture.owner.end(producer).error is E.CONCURRENT_TRANSACTIONS
    assert fixture.owner.init().error is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("transactional_id", ["", None])
def test_an_empty_transactional_id_is_refused(transactional_id: str) -> None:
    coordinator, producer = TransactionCoordinatorFixture().owner.coordinator, ProducerIdAndEpoch(1, 1)
    for work in (
        coordinator.init_producer_id(transactional_id, 1000),
        coordinator.add_partitions(transactional_id, producer, [T0]),
        coordinator.add_offsets(transactional_id, producer, "g"),
        coordinator.end(transactional_id, producer, commit=True),
        coordinator.describe(transactional_id),
    ):
        assert Started(work).error is E.INVALID_REQUEST


def test_an_unknown_transactional_id_is_refused() -> None:
    owner, producer = TransactionCoordinatorFixture().owner, ProducerIdAndEpoch(1, 1)
    assert owner.add(producer).error is E.INVALID_PRODUCER_ID_MAPPING
    assert owner.offsets(producer).error is E.INVALID_PRODUCER_ID_MAPPING
    assert owner.end(producer).error is E.INVALID_PRODUCER_ID_MAPPING
    assert Started(owner.coordinator.verify_partitions(TX, producer, [T0])).error is E.INVALID_PRODUCER_ID_MAPPING
    assert Started(owner.coordinator.describe(TX)).error is E.TRANSACTIONAL_ID_NOT_FOUND


# Fencing


def test_a_second_producer_fences_the_first_and_aborts_what_it_left() -> None:
    fixture = TransactionCoordinatorFixture()
    first = fixture.opened(T0)
    fixture.owner.offsets(first)
    assert fixture.owner.init().error is E.CONCURRENT_TRANSACTIONS
    # the marker has an epoch between the two, so that each partition refuses the first producer from now on
    assert [marker[:2] for _, marker in fixture.leaders.markers] == [(1000, 1)]
    assert fixture.leaders.told() == [(T0, False)]
    assert fixture.groups.calls == [("discard", "g", 1), ("discard", "g", 0)]
    assert fixture.state() is S.COMPLETE_ABORT
    assert fixture.owner.init().result == ProducerIdAndEpoch(1000, 2)
    for outcome in (fixture.owner.add(first), fixture.owner.end(first), fixture.owner.offsets(first)):
        assert outcome.error is E.PRODUCER_FENCED


def test_exhausted_epochs_give_a_new_producer_id() -> None:
    fixture = TransactionCoordinatorFixture()
    owner = fixture.owner
    producer = owner.init().result
    partition = next(iter(owner.coordinator._state_manager))
    entry = partition.entries[TX]
    entry.metadata = entry.metadata.with_(producer_epoch=32766)
    assert owner.init().result == ProducerIdAndEpoch(1001, 0)
    assert owner.add(producer).error is E.INVALID_PRODUCER_ID_MAPPING


def test_two_producers_that_start_at_once_get_different_epochs() -> None:
    fixture = TransactionCoordinatorFixture()
    waiting: list[Future[int]] = []
    fixture.producer_ids.held = waiting
    outcomes = [fixture.owner.init(), fixture.owner.init()]
    assert len(waiting) == 2 and not any(outcome.done for outcome in outcomes)
    for future in list(waiting):
        fixture.producer_ids.give(future)
    given = [outcome.result for outcome in outcomes]
    assert given == [ProducerIdAndEpoch(1000, 0), ProducerIdAndEpoch(1000, 1)]


@pytest.mark.parametrize(
    ("timeout_ms", "enabled", "error"),
    [
        (0, False, E.INVALID_TRANSACTION_TIMEOUT),
        (900_001, True, E.INVALID_TRANSACTION_TIMEOUT),
        (NO_TIMEOUT, False, E.INVALID_TRANSACTION_TIMEOUT),
        (NO_TIMEOUT, True, E.NONE),
    ],
)
def test_timeouts_are_bounded(timeout_ms: int, enabled: bool, error: ErrorCode) -> None:
    fixture = TransactionCoordinatorFixture(config=TransactionConfig(two_phase_commit_enable=enabled))
    assert fixture.owner.init(timeout_ms=timeout_ms).error is error


# Markers that do not arrive at once


@pytest.mark.parametrize(
    "failure",
    [
        OSError("gone"),
        E.NOT_LEADER_OR_FOLLOWER,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.REQUEST_TIMED_OUT,
        E.KAFKA_STORAGE_ERROR,
        E.UNKNOWN_SERVER_ERROR,
    ],
    ids=str,
)
def test_markers_are_sent_until_they_are_acknowledged(failure: ErrorCode | Exception) -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0, T1)
    fixture.leaders.answers = [failure, E.NONE, failure, failure]
    assert fixture.owner.end(producer).error is E.NONE
    assert fixture.state() is S.PREPARE_COMMIT and fixture.stored().partitions == {T0, T1}
    fixture.clock.advance(1)
    assert fixture.state() is S.COMPLETE_COMMIT
    # the partition that had acknowledged got no second marker
    assert fixture.leaders.told().count((T1, True)) == 1


def test_each_attempt_looks_up_the_leader_again() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0)
    fixture.lead(T0, -1)
    fixture.owner.end(producer)
    fixture.clock.advance(5)
    assert not fixture.leaders.markers and fixture.state() is S.PREPARE_COMMIT
    coordinator = fixture.owner.coordinator
    assert (coordinator.without_leader, coordinator.repeated_completions) == (1, 0)
    fixture.lead(T0, 2)
    fixture.clock.advance(1)
    assert (coordinator.without_leader, coordinator.repeated_completions) == (0, 0)
    assert [broker for broker, _ in fixture.leaders.markers] == [2] and fixture.state() is S.COMPLETE_COMMIT


# trap: kafkalite/coordinator/transaction/transaction_completion.py: A topic that is too new for the metadata cache is
# taken for deleted, and its marker dropped.
def test_markers_of_deleted_topics_are_dropped_and_those_of_new_ones_are_not() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0)
    fixture.metadata.remove_topics(["t"])
    fixture.owner.end(producer)
    fixture.clock.advance(1)
    # ZooKeeper has the topic, and the cache does not know it yet.
    assert fixture.state() is S.PREPARE_COMMIT and fixture.owner.coordinator.without_leader == 1
    run(fixture.admin.delete("/brokers/topics/t"))
    fixture.clock.advance(1)
    assert fixture.state() is S.COMPLETE_COMMIT and not fixture.leaders.markers


@pytest.mark.parametrize("commit", [True, False])
def test_a_partition_that_a_newer_producer_has_used_needs_no_marker(commit: bool) -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0)
    fixture.leaders.answers = [E.INVALID_PRODUCER_EPOCH]
    fixture.owner.end(producer, commit)
    assert fixture.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


def test_a_fenced_marker_makes_the_coordinator_drop_its_state_partition() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0)
    fixture.leaders.answers = [E.TRANSACTION_COORDINATOR_FENCED]
    fixture.owner.end(producer)
    fixture.clock.advance(10)
    assert fixture.state() is S.PREPARE_COMMIT and len(fixture.leaders.markers) == 1
    assert list(fixture.owner.coordinator._state_manager) == []


# Ownership


def test_a_broker_that_does_not_coordinate_the_id_answers_not_coordinator() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = ProducerIdAndEpoch(1, 1)
    other = fixture.other
    for outcome in (other.init(), other.add(producer), other.end(producer), other.offsets(producer)):
        assert outcome.error is E.NOT_COORDINATOR
    assert run(other.coordinator.find(TX)) == fixture.owner.id
    fixture.opened()
    assert run(other.coordinator.find(TX)) == fixture.owner.id == run(fixture.owner.coordinator.find(TX))
    assert other.init().error is E.NOT_COORDINATOR


def test_a_claim_stays_with_its_holder_when_placement_would_choose_another() -> None:
    fixture = TransactionCoordinatorFixture(1)
    producer = fixture.opened(T0)
    holder = fixture.owner
    # two more brokers start, and placement would choose another one
    for number in (2, 3, 4, 5):
        fixture._live[number] = holder.fixture.metadata.brokers[1].__class__(number, ())
    fixture.metadata.update_brokers(fixture._live)
    holder.coordinator.brokers_changed()
    assert holder.end(producer).error is E.NONE
    assert run(holder.coordinator.find(TX)) == holder.id


def test_a_coordinator_that_stops_names_the_next_one() -> None:
    fixture = TransactionCoordinatorFixture(2)
    fixture.opened(T0)
    stopped, next_one = fixture.owner, fixture.other
    run(stopped.coordinator.stop())
    assert run(stopped.coordinator.find(TX)) == next_one.id


def test_no_broker_is_named_while_no_broker_lives() -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.metadata.update_brokers({})
    assert run(fixture.nodes[1].coordinator.find(TX)) is None


def test_many_requests_wait_for_one_takeover() -> None:
    fixture = TransactionCoordinatorFixture(latency=0.001)
    owner = fixture.owner
    claims: list[str] = []

    def note(name: str, path: str) -> None:
        if name == "multi" and path.endswith("/coordinator"):
            claims.append(path)

    owner.client.before = note
    waiting = [Started(owner.coordinator.find(TX)), *(owner.end(ProducerIdAndEpoch(1, 1)) for _ in range(3))]
    assert not any(outcome.done for outcome in waiting)
    assert Started(_listing(fixture)).error is E.NONE
    fixture.clock.advance(0.005)
    assert Started(_listing(fixture)).error is E.COORDINATOR_LOAD_IN_PROGRESS
    fixture.clock.advance(1)
    assert [outcome.error for outcome in waiting] == [E.NONE, *[E.INVALID_PRODUCER_ID_MAPPING] * 3]
    assert claims == [f"{BASE}/coordinator"]


async def _listing(fixture: TransactionCoordinatorFixture) -> object:
    return fixture.owner.coordinator.list()


# Tools


def test_describe() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0, T1)
    found = run(fixture.owner.coordinator.describe(TX))
    assert (found.state, found.partitions) == (S.ONGOING, frozenset({T0, T1}))
    assert (found.producer_id, found.producer_epoch) == producer
    assert Started(fixture.other.coordinator.describe(TX)).error is E.NOT_COORDINATOR


def test_list_with_filters() -> None:
    fixture = TransactionCoordinatorFixture(1)
    coordinator = fixture.owner.coordinator
    fixture.opened(T0)
    idle = run(coordinator.init_producer_id("idle", 1000))
    fixture.clock.advance(5)
    run(coordinator.init_producer_id("late", 1000))
    late = run(coordinator.describe("late"))
    run(coordinator.add_partitions("late", ProducerIdAndEpoch(late.producer_id, 0), [T1]))
    tx = TransactionListing(TX, 1000, S.ONGOING)
    is_idle = TransactionListing("idle", idle.producer_id, S.EMPTY)
    is_late = TransactionListing("late", late.producer_id, S.ONGOING)

    def listed(*args: object) -> tuple[set[TransactionListing], list[str]]:
        found, unknown = coordinator.list(*args)  # type: ignore[arg-type]
        return set(found), unknown

    assert listed() == ({tx, is_idle, is_late}, [])
    assert listed(["Ongoing"]) == ({tx, is_late}, [])
    assert listed(["Ongoing", "Nonsense"]) == ({tx, is_late}, ["Nonsense"])
    assert listed(["Dead"]) == (set(), [])
    assert listed([], [1000]) == ({tx}, [])
    assert listed(["Empty"], [1000]) == (set(), [])
    # open for longer than so many ms; what never began counts as open for ever, as in Kafka
    assert listed([], [], 4999) == ({tx, is_idle}, [])
    assert listed([], [], 5000) == ({is_idle}, [])
    assert listed(["Ongoing"], [], 0) == ({tx}, [])


def test_verification_by_the_coordinator() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.opened(T0)
    verified = run(fixture.owner.coordinator.verify_partitions(TX, producer, [T0, T1]))
    assert verified == {T0: E.NONE, T1: E.TRANSACTION_ABORTABLE}
