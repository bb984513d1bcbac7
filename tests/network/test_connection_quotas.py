"""Bounds on connections: full and fast listeners rest, fast addresses are refused, brokers find a place."""

from __future__ import annotations

import logging

import pytest

from kafkalite.common.quota_rates import QuotaWindows
from kafkalite.common.tasks import deferred
from kafkalite.network.connection_quotas import ConnectionQuotas
from kafkalite.network.endpoint_security import PLAINTEXT
from kafkalite.network.limits import ListenerLimits, NetworkLimits
from kafkalite.network.listener import Listener

from .fakes import FakeSocket, Harness
from .test_listener import ListeningSocket


class Door:
    """A listener with connections that wait, as many as the test likes."""

    def __init__(self, harness: Harness, name: str = "CLIENTS") -> None:
        self._harness = harness
        self._sock = ListeningSocket()
        server = harness.server
        self.listener = Listener(
            server.reactor, self._sock, name, PLAINTEXT, server.accepted, server.quotas.has_slot, server.complaints
        )
        server._listeners.append(self.listener)
        self._number = 100 * len(server._listeners)

    def knock(self, times: int = 1, ip: str = "10.0.0.1") -> list[FakeSocket]:
        """Connections come in; those that the listener wants are accepted."""
        came = []
        for _ in range(times):
            self._number += 1
            came.append(FakeSocket(self._number))
            self._sock.arriving.append((came[-1], (ip, self._number)))
        self.answer()
        return came

    def answer(self) -> None:
        """The reactor calls the listener for as long as it is watched and connections wait."""
        while self._sock.arriving and self.listener in self._harness.reactor.readers:
            self.listener.doRead()

    @property
    def waiting(self) -> int:
        return len(self._sock.arriving)


def limits(**values: object) -> NetworkLimits:
    return NetworkLimits(
        listeners={"CLIENTS": ListenerLimits(), "BROKERS": ListenerLimits()},
        brokers_listeners=frozenset({"BROKERS"}),
        rate_windows=QuotaWindows(2, 1000),
        **values,  # type: ignore[arg-type]
    )


def test_connections_above_the_broker_s_bound_wait_for_a_place() -> None:
    harness = Harness(limits(max_connections=2))
    door = Door(harness)
    first, _, _ = door.knock(3)
    assert (harness.server.connections, door.waiting) == (2, 1)
    assert not first.closed
    next(iter(harness.server._connections)).close("test")
    door.answer()
    assert (harness.server.connections, door.waiting) == (2, 0)


def test_a_bound_that_is_raised_lets_those_in_that_wait() -> None:
    harness = Harness(limits(max_connections=1))
    door = Door(harness)
    door.knock(3)
    harness.server.reconfigure(limits(max_connections=2))
    door.answer()
    assert (harness.server.connections, door.waiting) == (2, 1)


def test_a_listener_has_a_bound_of_its_own() -> None:
    harness = Harness(NetworkLimits(listeners={"CLIENTS": ListenerLimits(1), "OTHERS": ListenerLimits(5)}))
    clients, others = Door(harness), Door(harness, "OTHERS")
    clients.knock(2)
    others.knock(2)
    assert (clients.waiting, others.waiting) == (1, 0)


def test_a_broker_finds_a_place_at_the_cost_of_the_client_that_was_idle_for_longest() -> None:
    harness = Harness(limits(max_connections=2))
    clients, brokers = Door(harness), Door(harness, "BROKERS")
    idle, busy = clients.knock(2)
    harness.reactor.advance(5)
    (busy_connection,) = [each for each in harness.server._connections if each._sock is busy]
    busy_connection.last_active = harness.server.now()
    (broker,) = brokers.knock(1)
    assert [sock.closed for sock in (idle, busy, broker)] == [True, False, False]
    assert harness.server.connections == 2


def test_the_brokers_listener_is_bounded_all_the_same() -> None:
    """As in Kafka: by max.connections, which holds for each listener that has no bound of its own."""
    harness = Harness(NetworkLimits(max_connections=2, brokers_listeners=frozenset({"BROKERS"})))
    brokers = Door(harness, "BROKERS")
    brokers.knock(3)
    assert brokers.waiting == 1


