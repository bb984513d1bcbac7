"""Coordinators that die or lose their session or connection at each request; and former coordinators."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.zk.stores.paths import ensure
from kafkalite.zk.zk_client import ConnectionLostError, SessionState
from kafkalite.zk.znodes.transactions import TransactionState, ids_path, partition_path, state_partition_for
from tests.coordinator.transaction.fixtures import (
    BASE,
    COUNT,
    NUMBER,
    T0,
    T1,
    T2,
    TX,
    Node,
    TransactionCoordinatorFixture,
)
from tests.support import Started, run

S = TransactionState
E = ErrorCode


def retried(fixture: TransactionCoordinatorFixture, request: Callable[[Node], Started]) -> ErrorCode:
    """The final answer to a client that retries at the current coordinator on each retriable error."""
    again = {E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS, E.CONCURRENT_TRANSACTIONS}
    for _ in range(50):
        number = run(fixture.nodes[min(fixture._live)].coordinator.find(TX))
        assert number is not None
        outcome = request(fixture.nodes[number])
        fixture.clock.advance(0.1)
        error = outcome.error if outcome.done else E.COORDINATOR_NOT_AVAILABLE
        if error not in again:
            return error
    raise AssertionError(f"still {error.name}")


# Orphans


def test_the_next_coordinator_completes_decided_transactions_without_a_request() -> None:
    fixture = TransactionCoordinatorFixture(3)
    producer = fixture.opened(T0, T1)
    fixture.owner.offsets(producer)
    first = fixture.owner
    fixture.leaders.hold = True
    fixture.groups.failures = [OSError()]
    fixture.leaders.held.clear()
    assert first.end(producer).error is E.NONE
    fixture.leaders.hold = False
    first.die()
    second = fixture.owner
    assert second is not first
    assert [len(node.coordinator.loads) for node in (first, second)] == [1, 1]
    assert fixture.state() is S.COMPLETE_COMMIT
    assert sorted(fixture.leaders.told()) == [(T0, True), (T1, True)]
    assert fixture.groups.calls == [("apply", "g", 0)]
    # under a greater epoch, so that markers of the former coordinator would be refused
    assert {marker.coordinator_epoch for _, marker in fixture.leaders.markers} == {2}
    assert fixture.groups.claims[0].broker_id == second.id
    assert second.add(producer, T2).error is E.NONE


def test_a_state_partition_is_loaded_once_for_a_request_and_an_orphan_search(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for steps in range(60):
        fixture = TransactionCoordinatorFixture(1, latency=0.01)
        fixture.clock.advance(2)
        caplog.clear()
        started = fixture.nodes[1].init()
        fixture.clock.advance(steps * 0.005)
        fixture.brokers_changed()
        fixture.clock.advance(2)
        assert started.error is E.NONE
        loads = [record for record in caplog.messages if record.startswith("coordinates transaction state partition")]
        assert len(loads) == 1, f"orphans were looked for {steps * 5} ms after the request"


def test_an_open_transaction_continues_at_the_next_coordinator() -> None:
    fixture = TransactionCoordinatorFixture(3)
    producer = fixture.opened(T0)
    fixture.owner.die()
    assert fixture.owner.add(producer, T1).error is E.NONE
    assert fixture.stored().partitions == {T0, T1}
    assert fixture.owner.end(producer).error is E.NONE
    assert fixture.state() is S.COMPLETE_COMMIT


def test_an_open_transaction_times_out_at_the_next_coordinator_without_a_request() -> None:
    fixture = TransactionCoordinatorFixture(3)
    fixture.opened(T0)
    fixture.owner.die()
    assert run(fixture.owner.coordinator.describe(TX)).state is S.ONGOING
    fixture.clock.advance(60)
    assert fixture.state() is S.ONGOING
    fixture.clock.advance(10.1)
    assert fixture.state() is S.COMPLETE_ABORT and fixture.leaders.told() == [(T0, False)]


def test_a_stopping_coordinator_releases_its_claims() -> None:
    fixture = TransactionCoordinatorFixture(3)
    producer = fixture.opened(T0)
    first = fixture.owner
    run(first.coordinator.stop())
    assert run(first.claims.holder(BASE)) is None
    # While it is registered no other broker takes over; afterwards the next one does at once.
    assert first.add(producer, T1).error is E.NOT_COORDINATOR
    fixture.broker_gone(first.id)
    assert run(first.claims.holder(BASE)) == fixture.owner.id


@pytest.mark.parametrize("is_lost", [False, True], ids=["well", "connection lost"])
def test_a_takeover_that_ends_after_the_stop_releases_its_claim(
    is_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fixture = TransactionCoordinatorFixture(1)
    node = fixture.owner
    seen: list[str] = []

    def stop_in_the_load(name: str, path: str) -> None:
        if name == "get_children" and path == ids_path(NUMBER):
            Started(node.coordinator.stop())
        elif name == "multi" and node.coordinator._state_manager._closed:
            seen.append(path)
            if is_lost and len(seen) == 2:
                raise ConnectionLostError(path)

    node.client.before = stop_in_the_load
    assert node.init().error is not E.NONE
    assert len(seen) == 2, "the claim is confirmed, then released"
    assert run(node.claims.holder(BASE)) == (node.id if is_lost else None)
    told = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert not told, "a lost connection is no error of the program; the claim ends with the session"
    assert is_lost == any(
        line.startswith(f"transaction state partition {NUMBER} was not released") for line in caplog.messages
    )


def test_the_preferred_broker_sees_a_claim_end_while_its_holder_lives() -> None:
    fixture = TransactionCoordinatorFixture(2)
    fixture.opened(T0, node=fixture.owner)
    holder, other = fixture.owner, fixture.other
    # A broker that placement prefers starts, and watches the claim of the holder.
    candidates = [number for number in range(10, 60) if _prefers(fixture, number)]
    number = candidates[0]
    fixture._live[number] = fixture.metadata.brokers[1].__class__(number, ())
    fixture.metadata.update_brokers(fixture._live)
    fixture.nodes[number] = Node(fixture, number)
    assert run(other.claims.holder(BASE)) == holder.id
    run(holder.coordinator.stop())
    assert run(other.claims.holder(BASE)) == number


def _prefers(fixture: TransactionCoordinatorFixture, number: int) -> bool:
    from kafkalite.coordinator.placement import preferred

    return preferred(BASE, [*fixture._live, number]) == number


def test_state_partitions_without_ids_are_not_claimed() -> None:
    fixture = TransactionCoordinatorFixture(3)
    run(fixture.owner.store.prepare(0))
    fixture.brokers_changed()
    assert run(fixture.owner.claims.holder("/transactions/0")) is None


def test_a_cluster_without_transactions_is_read_once() -> None:
    fixture = TransactionCoordinatorFixture(2)
    before = fixture.owner.client.requests
    fixture.brokers_changed()
    assert fixture.owner.client.requests - before == 1
    assert not fixture.server.paths("/transactions")


# Sessions


def test_claims_of_an_expired_session_are_taken_again_unless_another_broker_has_them() -> None:
    fixture = TransactionCoordinatorFixture(1)
    producer = fixture.opened(T0)
    owner = fixture.owner
    fixture.leaders.hold = True
    assert owner.end(producer).error is E.NONE
    owner.client.expire_session()
    # connected again in a new session, it searches for orphans and finds its own
    assert run(owner.claims.holder(BASE)) == owner.id
    fixture.leaders.release()
    fixture.clock.advance(1)
    assert fixture.state() is S.COMPLETE_COMMIT
    # the marker of the first claim arrived late; that of the second claim has a greater epoch
    assert [marker.coordinator_epoch for _, marker in fixture.leaders.markers] == [1, 2]


# trap: kafkalite/coordinator/transaction/transaction_state_manager.py: A claim whose loading was cut short is an
# orphan, which only its holder can take over.
def test_a_takeover_that_a_lost_connection_interrupted_is_completed() -> None:
    fixture = TransactionCoordinatorFixture(2)
    producer = fixture.opened(T0)
    fixture.leaders.hold = True
    assert fixture.owner.end(producer).error is E.NONE
    first, second = fixture.owner, fixture.other

    def after_the_claim(name: str, path: str) -> None:
        if name == "get_children" and path == ids_path(NUMBER) and f"{BASE}/coordinator" in fixture.server.paths():
            second.client.before = None
            second.client.lose_connection()
            raise ConnectionLostError(path)

    second.client.before = after_the_claim
    fixture.leaders.hold = False
    first.die()
    assert fixture.state() is S.PREPARE_COMMIT
    # The claim outlives the connection, so no other broker can take over, and no request comes.
    second.client.reconnect()
    fixture.clock.advance(1)
    assert fixture.state() is S.COMPLETE_COMMIT


def test_orphans_are_searched_once_after_a_lost_connection() -> None:
    fixture = TransactionCoordinatorFixture(2)
    fixture.opened(T0)
    fixture.brokers_changed()
    assert fixture.other.client._data_watches
    before = fixture.other.client.requests
    fixture.other.client.lose_connection()
    assert fixture.other.client.requests == before
    fixture.other.client.reconnect()
    assert fixture.other.client.requests > before


def test_a_zombie_cannot_write() -> None:
    fixture = TransactionCoordinatorFixture(2)
    producer = fixture.opened(T0)
    zombie = fixture.owner
    # It is paused: its session expires and another broker takes over without its knowledge.
    listeners, zombie.client._listeners = zombie.client._listeners, []
    session = zombie.client.session
    fixture.server.expire(session)
    zombie.client.session = session
    fixture.broker_gone(zombie.id)
    assert run(fixture.owner.coordinator.describe(TX)).state is S.ONGOING
    before = fixture.stored()
    assert zombie.end(producer).error in (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE)
    assert fixture.stored() == before and not fixture.leaders.markers
    zombie.client._listeners = listeners


# trap: kafkalite/coordinator/transaction/transaction_state_manager.py: A coordinator that lost its claim decides a
# transaction.
def test_a_former_coordinator_with_a_live_session_cannot_write() -> None:
    fixture = TransactionCoordinatorFixture(2)
    producer = fixture.opened(T0)
    zombie, other = fixture.owner, fixture.other
    # An administrator removed its claim and another broker took it, so the epoch has increased.
    run(fixture.admin.delete(f"{BASE}/coordinator"))
    assert run(other.claims.claim(BASE, other.id)) is not None
    assert zombie.end(producer).error is E.NOT_COORDINATOR
    assert fixture.state() is S.ONGOING and not fixture.leaders.markers
    assert list(zombie.coordinator._state_manager) == []
    assert zombie.end(producer).error is E.NOT_COORDINATOR


# The connection


REQUESTS: dict[str, tuple[Callable[[Node, ProducerIdAndEpoch], Started], S]] = {
    "add": (lambda node, producer: node.add(producer, T1), S.ONGOING),
    "offsets": (lambda node, producer: node.offsets(producer), S.ONGOING),
    "commit": (lambda node, producer: node.end(producer, True), S.COMPLETE_COMMIT),
    "abort": (lambda node, producer: node.end(producer, False), S.COMPLETE_ABORT),
}


# trap: kafkalite/coordinator/transaction/transaction_state_manager.py: A write whose answer is lost is taken for
# refused, or for made.
@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_lost_answer_of_a_write_is_resolved(name: str, applied: bool) -> None:
    fixture = TransactionCoordinatorFixture(2)
    producer = fixture.opened(T0)
    request, then = REQUESTS[name]
    owner = fixture.owner
    before = fixture.stored()
    owner.client.black_hole(apply=applied)
    outcome = request(owner, producer)
    assert not outcome.done and (fixture.stored() != before) is applied
    owner.client.lose_connection()
    assert outcome.error is E.COORDINATOR_NOT_AVAILABLE
    assert request(owner, producer).error is E.COORDINATOR_NOT_AVAILABLE
    owner.client.reconnect()
    assert retried(fixture, lambda node: request(node, producer)) is E.NONE
    fixture.clock.advance(1)
    assert fixture.state() is then
    assert fixture.stored().partitions == ({T0, T1} if name == "add" else {T0} if name == "offsets" else set())
    assert fixture.leaders.told() == ([] if then is S.ONGOING else [(T0, name == "commit")])


@pytest.mark.parametrize("applied", [True, False])
def test_a_decision_with_a_lost_answer_is_resolved_without_its_client(applied: bool) -> None:
    fixture = TransactionCoordinatorFixture(2)
    producer = fixture.opened(T0)
    owner = fixture.owner
    owner.client.black_hole(apply=applied)
    owner.end(producer)
    owner.client.lose_connection()
    owner.client.reconnect()
    # No request comes: the timeout check finds the decision, or the transaction times out.
    fixture.clock.advance(71)
    assert fixture.state() is (S.COMPLETE_COMMIT if applied else S.COMPLETE_ABORT)
    assert fixture.leaders.told() == [(T0, applied)]


def test_a_first_init_with_a_lost_answer() -> None:
    for applied in (True, False):
        fixture = TransactionCoordinatorFixture(2)
        owner = fixture.owner
        assert Started(owner.coordinator.init_producer_id("warm", 1000)).done
        run(owner.store.prepare(1))
        outcome = fixture.opened(T2, node=owner)
        assert outcome.producer_epoch == 0
        owner.client.black_hole(apply=applied)
        lost = owner.init()
        owner.client.lose_connection()
        assert lost.error is E.COORDINATOR_NOT_AVAILABLE
        owner.client.reconnect()
        assert retried(fixture, lambda node: node.init()) is E.NONE
        # epochs never decrease, and no epoch is given twice
        assert fixture.stored().producer_epoch == 2


@pytest.mark.parametrize("applied", [True, False])
def test_the_next_init_creates_an_id_whose_first_write_was_lost(applied: bool) -> None:
    fixture = TransactionCoordinatorFixture(2)
    owner = fixture.owner
    neighbour = next(name for name in map(str, range(100)) if state_partition_for(name, COUNT) == NUMBER)
    assert Started(owner.coordinator.init_producer_id(neighbour, 1000)).error is E.NONE
    owner.client.black_hole(apply=applied)
    lost = owner.init()
    owner.client.lose_connection()
    assert lost.error is E.COORDINATOR_NOT_AVAILABLE
    owner.client.reconnect()
    assert owner.init().error is E.NONE, "a producer takes INVALID_PRODUCER_ID_MAPPING for the end of its id"
    assert fixture.stored().producer_epoch == (1 if applied else 0)


# trap: kafkalite/coordinator/transaction/transaction_completion.py: While ZooKeeper is away, the coordinator would send
# the same markers for ever.
@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_the_complete_write_with_a_lost_answer_is_resolved(commit: bool, applied: bool) -> None:
    fixture = TransactionCoordinatorFixture(2)
    producer = fixture.opened(T0)
    owner = fixture.owner
    fixture.leaders.hold = True
    assert owner.end(producer, commit).error is E.NONE
    owner.client.black_hole(apply=applied)
    fixture.leaders.release()
    owner.client.lose_connection()
    fixture.clock.advance(1)
    assert (owner.coordinator.repeated_completions, owner.coordinator.without_leader) == (1, 0)
    owner.client.reconnect()
    fixture.clock.advance(2)
    assert owner.coordinator.repeated_completions == 0
    assert fixture.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert set(fixture.leaders.told()) == {(T0, commit)}
    # and no marker was sent again while ZooKeeper was away
    assert len(fixture.leaders.told()) == 1
    assert owner.end(producer, commit).error is E.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_next_transaction_is_decided_before_the_last_write_is_known(commit: bool) -> None:
    """The completion of the former decision finds the next one, which needs markers of its own."""
    fixture = TransactionCoordinatorFixture(2)
    producer = fixture.opened(T0)
    owner = fixture.owner
    fixture.leaders.hold = True
    assert owner.end(producer).error is E.NONE
    owner.client.black_hole(apply=True)
    fixture.leaders.release()
    owner.client.lose_connection()
    fixture.clock.advance(0.5)
    owner.client.reconnect()
    # No time passes: the completion of the former decision still waits for its next attempt.
    assert owner.add(producer, T1).error is E.NONE
    assert owner.offsets(producer).error is E.NONE
    assert owner.end(producer, commit).error is E.NONE
    fixture.clock.advance(5)
    assert fixture.leaders.told() == [(T0, True), (T1, commit)]
    assert fixture.groups.calls == [("apply" if commit else "discard", "g", 0)]
    assert fixture.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


# Interruptions: the coordinator dies or loses its session at its n-th ZooKeeper request


def life(fixture: TransactionCoordinatorFixture) -> list[ErrorCode]:
    """A producer that begins, writes to two partitions, sends offsets and commits, and retries after each error."""
    producers: list[ProducerIdAndEpoch] = []

    def init(node: Node) -> Started:
        outcome = node.init()
        if outcome.results:
            producers.append(outcome.result)
        return outcome

    told = [retried(fixture, init)]
    producer = producers[-1]
    told.append(retried(fixture, lambda node: node.add(producer, T0)))
    told.append(retried(fixture, lambda node: node.add(producer, T1)))
    told.append(retried(fixture, lambda node: node.offsets(producer)))
    told.append(retried(fixture, lambda node: node.end(producer)))
    fixture.clock.advance(2)
    return told


def requests_of_a_life() -> int:
    fixture = TransactionCoordinatorFixture(2)
    before = fixture.owner.client.requests
    life(fixture)
    return fixture.owner.client.requests - before


# trap: kafkalite/coordinator/transaction/transaction_completion.py: A coordinator dies between the decision and the
# markers: the next one finishes the transaction.
@pytest.mark.parametrize("at", range(requests_of_a_life()))
@pytest.mark.parametrize("how", ["dies before", "dies after", "session"])
def test_a_transaction_survives_its_coordinator_at_every_step(how: str, at: int) -> None:
    fixture = TransactionCoordinatorFixture(3)
    victim = fixture.owner
    seen = 0

    def strike(name: str, path: str) -> None:  # noqa: ARG001
        nonlocal seen
        seen += 1
        if seen != at + 1:
            return
        victim.client.before = None
        if how == "session":
            fixture.clock.call_later(0, victim.client.expire_session)
        elif how == "dies after":
            fixture.clock.call_later(0, die)
        else:
            die()

    def die() -> None:
        victim.client.close()
        Started(victim.coordinator.stop())
        fixture.broker_gone(victim.id)

    victim.client.before = strike
    assert life(fixture) == [E.NONE] * 5
    assert fixture.state() is S.COMPLETE_COMMIT
    assert set(fixture.leaders.told()) == {(T0, True), (T1, True)}
    assert {call[:2] for call in fixture.groups.calls} == {("apply", "g")}
    assert not fixture.stored().partitions and not fixture.stored().groups


def test_a_suspended_session_keeps_the_claims() -> None:
    fixture = TransactionCoordinatorFixture(2)
    fixture.opened(T0)
    owner = fixture.owner
    owner.client.lose_connection()
    assert owner.client.state is SessionState.SUSPENDED
    assert [found.state for (found,) in [(run(owner.coordinator.describe(TX)),)]] == [S.ONGOING]


def test_a_malformed_claim_does_not_prevent_the_takeover_of_other_state_partitions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture = TransactionCoordinatorFixture(2)
    run(fixture.nodes[1].store.count())
    for number in range(3):
        run(ensure(fixture.admin, f"{ids_path(number)}/left"))
    run(fixture.admin.create(f"{partition_path(1)}/coordinator", b"rubbish"))
    fixture.brokers_changed()
    fixture.clock.advance(1)
    assert [run(fixture.nodes[1].claims.holder(partition_path(number))) is not None for number in (0, 2)] == [
        True,
        True,
    ]
    assert f"{partition_path(1)}/coordinator: not JSON" in caplog.text
