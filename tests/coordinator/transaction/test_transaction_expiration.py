"""Transactions that exceed their timeout, and idle transactional ids."""

from __future__ import annotations

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch, TransactionConfig
from kafkalite.zk.zk_client import NoNodeError
from kafkalite.zk.znodes.transactions import NO_TIMEOUT, TransactionState
from tests.coordinator.transaction.fixtures import T0, T1, TX, TransactionCoordinatorFixture
from tests.support import Started, run

E = ErrorCode
S = TransactionState
DAY = 24 * 3600


def test_a_transaction_beyond_its_timeout_is_fenced_and_aborted() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.owner.init(timeout_ms=25_000).result
    fixture.owner.add(producer, T0, T1)
    fixture.owner.offsets(producer)
    fixture.clock.advance(20.1)
    assert fixture.state() is S.ONGOING
    fixture.clock.advance(10)
    assert fixture.state() is S.COMPLETE_ABORT
    assert {marker[:2] for _, marker in fixture.leaders.markers} == {(1000, 1)}
    assert fixture.groups.calls == [("discard", "g", 1), ("discard", "g", 0)]
    assert fixture.owner.end(producer).error is E.PRODUCER_FENCED
    # It is aborted only once.
    fixture.clock.advance(60)
    assert fixture.stored().producer_epoch == 1


def test_the_timeout_of_each_transaction_begins_with_it() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.owner.init(timeout_ms=25_000).result
    for _ in range(5):
        fixture.owner.add(producer, T0)
        fixture.clock.advance(20)
        assert fixture.owner.end(producer).error is E.NONE
    assert all(commit for _, commit in fixture.leaders.told())


def test_a_two_phase_transaction_has_no_timeout() -> None:
    fixture = TransactionCoordinatorFixture(config=TransactionConfig(two_phase_commit_enable=True))
    producer = fixture.owner.init(timeout_ms=NO_TIMEOUT).result
    fixture.owner.add(producer, T0)
    fixture.clock.advance(30 * DAY)
    assert fixture.state() is S.ONGOING
    # by a client that has its transactional id, producer id and epoch
    assert fixture.owner.end(ProducerIdAndEpoch(*producer)).error is E.NONE
    assert fixture.state() is S.COMPLETE_COMMIT


def test_an_administrator_ends_a_prepared_one() -> None:
    fixture = TransactionCoordinatorFixture(config=TransactionConfig(two_phase_commit_enable=True))
    producer = fixture.owner.init(timeout_ms=NO_TIMEOUT).result
    fixture.owner.add(producer, T0)
    assert fixture.owner.init(timeout_ms=1).error is E.CONCURRENT_TRANSACTIONS
    assert fixture.state() is S.COMPLETE_ABORT and fixture.leaders.told() == [(T0, False)]
    assert fixture.owner.end(producer).error is E.PRODUCER_FENCED


def test_while_zookeeper_is_away_nothing_times_out_and_afterwards_it_does() -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.owner.init(timeout_ms=1000).result
    fixture.owner.add(producer, T0)
    fixture.owner.client.lose_connection()
    fixture.clock.advance(10.1)
    assert fixture.state() is S.ONGOING and not fixture.leaders.markers
    fixture.owner.client.reconnect()
    fixture.clock.advance(10)
    assert fixture.state() is S.COMPLETE_ABORT


@pytest.mark.parametrize("ended", [True, False])
def test_idle_ids_expire(ended: bool) -> None:
    fixture = TransactionCoordinatorFixture()
    producer = fixture.owner.init().result
    if ended:
        fixture.owner.add(producer, T0)
        fixture.owner.end(producer)
    fixture.clock.advance(7 * DAY - 3600)
    assert fixture.state() is (S.COMPLETE_COMMIT if ended else S.EMPTY)
    fixture.clock.advance(2 * 3600)
    with pytest.raises(NoNodeError):
        fixture.stored()
    assert Started(fixture.owner.coordinator.describe(TX)).error is E.TRANSACTIONAL_ID_NOT_FOUND
    assert fixture.owner.add(producer, T0).error is E.INVALID_PRODUCER_ID_MAPPING
    # Its producer may start again, with a new producer id.
    assert fixture.owner.init().result == ProducerIdAndEpoch(1001, 0)


def test_used_ids_do_not_expire() -> None:
    fixture = TransactionCoordinatorFixture(config=TransactionConfig(two_phase_commit_enable=True))
    prepared = run(fixture.owner.coordinator.init_producer_id(TX, NO_TIMEOUT))
    fixture.owner.add(prepared, T0)
    fixture.clock.advance(30 * DAY)
    assert fixture.state() is S.ONGOING
    fixture.owner.end(prepared)
    fixture.clock.advance(6 * DAY)
    assert fixture.owner.init().error is E.NONE
    fixture.clock.advance(6 * DAY)
    assert fixture.stored().producer_epoch == 1


def test_an_id_is_refused_while_it_is_being_removed() -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.owner.init()
    fixture.clock.advance(7 * DAY - 1)
    fixture.owner.client.black_hole(apply=False)
    fixture.clock.advance(3600)
    coordinator = fixture.owner.coordinator
    assert fixture.owner.init().error is E.CONCURRENT_TRANSACTIONS
    assert Started(coordinator.describe(TX)).error is E.TRANSACTIONAL_ID_NOT_FOUND
    assert coordinator.list() == ([], [])
    fixture.owner.client.lose_connection()
    fixture.owner.client.reconnect()
    # The removal failed, so the id is still usable.
    assert run(coordinator.describe(TX)).state is S.EMPTY
    fixture.clock.advance(3600)
    assert coordinator.list() == ([], [])


def test_a_stopped_coordinator_runs_no_timer() -> None:
    fixture = TransactionCoordinatorFixture(1)
    producer = fixture.owner.init(timeout_ms=1000).result
    fixture.owner.add(producer, T0)
    run(fixture.owner.coordinator.stop())
    fixture.clock.advance(30 * DAY)
    assert fixture.state() is S.ONGOING
