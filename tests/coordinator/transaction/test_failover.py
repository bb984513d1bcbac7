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
from tests.coordinator.house import Started, run
from tests.coordinator.transaction.house import BASE, COUNT, NUMBER, T0, T1, T2, TX, House, Node

S = TransactionState
E = ErrorCode


def retried(house: House, request: Callable[[Node], Started]) -> ErrorCode:
    """The final answer to a client that retries at the current coordinator on each retriable error."""
    again = {E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS, E.CONCURRENT_TRANSACTIONS}
    for _ in range(50):
        number = run(house.nodes[min(house._live)].coordinator.find(TX))
        outcome = request(house.nodes[number])
        house.clock.advance(0.1)
        error = outcome.error if outcome.done else E.COORDINATOR_NOT_AVAILABLE
        if error not in again:
            return error
    raise AssertionError(f"still {error.name}")


# Orphans


def test_the_next_coordinator_completes_decided_transactions_without_a_request() -> None:
    house = House(3)
    producer = house.opened(T0, T1)
    house.owner.offsets(producer)
    first = house.owner
    house.leaders.hold = True
    house.groups.failures = [OSError()]
    house.leaders.held.clear()
    assert first.end(producer).error is E.NONE
    house.leaders.hold = False
    first.die()
    second = house.owner
    assert second is not first
    assert house.state() is S.COMPLETE_COMMIT
    assert sorted(house.leaders.told()) == [(T0, True), (T1, True)]
    assert house.groups.calls == [("apply", "g", 0)]
    # under a greater epoch, so that markers of the former coordinator would be refused
    assert {marker.coordinator_epoch for _, marker in house.leaders.markers} == {2}
    assert house.groups.claims[0].broker_id == second.id
    assert second.add(producer, T2).error is E.NONE


