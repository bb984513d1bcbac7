"""The transaction coordinator: claims, the order of writes and answers, and the completion of transactions."""

from __future__ import annotations

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch, TransactionListing
from kafkalite.zk.zk_client import ConnectionLostError, ZkError
from kafkalite.zk.znodes.transactions import NO_TIMEOUT, TransactionState
from tests.coordinator.house import Started, run
from tests.coordinator.transaction.house import BASE, T0, T1, T2, TX, House

S = TransactionState
E = ErrorCode


# A transaction


@pytest.mark.parametrize("commit", [True, False])
def test_from_begin_to_end(commit: bool) -> None:
    house = House()
    owner = house.owner
    producer = owner.init().result
    assert producer == ProducerIdAndEpoch(1000, 0) and house.state() is S.EMPTY
    assert owner.add(producer, T0, T1).error is E.NONE
    assert house.stored().partitions == {T0, T1} and house.state() is S.ONGOING
    assert owner.offsets(producer).error is E.NONE
    assert house.stored().groups == {"g"}
    assert owner.end(producer, commit).error is E.NONE
    assert sorted(house.leaders.told()) == [(T0, commit), (T1, commit)]
    assert {(broker, marker.partitions) for broker, marker in house.leaders.markers} == {(1, (T0,)), (2, (T1,))}
    assert {marker[:2] for _, marker in house.leaders.markers} == {(1000, 0)}
    assert house.groups.calls == [("apply" if commit else "discard", "g", 0)]
    assert house.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert not house.stored().partitions and not house.stored().groups
    # and the next one
    assert owner.add(producer, T2).error is E.NONE
    assert house.stored().partitions == {T2}


def test_the_decision_is_answered_before_the_markers_and_the_next_transaction_waits_for_them() -> None:
    house = House()
    producer = house.opened()
    house.leaders.hold = True
    assert house.owner.end(producer).error is E.NONE
    assert house.state() is S.PREPARE_COMMIT and house.stored().partitions == {T0, T1}
    assert house.owner.add(producer, T2).error is E.CONCURRENT_TRANSACTIONS
    assert house.owner.end(producer).error is E.CONCURRENT_TRANSACTIONS
    assert house.owner.end(producer, commit=False).error is E.INVALID_TXN_STATE
    assert house.owner.init().error is E.CONCURRENT_TRANSACTIONS
    house.leaders.release()
    assert house.state() is S.COMPLETE_COMMIT
    assert house.owner.end(producer).error is E.NONE
    assert house.owner.add(producer, T2).error is E.NONE


def test_offsets_come_before_markers_and_know_when_it_was_decided() -> None:
    house = House()
    producer = house.opened()
    assert house.owner.offsets(producer).error is E.NONE
    house.groups.failures = [ConnectionLostError("/consumers/g")]
    assert house.owner.end(producer).error is E.NONE
    assert not house.leaders.markers and house.state() is S.PREPARE_COMMIT
    decided = house.server.tree.node(f"{BASE}/ids/{TX}").mzxid
    house.clock.advance(0.1)
    assert house.groups.calls == [("apply", "g", 0)] and house.groups.decisions == [decided]
    assert house.leaders.told() and house.state() is S.COMPLETE_COMMIT


def test_a_completion_is_retried_after_an_unexpected_error() -> None:
    house = House()
    producer = house.opened(T0)
    house.owner.offsets(producer)
    house.groups.failures = [ZeroDivisionError(), ZeroDivisionError()]
    house.owner.end(producer)
    house.clock.advance(11)
    assert house.state() is S.COMPLETE_COMMIT


def test_the_completion_ends_when_an_administrator_removes_the_id() -> None:
    house = House()
    producer = house.opened(T0)
    house.leaders.hold = True
    house.owner.end(producer)
    run(house.admin.delete(f"{BASE}/ids/{TX}"))
    house.leaders.release()
    house.clock.advance(5)
    requests = house.owner.client.requests
    house.clock.advance(9)
    assert house.owner.client.requests == requests
    assert house.owner.init().result == ProducerIdAndEpoch(1001, 0)


def test_a_transaction_too_large_for_zookeeper_is_refused_and_can_be_ended() -> None:
    house = House()
    producer = house.opened(T0)

    def refuse(name: str, path: str) -> None:
        if name == "multi":
            raise ZkError(path, "a request of 2000000 bytes")

    house.owner.client.before = refuse
    assert house.owner.add(producer, T1).error is E.UNKNOWN_SERVER_ERROR
    house.owner.client.before = None
    assert house.owner.end(producer, commit=False).error is E.NONE
    assert house.leaders.told() == [(T0, False)]


