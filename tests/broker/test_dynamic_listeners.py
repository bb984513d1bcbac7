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

MAP = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,CONTROLPLANE:PLAINTEXT"


class Ports:
    """A server and a control plane that note what they open and close. Port 0 becomes 1000 and up."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, int, str]] = []
        self.opened: list[tuple[str, int, str]] = []
        self.closed: list[str] = []
        self.taken: set[int] = set()

    def bind(self, host: str, port: int, listener: str) -> int:
        if port in self.taken:
            raise StartupError(f"cannot listen on {host}:{port}")
        self.bound.append((host, port, listener))
        return port or 1000 + len(self.bound)

    def bind_all(self, addresses: Sequence[tuple[str, int, str]]) -> dict[str, int]:
        return {listener: self.bind(host, port, listener) for host, port, listener in addresses}

    def open(self) -> None:
        self.opened += self.bound
        self.bound = []

    def close_listener(self, name: str) -> None:
        self.closed.append(name)
        self.opened = [each for each in self.opened if each[2] != name]

    def listen(self, _: str, port: int) -> int:
        return port or 999


class World:
    def __init__(self, listeners: str = "PLAINTEXT://h:1") -> None:
        config = BrokerConfig.parse(
            {"zookeeper.connect": "zk", "listeners": listeners, "listener.security.protocol.map": MAP}
        )
        self.dynamic = config.dynamic
        self.ports = Ports()
        self.told: list[tuple[Endpoint, ...]] = []
        server = cast("Any", self.ports)
        self.listeners = DynamicListeners(config.listening, config.dynamic, server, server, self.tell)

    def tell(self) -> None:
        self.told.append(self.listeners.advertised)

    def start(self) -> World:
        self.listeners.bind()
        self.listeners.open()
        return self

    def change(self, **texts: str) -> None:
        self.dynamic.update_broker({name.replace("_", "."): text for name, text in texts.items()})

    def advertised(self) -> dict[str, tuple[str, int]]:
        return {each.listener: (each.host, each.port) for each in self.listeners.advertised}


def test_a_listener_that_is_added_is_opened_and_advertised() -> None:
    world = World().start()
    world.change(listeners="PLAINTEXT://h:1,EXTRA://h:0")
    assert world.ports.opened == [("h", 1, "PLAINTEXT"), ("h", 0, "EXTRA")]
    assert world.ports.closed == []
    assert world.advertised() == {"PLAINTEXT": ("h", 1), "EXTRA": ("h", 1001), "CONTROLPLANE": ("h", 999)}
    assert world.told == [world.listeners.advertised]


def test_a_listener_that_is_removed_is_closed() -> None:
    world = World("PLAINTEXT://h:1,EXTRA://h:2").start()
    world.change(listeners="PLAINTEXT://h:1")
    assert world.ports.closed == ["EXTRA"]
    assert sorted(world.advertised()) == ["CONTROLPLANE", "PLAINTEXT"]
    world.change()
    assert world.ports.opened == [("h", 1, "PLAINTEXT"), ("h", 2, "EXTRA")]


def test_a_listener_that_moves_is_closed_and_opened_and_the_control_plane_stays() -> None:
    world = World().start()
    world.change(listeners="PLAINTEXT://other:7")
    assert (world.ports.opened, world.ports.closed) == ([("other", 7, "PLAINTEXT")], ["PLAINTEXT"])
    assert world.advertised() == {"PLAINTEXT": ("other", 7), "CONTROLPLANE": ("h", 999)}


def test_what_is_advertised_changes_alone() -> None:
    world = World().start()
    world.change(advertised_listeners="PLAINTEXT://public:77")
    assert (world.ports.opened, world.ports.closed) == ([("h", 1, "PLAINTEXT")], [])
    assert world.advertised()["PLAINTEXT"] == ("public", 77)
    assert len(world.told) == 1


def test_other_changes_are_no_news() -> None:
    world = World().start()
    world.change(num_io_threads="4")
    assert world.told == []


@pytest.mark.parametrize(
    ("listeners", "said"),
    [("PLAINTEXT://h:1,EXTRA://h:9", "cannot listen on h:9"), ("EXTRA", "Ignored the dynamic configuration")],
    ids=["a port in use", "nonsense"],
)
def test_where_the_new_listeners_cannot_be_the_old_ones_stay(
    listeners: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World().start()
    world.ports.taken = {9}
    before = world.listeners.advertised
    with caplog.at_level(logging.ERROR):
        world.change(listeners=listeners)
    assert said in caplog.text
    assert (world.ports.opened, world.ports.closed, world.told) == ([("h", 1, "PLAINTEXT")], [], [])
    assert world.listeners.advertised == before


def test_a_broker_starts_with_what_zookeeper_says() -> None:
    world = World()
    world.change(listeners="PLAINTEXT://h:5,EXTRA://h:6")
    assert world.start().ports.opened == [("h", 5, "PLAINTEXT"), ("h", 6, "EXTRA")]
    assert world.told == []


def test_what_changes_between_binding_and_opening_is_not_missed() -> None:
    world = World()
    world.listeners.bind()
    world.change(listeners="PLAINTEXT://h:1,EXTRA://h:6")
    assert world.ports.opened == []
    world.listeners.open()
    assert world.ports.opened == [("h", 1, "PLAINTEXT"), ("h", 6, "EXTRA")]
    assert len(world.told) == 1
