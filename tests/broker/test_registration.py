"""A broker is in /brokers/ids in every session, and gives up only where another live session holds its id."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from twisted.python.failure import Failure

from kafkalite.broker.registration import Registration
from kafkalite.cluster.model import Broker, Endpoint
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.stores.brokers import BrokerStore
from kafkalite.zk.zk_client import ConnectionLostError, ZkError

BROKER = Broker(1, (Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092),))


class RegistrationFixture:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.zookeeper = MemoryZooKeeper()
        self.client = self.zookeeper.client()
        self.registered: list[tuple[int, int]] = []
        self.refused: list[StartupError] = []
        self.fails: list[Exception] = []
        self.registration = Registration(
            self.client,
            BrokerStore(self.client, self.clock, conflict_wait=5.0),
            self.clock,
            BROKER,
            self._on_registered,
            self.refused.append,
        )

    async def _on_registered(self, epoch: int, session: int) -> None:
        if self.fails:
            raise self.fails.pop()
        self.registered.append((epoch, session))

    def owner(self) -> int:
        return self.zookeeper.tree.node("/brokers/ids/1").stat().ephemeral_owner

    def live(self) -> Broker:
        found: list[tuple[dict[int, Broker], int]] = []
        deferred(BrokerStore(self.client, self.clock).live()).addCallback(found.append)
        return found[0][0][1]


# trap: kafkalite/broker/registration.py: A new session needs a new broker epoch: the broker registers again in each
# session.
def test_each_new_session_registers_with_a_greater_epoch() -> None:
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    first = fixture.client.session
    fixture.client.expire_session()
    fixture.client.reconnect()
    assert [session for _, session in fixture.registered] == [first, fixture.client.session]
    assert fixture.client.session != first
    assert fixture.registered[1][0] > fixture.registered[0][0]


def test_a_connection_that_comes_back_in_the_same_session_registers_nothing() -> None:
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    fixture.client.lose_connection()
    fixture.client.reconnect()
    assert len(fixture.registered) == 1


def test_an_id_that_a_live_session_took_meanwhile_is_fatal() -> None:
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    fixture.client.lose_connection()
    fixture.client.expire_session()
    other = fixture.zookeeper.client()
    deferred(BrokerStore(other, fixture.clock).register(BROKER))
    fixture.client.reconnect()
    fixture.clock.advance(6.0)
    assert len(fixture.registered) == 1
    assert "broker id 1 is in use" in str(fixture.refused[0])


def test_stop_withdraws_the_registration() -> None:
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    deferred(fixture.registration.stop())
    assert "/brokers/ids/1" not in fixture.zookeeper.paths()


# trap: kafkalite/broker/registration.py: The session is replaced while a starting broker waits for its former znode to
# go.
def test_a_session_that_is_exchanged_during_the_wait_for_the_former_znode_registers() -> None:
    """The guardian and the fence of ISR writes get the session in which the znode was made."""
    fixture = RegistrationFixture()
    former = fixture.zookeeper.client()
    deferred(BrokerStore(former, fixture.clock).register(BROKER))
    begun_in = fixture.client.session

    def expire(name: str, path: str) -> None:
        if (name, path) == ("exists", "/brokers/ids/1"):
            fixture.client.before = None
            fixture.client.expire_session()

    fixture.client.before = expire
    deferred(fixture.registration.start())
    assert fixture.registered == [], "the former znode stands"
    former.close()
    fixture.clock.advance(0.1)
    assert fixture.client.session != begun_in
    assert [session for _, session in fixture.registered] == [fixture.owner()] == [fixture.client.session]


def test_a_start_that_a_lost_connection_ended_can_be_tried_again() -> None:
    fixture = RegistrationFixture()

    def lose(name: str, path: str) -> None:
        if name == "create" and path == "/brokers/ids/1":
            fixture.client.before = None
            fixture.client.lose_connection()

    fixture.client.before = lose
    failed: list[Failure] = []
    deferred(fixture.registration.start()).addErrback(failed.append)
    assert isinstance(failed[0].value, ConnectionLostError)
    fixture.client.expire_session()
    fixture.client.reconnect()
    deferred(fixture.registration.start())
    assert [session for _, session in fixture.registered] == [fixture.owner()] == [fixture.client.session]


# trap: kafkalite/broker/registration.py: A session that merely expired looks like a restart, and the broker would leave
# the ISR with a whole log.
def test_every_later_registration_reports_an_unclean_start() -> None:
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    first, _ = fixture.registered[0]
    assert fixture.registration.unclean_start_epoch == first
    assert b"unclean_start_epoch" not in fixture.zookeeper.data("/brokers/ids/1"), "it is the epoch of this very znode"
    assert (fixture.live().epoch, fixture.live().unclean_start_epoch) == (first, first)
    fixture.client.expire_session()
    fixture.client.reconnect()
    assert fixture.live().epoch > first
    assert fixture.live().unclean_start_epoch == first, "the same process, the same logs"


@pytest.mark.parametrize("error", [OSError("no guardian could be started"), ZkError("/brokers/ids/1", "no authority:")])
def test_a_registration_that_failed_is_tried_again(error: Exception) -> None:
    """The connection stands, so that no event brings another attempt: the broker would lead nothing for ever."""
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    fixture.fails.append(error)
    fixture.client.expire_session()
    fixture.client.reconnect()
    assert len(fixture.registered) == 1
    fixture.clock.advance(2.0)
    assert [session for _, session in fixture.registered[1:]] == [fixture.owner()] == [fixture.client.session]


MOVED = (Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 9093),)


def announced(fixture: RegistrationFixture) -> str:
    """The host in the znode."""
    return str(json.loads(fixture.zookeeper.tree.node("/brokers/ids/1").data)["endpoints"][0])


def test_the_registered_values_may_change_within_a_session() -> None:
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    before = fixture.live()
    fixture.registration.update(MOVED)
    assert announced(fixture) == "PLAINTEXT://elsewhere:9093"
    assert fixture.live() == replace(before, endpoints=MOVED), "the epochs stay"
    assert len(fixture.registered) == 1


def test_a_change_while_zookeeper_is_away_is_written_once_it_is_back() -> None:
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    fixture.client.lose_connection()
    fixture.registration.update(MOVED)
    assert announced(fixture) == "PLAINTEXT://localhost:9092"
    fixture.client.reconnect()
    assert announced(fixture) == "PLAINTEXT://elsewhere:9093"
    assert len(fixture.registered) == 1


def test_a_change_is_kept_over_a_new_session() -> None:
    fixture = RegistrationFixture()
    deferred(fixture.registration.start())
    fixture.client.expire_session()
    fixture.registration.update(MOVED)
    fixture.client.reconnect()
    assert announced(fixture) == "PLAINTEXT://elsewhere:9093"
    assert len(fixture.registered) == 2
