"""Transactions that exceed their timeout, and idle transactional ids."""

from __future__ import annotations

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.zk.zk_client import NoNodeError
from kafkalite.zk.znodes.transactions import NO_TIMEOUT, TransactionState
from tests.coordinator.house import Started, run
from tests.coordinator.transaction.house import T0, T1, TX, House

E = ErrorCode
S = TransactionState
DAY = 24 * 3600


def test_a_transaction_beyond_its_timeout_is_fenced_and_aborted() -> None:
    house = House()
    producer = house.owner.init(timeout_ms=25_000).result
    house.owner.add(producer, T0, T1)
    house.owner.offsets(producer)
    house.clock.advance(20.1)
    assert house.state() is S.ONGOING
    house.clock.advance(10)
    assert house.state() is S.COMPLETE_ABORT
    assert {marker[:2] for _, marker in house.leaders.markers} == {(1000, 1)}
    assert house.groups.calls == [("discard", "g", 1), ("discard", "g", 0)]
    assert house.owner.end(producer).error is E.PRODUCER_FENCED
    # It is aborted only once.
    house.clock.advance(60)
    assert house.stored().producer_epoch == 1


def test_the_timeout_of_each_transaction_begins_with_it() -> None:
    house = House()
    producer = house.owner.init(timeout_ms=25_000).result
    for _ in range(5):
        house.owner.add(producer, T0)
        house.clock.advance(20)
        assert house.owner.end(producer).error is E.NONE
    assert all(commit for _, commit in house.leaders.told())


def test_a_two_phase_transaction_has_no_timeout() -> None:
    house = House()
    house.config["transaction.two.phase.commit.enable"] = True
    producer = house.owner.init(timeout_ms=NO_TIMEOUT).result
    house.owner.add(producer, T0)
    house.clock.advance(30 * DAY)
    assert house.state() is S.ONGOING
    # by a client that has its transactional id, producer id and epoch
    assert house.owner.end(ProducerIdAndEpoch(*producer)).error is E.NONE
    assert house.state() is S.COMPLETE_COMMIT


def test_an_administrator_ends_a_prepared_one() -> None:
    house = House()
    house.config["transaction.two.phase.commit.enable"] = True
    producer = house.owner.init(timeout_ms=NO_TIMEOUT).result
    house.owner.add(producer, T0)
    assert house.owner.init(timeout_ms=1).error is E.CONCURRENT_TRANSACTIONS
    assert house.state() is S.COMPLETE_ABORT and house.leaders.told() == [(T0, False)]
    assert house.owner.end(producer).error is E.PRODUCER_FENCED


def test_while_zookeeper_is_away_nothing_times_out_and_afterwards_it_does() -> None:
    house = House()
    producer = house.owner.init(timeout_ms=1000).result
    house.owner.add(producer, T0)
    house.owner.client.lose_connection()
    house.clock.advance(10.1)
    assert house.state() is S.ONGOING and not house.leaders.markers
    house.owner.client.reconnect()
    house.clock.advance(10)
    assert house.state() is S.COMPLETE_ABORT


@pytest.mark.parametrize("ended", [True, False])
def test_idle_ids_expire(ended: bool) -> None:
    house = House()
    producer = house.owner.init().result
    if ended:
        house.owner.add(producer, T0)
        house.owner.end(producer)
    house.clock.advance(7 * DAY - 3600)
    assert house.stored()
    house.clock.advance(2 * 3600)
    with pytest.raises(NoNodeError):
        house.stored()
    assert Started(house.owner.coordinator.describe(TX)).error is E.TRANSACTIONAL_ID_NOT_FOUND
    assert house.owner.add(producer, T0).error is E.INVALID_PRODUCER_ID_MAPPING
    # Its producer may start again, with a new producer id.
    assert house.owner.init().result == ProducerIdAndEpoch(1001, 0)


def test_used_ids_do_not_expire() -> None:
    house = House()
    house.config["transaction.two.phase.commit.enable"] = True
    prepared = run(house.owner.coordinator.init_producer_id(TX, NO_TIMEOUT))
    house.owner.add(prepared, T0)
    house.clock.advance(30 * DAY)
    assert house.state() is S.ONGOING
    house.owner.end(prepared)
    house.clock.advance(6 * DAY)
    assert house.owner.init().error is E.NONE
    house.clock.advance(6 * DAY)
    assert house.stored().producer_epoch == 1


def test_an_id_is_refused_while_it_is_being_removed() -> None:
    house = House()
    house.owner.init()
    house.clock.advance(7 * DAY - 1)
    house.owner.client.black_hole(apply=False)
    house.clock.advance(3600)
    coordinator = house.owner.coordinator
    assert house.owner.init().error is E.CONCURRENT_TRANSACTIONS
    assert Started(coordinator.describe(TX)).error is E.TRANSACTIONAL_ID_NOT_FOUND
    assert coordinator.list() == ([], [])
    house.owner.client.lose_connection()
    house.owner.client.reconnect()
    # The removal failed, so the id is still usable.
    assert run(coordinator.describe(TX)).state is S.EMPTY
    house.clock.advance(3600)
    assert coordinator.list() == ([], [])


def test_a_stopped_coordinator_runs_no_timer() -> None:
    house = House(1)
    producer = house.owner.init(timeout_ms=1000).result
    house.owner.add(producer, T0)
    run(house.owner.coordinator.stop())
    house.clock.advance(30 * DAY)
    assert house.state() is S.ONGOING