def test_a_write_in_flight_blocks_other_requests() -> None:
    house = House()
    producer = house.opened()
    house.owner.client.black_hole(apply=True)
    adding = house.owner.add(producer, T2)
    assert not adding.done
    assert house.owner.end(producer).error is E.CONCURRENT_TRANSACTIONS
    assert house.owner.init().error is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("transactional_id", ["", None])
def test_an_empty_transactional_id_is_refused(transactional_id: str) -> None:
    coordinator, producer = House().owner.coordinator, ProducerIdAndEpoch(1, 1)
    for work in (
        coordinator.init_producer_id(transactional_id, 1000),
        coordinator.add_partitions(transactional_id, producer, [T0]),
        coordinator.add_offsets(transactional_id, producer, "g"),
        coordinator.end(transactional_id, producer, commit=True),
        coordinator.describe(transactional_id),
    ):
        assert Started(work).error is E.INVALID_REQUEST


def test_an_unknown_transactional_id_is_refused() -> None:
    owner, producer = House().owner, ProducerIdAndEpoch(1, 1)
    assert owner.add(producer).error is E.INVALID_PRODUCER_ID_MAPPING
    assert owner.offsets(producer).error is E.INVALID_PRODUCER_ID_MAPPING
    assert owner.end(producer).error is E.INVALID_PRODUCER_ID_MAPPING
    assert Started(owner.coordinator.verify_partitions(TX, producer, [T0])).error is E.INVALID_PRODUCER_ID_MAPPING
    assert Started(owner.coordinator.describe(TX)).error is E.TRANSACTIONAL_ID_NOT_FOUND


# Fencing


def test_a_second_producer_fences_the_first_and_aborts_what_it_left() -> None:
    house = House()
    first = house.opened(T0)
    house.owner.offsets(first)
    assert house.owner.init().error is E.CONCURRENT_TRANSACTIONS
    # the marker has an epoch between the two, so that each partition refuses the first producer from now on
    assert [marker[:2] for _, marker in house.leaders.markers] == [(1000, 1)]
    assert house.leaders.told() == [(T0, False)]
    assert house.groups.calls == [("discard", "g", 1), ("discard", "g", 0)]
    assert house.state() is S.COMPLETE_ABORT
    assert house.owner.init().result == ProducerIdAndEpoch(1000, 2)
    for outcome in (house.owner.add(first), house.owner.end(first), house.owner.offsets(first)):
        assert outcome.error is E.PRODUCER_FENCED


def test_exhausted_epochs_give_a_new_producer_id() -> None:
    house = House()
    owner = house.owner
    producer = owner.init().result
    partition = next(iter(owner.coordinator._state_manager))
    entry = partition.entries[TX]
    entry.metadata = entry.metadata.with_(producer_epoch=32766)
    assert owner.init().result == ProducerIdAndEpoch(1001, 0)
    assert owner.add(producer).error is E.INVALID_PRODUCER_ID_MAPPING


def test_two_producers_that_start_at_once_get_different_epochs() -> None:
    house = House()
    waiting: list[Future[int]] = []
    house.producer_ids.held = waiting
    outcomes = [house.owner.init(), house.owner.init()]
    assert len(waiting) == 2 and not any(outcome.done for outcome in outcomes)
    for future in list(waiting):
        house.producer_ids.give(future)
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
    house = House()
    house.config["transaction.two.phase.commit.enable"] = enabled
    assert house.owner.init(timeout_ms=timeout_ms).error is error


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
    house = House()
    producer = house.opened(T0, T1)
    house.leaders.answers = [failure, E.NONE, failure, failure]
    assert house.owner.end(producer).error is E.NONE
    assert house.state() is S.PREPARE_COMMIT and house.stored().partitions == {T0, T1}
    house.clock.advance(1)
    assert house.state() is S.COMPLETE_COMMIT
    # the partition that had acknowledged got no second marker
    assert house.leaders.told().count((T1, True)) == 1


def test_the_leader_is_looked_up_anew_for_each_attempt() -> None:
    house = House()
    producer = house.opened(T0)
    house.lead(T0, -1)
    house.owner.end(producer)
    house.clock.advance(5)
    assert not house.leaders.markers and house.state() is S.PREPARE_COMMIT
    house.lead(T0, 2)
    house.clock.advance(1)
    assert [broker for broker, _ in house.leaders.markers] == [2] and house.state() is S.COMPLETE_COMMIT