def test_a_listener_rests_while_connections_come_too_fast() -> None:
    harness = Harness(limits(max_connection_rate=10))
    door = Door(harness)
    door.knock(200)
    accepted = harness.server.connections
    assert accepted == 11, "ten in the one window before, and the one that was too many"
    for _ in range(100):
        harness.reactor.advance(0.1)
        door.answer()
    # 10 s more.
    assert harness.server.connections - accepted == pytest.approx(100, abs=11)


def test_the_rate_of_clients_does_not_hold_brokers_back() -> None:
    harness = Harness(limits(max_connection_rate=1))
    clients, brokers = Door(harness), Door(harness, "BROKERS")
    clients.knock(5)
    brokers.knock(5)
    assert clients.waiting > 0
    assert brokers.waiting == 0


def test_an_address_that_connects_too_fast_is_refused_after_a_while_and_others_are_not() -> None:
    harness = Harness(limits())
    harness.server.quotas.update_ip("10.0.0.1", {"connection_creation_rate": "2"})
    door = Door(harness)
    came = door.knock(5)
    assert door.waiting == 0
    assert harness.server.connections == 2
    assert [sock.closed for sock in came] == [False] * 5, "kept open, so that the client does not come back at once"
    door.knock(5, ip="10.0.0.2")
    assert harness.server.connections == 7
    harness.reactor.advance(1.01)
    assert [sock.closed for sock in came] == [False, False, True, True, True]
    assert harness.server._refused == {}


def test_refused_connections_do_not_count() -> None:
    harness = Harness(limits())
    harness.server.quotas.update_ip("10.0.0.1", {"connection_creation_rate": "2"})
    door = Door(harness)
    door.knock(100)
    assert harness.server.connections == 2
    harness.reactor.advance(1.6)
    door.knock(1)
    assert harness.server.connections == 3


def test_an_address_may_have_no_connection_at_all_and_the_default_holds_for_the_others() -> None:
    harness = Harness(limits())
    quotas = harness.server.quotas
    quotas.update_ip("10.0.0.1", {"connection_creation_rate": "0"})
    quotas.update_ip("<default>", {"connection_creation_rate": "1"})
    door = Door(harness)
    door.knock(2)
    assert harness.server.connections == 0
    door.knock(2, ip="10.0.0.2")
    assert harness.server.connections == 1
    quotas.update_ip("10.0.0.1", {})
    quotas.update_ip("<default>", {})
    door.knock(9)
    assert harness.server.connections == 10


def test_refused_sockets_are_bounded_and_a_stop_closes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalite.network.server.MAX_REFUSED", 3)
    harness = Harness(limits())
    harness.server.quotas.update_ip("<default>", {"connection_creation_rate": "0"})
    came = Door(harness).knock(5)
    assert [sock.closed for sock in came] == [False, False, False, True, True]
    deferred(harness.server.stop(0))
    assert all(sock.closed for sock in came)
    assert harness.reactor.getDelayedCalls() == []


@pytest.mark.parametrize("text", ["fast", "-1", "1.5"])
def test_a_wrong_rate_of_an_address_leaves_it_as_it_was(text: str, caplog: pytest.LogCaptureFixture) -> None:
    quotas = ConnectionQuotas(limits())
    quotas.update_ip("10.0.0.1", {"connection_creation_rate": "0"})
    with caplog.at_level(logging.ERROR):
        quotas.update_ip("10.0.0.1", {"connection_creation_rate": text})
    assert "/config/ips/10.0.0.1" in caplog.text
    assert quotas.refused_ms("10.0.0.1", 1000) == 1000


def test_addresses_that_were_silent_are_forgotten() -> None:
    quotas = ConnectionQuotas(limits())
    quotas.update_ip("<default>", {"connection_creation_rate": "5"})
    for number in range(100):
        quotas.refused_ms(f"10.0.0.{number}", 1000)
    quotas.tidy(2900)
    assert len(quotas._ip_rates) == 100
    quotas.tidy(3001)
    assert len(quotas._ip_rates) == 0
