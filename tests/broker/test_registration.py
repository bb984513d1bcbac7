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


class World:
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
        found: list[dict[int, Broker]] = []
        deferred(BrokerStore(self.client, self.clock).live()).addCallback(found.append)
        return found[0][1]


# trap: kafkalite/broker/registration.py: A new session needs a new broker epoch: the broker registers anew in each
# session.
def test_each_new_session_registers_anew_with_a_greater_epoch() -> None:
    world = World()
    deferred(world.registration.start())
    first = world.client.session
    world.client.expire_session()
    world.client.reconnect()
    assert [session for _, session in world.registered] == [first, world.client.session]
    assert world.client.session != first
    assert world.registered[1][0] > world.registered[0][0]


def test_a_connection_that_comes_back_in_the_same_session_registers_nothing() -> None:
    world = World()
    deferred(world.registration.start())
    world.client.lose_connection()
    world.client.reconnect()
    assert len(world.registered) == 1


def test_an_id_that_a_live_session_took_meanwhile_is_fatal() -> None:
    world = World()
    deferred(world.registration.start())
    world.client.lose_connection()
    world.client.expire_session()
    other = world.zookeeper.client()
    deferred(BrokerStore(other, world.clock).register(BROKER))
    world.client.reconnect()
    world.clock.advance(6.0)
    assert len(world.registered) == 1
    assert "broker id 1 is in use" in str(world.refused[0])


def test_stop_withdraws_the_registration() -> None:
    world = World()
    deferred(world.registration.start())
    deferred(world.registration.stop())
    assert "/brokers/ids/1" not in world.zookeeper.paths()


# trap: kafkalite/broker/registration.py: The session is replaced while a starting broker waits for its former znode to
# go.
def test_a_session_that_is_exchanged_while_the_former_znode_is_waited_for() -> None:
    """The guardian and the fence of ISR writes get the session in which the znode was made."""
    world = World()
    former = world.zookeeper.client()
    deferred(BrokerStore(former, world.clock).register(BROKER))
    begun_in = world.client.session

    def expire(name: str, path: str) -> None:
        if (name, path) == ("exists", "/brokers/ids/1"):
            world.client.before = None
            world.client.expire_session()

    world.client.before = expire
    deferred(world.registration.start())
    assert world.registered == [], "the former znode stands"
    former.close()
    world.clock.advance(0.1)
    assert world.client.session != begun_in
    assert [session for _, session in world.registered] == [world.owner()] == [world.client.session]


def test_a_start_that_a_lost_connection_ended_can_be_tried_again() -> None:
    world = World()

    def lose(name: str, path: str) -> None:
        if name == "create" and path == "/brokers/ids/1":
            world.client.before = None
            world.client.lose_connection()

    world.client.before = lose
    failed: list[Failure] = []
    deferred(world.registration.start()).addErrback(failed.append)
    assert isinstance(failed[0].value, ConnectionLostError)
    world.client.expire_session()
    world.client.reconnect()
    deferred(world.registration.start())
    assert [session for _, session in world.registered] == [world.owner()] == [world.client.session]


# trap: kafkalite/broker/registration.py: A session that merely expired looks like a restart, and the broker would leave
# the ISR with a whole log.
def test_an_unclean_start_is_told_by_every_later_registration() -> None:
    world = World()
    deferred(world.registration.start())
    first, _ = world.registered[0]
    assert world.registration.unclean_start_epoch == first
    assert b"unclean_start_epoch" not in world.zookeeper.data("/brokers/ids/1"), "it is the epoch of this very znode"
    assert (world.live().epoch, world.live().unclean_start_epoch) == (first, first)
    world.client.expire_session()
    world.client.reconnect()
    assert world.live().epoch > first
    assert world.live().unclean_start_epoch == first, "the same process, the same logs"


@pytest.mark.parametrize("error", [OSError("no guardian could be started"), ZkError("/brokers/ids/1", "no authority:")])
def test_a_registration_that_failed_is_tried_again(error: Exception) -> None:
    """The connection stands, so that no event brings another attempt: the broker would lead nothing for ever."""
    world = World()
    deferred(world.registration.start())
    world.fails.append(error)
    world.client.expire_session()
    world.client.reconnect()
    assert len(world.registered) == 1
    world.clock.advance(2.0)
    assert [session for _, session in world.registered[1:]] == [world.owner()] == [world.client.session]


MOVED = (Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 9093),)


def announced(world: World) -> str:
    """The host in the znode."""
    return str(json.loads(world.zookeeper.tree.node("/brokers/ids/1").data)["endpoints"][0])


def test_what_others_are_to_know_may_change_within_a_session() -> None:
    world = World()
    deferred(world.registration.start())
    before = world.live()
    world.registration.update(MOVED)
    assert announced(world) == "PLAINTEXT://elsewhere:9093"
    assert world.live() == replace(before, endpoints=MOVED), "the epochs stay"
    assert len(world.registered) == 1


def test_a_change_while_zookeeper_is_away_is_written_once_it_is_back() -> None:
    world = World()
    deferred(world.registration.start())
    world.client.lose_connection()
    world.registration.update(MOVED)
    assert announced(world) == "PLAINTEXT://localhost:9092"
    world.client.reconnect()
    assert announced(world) == "PLAINTEXT://elsewhere:9093"
    assert len(world.registered) == 1


def test_a_change_is_kept_over_a_new_session() -> None:
    world = World()
    deferred(world.registration.start())
    world.client.expire_session()
    world.registration.update(MOVED)
    world.client.reconnect()
    assert announced(world) == "PLAINTEXT://elsewhere:9093"
    assert len(world.registered) == 2