# trap: kafkalite/coordinator/transaction/transaction_completion.py: A topic that is too new for the metadata cache is
# taken for deleted, and its marker dropped.
def test_markers_of_deleted_topics_are_dropped_and_those_of_new_ones_are_not() -> None:
    house = House()
    producer = house.opened(T0)
    house.metadata.remove_topics(["t"])
    house.owner.end(producer)
    house.clock.advance(1)
    # ZooKeeper has the topic, and the cache does not know it yet.
    assert house.state() is S.PREPARE_COMMIT
    run(house.admin.delete("/brokers/topics/t"))
    house.clock.advance(1)
    assert house.state() is S.COMPLETE_COMMIT and not house.leaders.markers


@pytest.mark.parametrize("commit", [True, False])
def test_a_partition_that_a_newer_producer_has_used_needs_no_marker(commit: bool) -> None:
    house = House()
    producer = house.opened(T0)
    house.leaders.answers = [E.INVALID_PRODUCER_EPOCH]
    house.owner.end(producer, commit)
    assert house.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


def test_a_fenced_marker_makes_the_coordinator_drop_its_state_partition() -> None:
    house = House()
    producer = house.opened(T0)
    house.leaders.answers = [E.TRANSACTION_COORDINATOR_FENCED]
    house.owner.end(producer)
    house.clock.advance(10)
    assert house.state() is S.PREPARE_COMMIT and len(house.leaders.markers) == 1
    assert list(house.owner.coordinator._state_manager) == []


# Ownership


def test_a_broker_that_does_not_coordinate_the_id_answers_not_coordinator() -> None:
    house = House()
    producer = ProducerIdAndEpoch(1, 1)
    other = house.other
    for outcome in (other.init(), other.add(producer), other.end(producer), other.offsets(producer)):
        assert outcome.error is E.NOT_COORDINATOR
    assert run(other.coordinator.find(TX)) == house.owner.id
    house.opened()
    assert run(other.coordinator.find(TX)) == house.owner.id == run(house.owner.coordinator.find(TX))
    assert other.init().error is E.NOT_COORDINATOR


def test_a_claim_stays_with_its_holder_when_placement_would_choose_another() -> None:
    house = House(1)
    producer = house.opened(T0)
    holder = house.owner
    # two more brokers start, and placement would choose another one
    for number in (2, 3, 4, 5):
        house._live[number] = holder.house.metadata.brokers[1].__class__(number, ())
    house.metadata.update_brokers(house._live)
    holder.coordinator.brokers_changed()
    assert holder.end(producer).error is E.NONE
    assert run(holder.coordinator.find(TX)) == holder.id


def test_a_coordinator_that_stops_names_the_next_one() -> None:
    house = House(2)
    house.opened(T0)
    stopped, next_one = house.owner, house.other
    run(stopped.coordinator.stop())
    assert run(stopped.coordinator.find(TX)) == next_one.id


def test_no_broker_is_named_while_no_broker_lives() -> None:
    house = House()
    house.metadata.update_brokers({})
    assert run(house.nodes[1].coordinator.find(TX)) is None


def test_many_requests_wait_for_one_takeover() -> None:
    house = House(latency=0.001)
    owner = house.owner
    claims: list[str] = []

    def note(name: str, path: str) -> None:
        if name == "multi" and path.endswith("/coordinator"):
            claims.append(path)

    owner.client.before = note
    waiting = [Started(owner.coordinator.find(TX)), *(owner.end(ProducerIdAndEpoch(1, 1)) for _ in range(3))]
    assert not any(outcome.done for outcome in waiting)
    assert Started(_listing(house)).error is E.NONE
    house.clock.advance(0.005)
    assert Started(_listing(house)).error is E.COORDINATOR_LOAD_IN_PROGRESS
    house.clock.advance(1)
    assert [outcome.error for outcome in waiting] == [E.NONE, *[E.INVALID_PRODUCER_ID_MAPPING] * 3]
    assert claims == [f"{BASE}/coordinator"]


async def _listing(house: House) -> object:
    return house.owner.coordinator.list()


# Tools


def test_describe() -> None:
    house = House()
    producer = house.opened(T0, T1)
    found = run(house.owner.coordinator.describe(TX))
    assert (found.state, found.partitions) == (S.ONGOING, {T0, T1})
    assert (found.producer_id, found.producer_epoch) == producer
    assert Started(house.other.coordinator.describe(TX)).error is E.NOT_COORDINATOR


def test_list_with_filters() -> None:
    house = House(1)
    coordinator = house.owner.coordinator
    house.opened(T0)
    idle = run(coordinator.init_producer_id("idle", 1000))
    house.clock.advance(5)
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
    house = House()
    producer = house.opened(T0)
    verified = run(house.owner.coordinator.verify_partitions(TX, producer, [T0, T1]))
    assert verified == {T0: E.NONE, T1: E.TRANSACTION_ABORTABLE}