def test_a_state_partition_is_loaded_once_for_a_request_and_an_orphan_search(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for steps in range(60):
        house = House(1, latency=0.01)
        house.clock.advance(2)
        caplog.clear()
        started = house.nodes[1].init()
        house.clock.advance(steps * 0.005)
        house.brokers_changed()
        house.clock.advance(2)
        assert started.error is E.NONE
        loads = [record for record in caplog.messages if record.startswith("coordinates transaction state partition")]
        assert len(loads) == 1, f"orphans were looked for {steps * 5} ms after the request"


def test_an_open_transaction_continues_at_the_next_coordinator() -> None:
    house = House(3)
    producer = house.opened(T0)
    house.owner.die()
    assert house.owner.add(producer, T1).error is E.NONE
    assert house.stored().partitions == {T0, T1}
    assert house.owner.end(producer).error is E.NONE
    assert house.state() is S.COMPLETE_COMMIT


def test_an_open_transaction_times_out_at_the_next_coordinator_without_a_request() -> None:
    house = House(3)
    house.opened(T0)
    house.owner.die()
    assert run(house.owner.coordinator.describe(TX)).state is S.ONGOING
    house.clock.advance(60)
    assert house.state() is S.ONGOING
    house.clock.advance(10.1)
    assert house.state() is S.COMPLETE_ABORT and house.leaders.told() == [(T0, False)]


def test_a_stopping_coordinator_releases_its_claims() -> None:
    house = House(3)
    producer = house.opened(T0)
    first = house.owner
    run(first.coordinator.stop())
    assert run(first.claims.holder(BASE)) is None
    # While it is registered no other broker takes over; afterwards the next one does at once.
    assert first.add(producer, T1).error is E.NOT_COORDINATOR
    house.broker_gone(first.id)
    assert run(first.claims.holder(BASE)) == house.owner.id


@pytest.mark.parametrize("is_lost", [False, True], ids=["well", "connection lost"])
def test_a_takeover_that_ends_after_the_stop_releases_its_claim(
    is_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    house = House(1)
    node = house.owner
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
    house = House(2)
    house.opened(T0, node=house.owner)
    holder, other = house.owner, house.other
    # A broker that placement prefers starts, and watches the claim of the holder.
    candidates = [number for number in range(10, 60) if _prefers(house, number)]
    number = candidates[0]
    house._live[number] = house.metadata.brokers[1].__class__(number, ())
    house.metadata.update_brokers(house._live)
    house.nodes[number] = Node(house, number)
    assert run(other.claims.holder(BASE)) == holder.id
    run(holder.coordinator.stop())
    assert run(other.claims.holder(BASE)) == number


def _prefers(house: House, number: int) -> bool:
    from kafkalite.coordinator.placement import preferred

    return preferred(BASE, [*house._live, number]) == number


def test_state_partitions_without_ids_are_not_claimed() -> None:
    house = House(3)
    run(house.owner.store.prepare(0))
    house.brokers_changed()
    assert run(house.owner.claims.holder("/transactions/0")) is None


def test_a_cluster_without_transactions_is_read_once() -> None:
    house = House(2)
    before = house.owner.client.requests
    house.brokers_changed()
    assert house.owner.client.requests - before == 1
    assert not house.server.paths("/transactions")


# Sessions


def test_claims_of_an_expired_session_are_taken_again_unless_another_broker_has_them() -> None:
    house = House(1)
    producer = house.opened(T0)
    owner = house.owner
    house.leaders.hold = True
    assert owner.end(producer).error is E.NONE
    owner.client.expire_session()
    # connected again in a new session, it searches for orphans and finds its own
    assert run(owner.claims.holder(BASE)) == owner.id
    house.leaders.release()
    house.clock.advance(1)
    assert house.state() is S.COMPLETE_COMMIT
    # the marker of the first claim arrived late; that of the second claim has a greater epoch
    assert [marker.coordinator_epoch for _, marker in house.leaders.markers] == [1, 2]


# trap: kafkalite/coordinator/transaction/transaction_state_manager.py: A claim whose loading was cut short is an
# orphan, which only its holder can take over.
def test_a_takeover_that_a_lost_connection_interrupted_is_completed() -> None:
    house = House(2)
    producer = house.opened(T0)
    house.leaders.hold = True
    assert house.owner.end(producer).error is E.NONE
    first, second = house.owner, house.other

    def after_the_claim(name: str, path: str) -> None:
        if name == "get_children" and path == ids_path(NUMBER) and f"{BASE}/coordinator" in house.server.paths():
            second.client.before = None
            second.client.lose_connection()
            raise ConnectionLostError(path)

    second.client.before = after_the_claim
    house.leaders.hold = False
    first.die()
    assert house.state() is S.PREPARE_COMMIT
    # The claim outlives the connection, so no other broker can take over, and no request comes.
    second.client.reconnect()
    house.clock.advance(1)
    assert house.state() is S.COMPLETE_COMMIT


def test_orphans_are_searched_once_after_a_lost_connection() -> None:
    house = House(2)
    house.opened(T0)
    house.brokers_changed()
    assert house.other.client._data_watches
    before = house.other.client.requests
    house.other.client.lose_connection()
    assert house.other.client.requests == before
    house.other.client.reconnect()
    assert house.other.client.requests > before


def test_a_zombie_cannot_write() -> None:
    house = House(2)
    producer = house.opened(T0)
    zombie = house.owner
    # It is paused: its session expires and another broker takes over without its knowledge.
    listeners, zombie.client._listeners = zombie.client._listeners, []
    session = zombie.client.session
    house.server.expire(session)
    zombie.client.session = session
    house.broker_gone(zombie.id)
    assert run(house.owner.coordinator.describe(TX)).state is S.ONGOING
    before = house.stored()
    assert zombie.end(producer).error in (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE)
    assert house.stored() == before and not house.leaders.markers
    zombie.client._listeners = listeners


# trap: kafkalite/coordinator/transaction/transaction_state_manager.py: A coordinator that lost its claim decides a
# transaction.
def test_a_former_coordinator_with_a_live_session_cannot_write() -> None:
    house = House(2)
    producer = house.opened(T0)
    zombie, other = house.owner, house.other
    # An administrator removed its claim and another broker took it, so the epoch has increased.
    run(house.admin.delete(f"{BASE}/coordinator"))
    assert run(other.claims.claim(BASE, other.id)) is not None
    assert zombie.end(producer).error is E.NOT_COORDINATOR
    assert house.state() is S.ONGOING and not house.leaders.markers
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
    house = House(2)
    producer = house.opened(T0)
    request, then = REQUESTS[name]
    owner = house.owner
    before = house.stored()
    owner.client.black_hole(apply=applied)
    outcome = request(owner, producer)
    assert not outcome.done and (house.stored() != before) is applied
    owner.client.lose_connection()
    assert outcome.error is E.COORDINATOR_NOT_AVAILABLE
    assert request(owner, producer).error is E.COORDINATOR_NOT_AVAILABLE
    owner.client.reconnect()
    assert retried(house, lambda node: request(node, producer)) is E.NONE
    house.clock.advance(1)
    assert house.state() is then
    assert house.stored().partitions == ({T0, T1} if name == "add" else {T0} if name == "offsets" else set())
    assert house.leaders.told() == ([] if then is S.ONGOING else [(T0, name == "commit")])


@pytest.mark.parametrize("applied", [True, False])
def test_a_decision_with_a_lost_answer_is_resolved_without_its_client(applied: bool) -> None:
    house = House(2)
    producer = house.opened(T0)
    owner = house.owner
    owner.client.black_hole(apply=applied)
    owner.end(producer)
    owner.client.lose_connection()
    owner.client.reconnect()
    # No request comes: the timeout check finds the decision, or the transaction times out.
    house.clock.advance(71)
    assert house.state() is (S.COMPLETE_COMMIT if applied else S.COMPLETE_ABORT)
    assert house.leaders.told() == [(T0, applied)]


def test_a_first_init_with_a_lost_answer() -> None:
    for applied in (True, False):
        house = House(2)
        owner = house.owner
        assert Started(owner.coordinator.init_producer_id("warm", 1000)).done
        run(owner.store.prepare(1))
        outcome = house.opened(T2, node=owner)
        assert outcome.producer_epoch == 0
        owner.client.black_hole(apply=applied)
        lost = owner.init()
        owner.client.lose_connection()
        assert lost.error is E.COORDINATOR_NOT_AVAILABLE
        owner.client.reconnect()
        assert retried(house, lambda node: node.init()) is E.NONE
        # epochs never decrease, and no epoch is given twice
        assert house.stored().producer_epoch == 2


@pytest.mark.parametrize("applied", [True, False])
def test_the_next_init_creates_an_id_whose_first_write_was_lost(applied: bool) -> None:
    house = House(2)
    owner = house.owner
    neighbour = next(name for name in map(str, range(100)) if state_partition_for(name, COUNT) == NUMBER)
    assert Started(owner.coordinator.init_producer_id(neighbour, 1000)).error is E.NONE
    owner.client.black_hole(apply=applied)
    lost = owner.init()
    owner.client.lose_connection()
    assert lost.error is E.COORDINATOR_NOT_AVAILABLE
    owner.client.reconnect()
    assert owner.init().error is E.NONE, "a producer takes INVALID_PRODUCER_ID_MAPPING for the end of its id"
    assert house.stored().producer_epoch == (1 if applied else 0)


# trap: kafkalite/coordinator/transaction/transaction_completion.py: While ZooKeeper is away, the coordinator would send
# the same markers for ever.
@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_the_complete_write_with_a_lost_answer_is_resolved(commit: bool, applied: bool) -> None:
    house = House(2)
    producer = house.opened(T0)
    owner = house.owner
    house.leaders.hold = True
    assert owner.end(producer, commit).error is E.NONE
    owner.client.black_hole(apply=applied)
    house.leaders.release()
    owner.client.lose_connection()
    house.clock.advance(1)
    owner.client.reconnect()
    house.clock.advance(2)
    assert house.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert set(house.leaders.told()) == {(T0, commit)}
    # and no marker was sent again while ZooKeeper was away
    assert len(house.leaders.told()) == 1
    assert owner.end(producer, commit).error is E.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_next_transaction_is_decided_before_the_last_write_is_known(commit: bool) -> None:
    """The completion of the former decision finds the next one, which needs markers of its own."""
    house = House(2)
    producer = house.opened(T0)
    owner = house.owner
    house.leaders.hold = True
    assert owner.end(producer).error is E.NONE
    owner.client.black_hole(apply=True)
    house.leaders.release()
    owner.client.lose_connection()
    house.clock.advance(0.5)
    owner.client.reconnect()
    # No time passes: the completion of the former decision still waits for its next attempt.
    assert owner.add(producer, T1).error is E.NONE
    assert owner.offsets(producer).error is E.NONE
    assert owner.end(producer, commit).error is E.NONE
    house.clock.advance(5)
    assert house.leaders.told() == [(T0, True), (T1, commit)]
    assert house.groups.calls == [("apply" if commit else "discard", "g", 0)]
    assert house.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


# Interruptions: the coordinator dies or loses its session at its n-th ZooKeeper request


def life(house: House) -> list[ErrorCode]:
    """A producer that begins, writes to two partitions, sends offsets and commits, and retries after each error."""
    producers: list[ProducerIdAndEpoch] = []

    def init(node: Node) -> Started:
        outcome = node.init()
        if outcome.results:
            producers.append(outcome.result)
        return outcome

    told = [retried(house, init)]
    producer = producers[-1]
    told.append(retried(house, lambda node: node.add(producer, T0)))
    told.append(retried(house, lambda node: node.add(producer, T1)))
    told.append(retried(house, lambda node: node.offsets(producer)))
    told.append(retried(house, lambda node: node.end(producer)))
    house.clock.advance(2)
    return told


def requests_of_a_life() -> int:
    house = House(2)
    before = house.owner.client.requests
    life(house)
    return house.owner.client.requests - before


# trap: kafkalite/coordinator/transaction/transaction_completion.py: A coordinator dies between the decision and the
# markers: the next one finishes the transaction.
@pytest.mark.parametrize("at", range(requests_of_a_life()))
@pytest.mark.parametrize("how", ["dies before", "dies after", "session"])
def test_a_transaction_survives_its_coordinator_at_every_step(how: str, at: int) -> None:
    house = House(3)
    victim = house.owner
    seen = 0

    def strike(name: str, path: str) -> None:  # noqa: ARG001
        nonlocal seen
        seen += 1
        if seen != at + 1:
            return
        victim.client.before = None
        if how == "session":
            house.clock.call_later(0, victim.client.expire_session)
        elif how == "dies after":
            house.clock.call_later(0, die)
        else:
            die()

    def die() -> None:
        victim.client.close()
        Started(victim.coordinator.stop())
        house.broker_gone(victim.id)

    victim.client.before = strike
    assert life(house) == [E.NONE] * 5
    assert house.state() is S.COMPLETE_COMMIT
    assert set(house.leaders.told()) == {(T0, True), (T1, True)}
    assert {call[:2] for call in house.groups.calls} == {("apply", "g")}
    assert not house.stored().partitions and not house.stored().groups


def test_a_suspended_session_keeps_the_claims() -> None:
    house = House(2)
    house.opened(T0)
    owner = house.owner
    owner.client.lose_connection()
    assert owner.client.state is SessionState.SUSPENDED
    assert [found.state for (found,) in [(run(owner.coordinator.describe(TX)),)]] == [S.ONGOING]


def test_a_malformed_claim_does_not_prevent_the_takeover_of_other_state_partitions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(2)
    run(house.nodes[1].store.count())
    for number in range(3):
        run(ensure(house.admin, f"{ids_path(number)}/left"))
    run(house.admin.create(f"{partition_path(1)}/coordinator", b"rubbish"))
    house.brokers_changed()
    house.clock.advance(1)
    assert [run(house.nodes[1].claims.holder(partition_path(number))) is not None for number in (0, 2)] == [True, True]
    assert f"{partition_path(1)}/coordinator: not JSON" in caplog.text
