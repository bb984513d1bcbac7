"""Ports of a running broker follow its configuration."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import pytest

from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.dynamic_listeners import DynamicListeners
from kafkalite.cluster.model import Endpoint
from kafkalite.common.errors import StartupError
from kafkalite.network.endpoint_security import PLAINTEXT, ListenerSecurity

MAP = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,CONTROLLER:PLAINTEXT"


class Ports:
    """A server that notes what it opens and closes. Port 0 becomes 1000 and up."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, int, str]] = []
        self.queued: list[tuple[str, int, str]] = []
        self.opened: list[tuple[str, int, str]] = []
        self.closed: list[str] = []
        self.taken: set[int] = set()

    def bind(self, host: str, port: int, listener: str, _: ListenerSecurity) -> int:
        if port in self.taken:
            raise StartupError(f"cannot listen on {host}:{port}")
        self.bound.append((host, port, listener))
        return port or 1000 + len(self.bound)

    def bind_all(self, addresses: Sequence[tuple[str, int, str, ListenerSecurity]]) -> dict[str, int]:
        return {name: self.bind(host, port, name, security) for host, port, name, security in addresses}

    def queue(self) -> None:
        self.queued += self.bound

    def open(self) -> None:
        self.opened += self.bound
        self.bound = []

    def close_listener(self, name: str) -> None:
        self.closed.append(name)
        self.opened = [each for each in self.opened if each[2] != name]


class DynamicListenersFixture:
    def __init__(self, listeners: str = "PLAINTEXT://h:1", **texts: str) -> None:
        config = BrokerConfig.parse(
            {
                "zookeeper.connect": "zk",
                "listeners": listeners,
                "listener.security.protocol.map": MAP,
                **{name.replace("_", "."): text for name, text in texts.items()},
            }
        )
        self.dynamic = config.dynamic
        self.ports = Ports()
        self.told: list[tuple[Endpoint, ...]] = []
        server = cast("Any", self.ports)
        self.listeners = DynamicListeners(config.listening, config.dynamic, server, lambda _: PLAINTEXT, self.tell)

    def tell(self) -> None:
        self.told.append(self.listeners.advertised)

    def start(self) -> DynamicListenersFixture:
        self.listeners.bind()
        self.listeners.open()
        return self

    def change(self, **texts: str) -> None:
        self.dynamic.update_broker({name.replace("_", "."): text for name, text in texts.items()})

    def advertised(self) -> dict[str, tuple[str, int]]:
        return {each.listener: (each.host, each.port) for each in self.listeners.advertised}


def test_a_listener_that_is_added_is_opened_and_advertised() -> None:
    fixture = DynamicListenersFixture().start()
    fixture.change(listeners="PLAINTEXT://h:1,EXTRA://h:0")
    assert fixture.ports.opened == [("h", 1, "PLAINTEXT"), ("h", 0, "EXTRA")]
    assert fixture.ports.closed == []
    assert fixture.advertised() == {"PLAINTEXT": ("h", 1), "EXTRA": ("h", 1001)}
    assert fixture.told == [fixture.listeners.advertised]


def test_a_listener_that_is_removed_is_closed() -> None:
    fixture = DynamicListenersFixture("PLAINTEXT://h:1,EXTRA://h:2").start()
    fixture.change(listeners="PLAINTEXT://h:1")
    assert fixture.ports.closed == ["EXTRA"]
    assert sorted(fixture.advertised()) == ["PLAINTEXT"]
    fixture.change()
    assert fixture.ports.opened == [("h", 1, "PLAINTEXT"), ("h", 2, "EXTRA")]


def test_a_listener_that_moves_is_closed_and_opened_and_the_control_plane_stays() -> None:
    fixture = DynamicListenersFixture(
        "PLAINTEXT://h:1,CONTROLLER://h:0", control_plane_listener_name="CONTROLLER"
    ).start()
    assert fixture.advertised() == {"PLAINTEXT": ("h", 1), "CONTROLLER": ("h", 1002)}
    fixture.change(listeners="PLAINTEXT://other:7,CONTROLLER://h:0")
    assert fixture.ports.closed == ["PLAINTEXT"]
    assert fixture.ports.opened == [("h", 0, "CONTROLLER"), ("other", 7, "PLAINTEXT")]
    assert fixture.advertised() == {"PLAINTEXT": ("other", 7), "CONTROLLER": ("h", 1002)}


def test_a_listener_that_moves_is_closed_and_opened() -> None:
    fixture = DynamicListenersFixture().start()
    fixture.change(listeners="PLAINTEXT://other:7")
    assert (fixture.ports.opened, fixture.ports.closed) == ([("other", 7, "PLAINTEXT")], ["PLAINTEXT"])
    assert fixture.advertised() == {"PLAINTEXT": ("other", 7)}


def test_advertised_addresses_change_without_the_open_listeners() -> None:
    fixture = DynamicListenersFixture().start()
    fixture.change(advertised_listeners="PLAINTEXT://public:77")
    assert (fixture.ports.opened, fixture.ports.closed) == ([("h", 1, "PLAINTEXT")], [])
    assert fixture.advertised()["PLAINTEXT"] == ("public", 77)
    assert len(fixture.told) == 1


def test_changes_of_other_keys_are_not_reported() -> None:
    fixture = DynamicListenersFixture().start()
    fixture.change(num_io_threads="4")
    assert fixture.told == []


@pytest.mark.parametrize(
    ("listeners", "said"),
    [("PLAINTEXT://h:1,EXTRA://h:9", "cannot listen on h:9"), ("EXTRA", "Ignored the dynamic configuration")],
    ids=["a port in use", "nonsense"],
)
def test_the_old_listeners_stay_if_the_new_ones_cannot_be_opened(
    listeners: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    fixture = DynamicListenersFixture().start()
    fixture.ports.taken = {9}
    before = fixture.listeners.advertised
    with caplog.at_level(logging.ERROR):
        fixture.change(listeners=listeners)
    assert said in caplog.text
    assert (fixture.ports.opened, fixture.ports.closed, fixture.told) == ([("h", 1, "PLAINTEXT")], [], [])
    assert fixture.listeners.advertised == before


def test_a_broker_starts_with_the_listeners_of_zookeeper() -> None:
    fixture = DynamicListenersFixture()
    fixture.change(listeners="PLAINTEXT://h:5,EXTRA://h:6")
    assert fixture.start().ports.opened == [("h", 5, "PLAINTEXT"), ("h", 6, "EXTRA")]
    assert fixture.told == []


def test_connections_wait_between_the_registration_and_the_opening() -> None:
    fixture = DynamicListenersFixture()
    fixture.listeners.bind()
    assert fixture.ports.queued == []
    fixture.listeners.queue()
    assert (fixture.ports.queued, fixture.ports.opened) == ([("h", 1, "PLAINTEXT")], [])


def test_a_change_between_binding_and_opening_is_carried_out() -> None:
    fixture = DynamicListenersFixture()
    fixture.listeners.bind()
    fixture.change(listeners="PLAINTEXT://h:1,EXTRA://h:6")
    assert fixture.ports.opened == []
    fixture.listeners.open()
    assert fixture.ports.opened == [("h", 1, "PLAINTEXT"), ("h", 6, "EXTRA")]
    assert len(fixture.told) == 1
