"""Where the pages of brokers are, by their registrations and by their configurations."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from kafkalite.cli import event_pages
from kafkalite.cli.event_pages import ConfiguredPages, configured_pages, events_address, page_access, page_source
from kafkalite.common.errors import ApiError, ErrorCode

from .helpers import parse


@pytest.mark.parametrize(
    ("listener", "address"),
    [
        ("http://127.0.0.1:9404", "http://127.0.0.1:9404/events"),
        ("http://0.0.0.0:9404/", "http://b1:9404/events"),
        ("http://[::1]:9404", "http://[::1]:9404/events"),
        ("https://[::]:9404", "https://b1:9404/events"),
    ],
)
def test_the_address_of_a_page(listener: str, address: str) -> None:
    assert events_address(listener, "b1") == address


def test_a_user_of_the_properties_logs_in_at_the_page() -> None:
    assert page_access({"sasl.username": "ann", "sasl.password": "s:1"}).headers == {
        "Authorization": "Basic YW5uOnM6MQ=="
    }
    assert page_access({}).headers == {}


class ZooKeeper:
    """Registrations; ``sessions`` counts those begun, and those still open."""

    def __init__(self) -> None:
        self.registered: dict[str, bytes] = {}
        self.sessions = [0, 0]
        self.is_down = False

    def __call__(self, *_: object) -> ZooKeeper:
        if self.is_down:
            raise OSError("ZooKeeper does not answer")
        self.sessions = [count + 1 for count in self.sessions]
        return self

    def __enter__(self) -> ZooKeeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sessions[1] -= 1

    def children(self, _: str) -> list[str]:
        if self.is_down:
            raise OSError("the connection is lost")
        return sorted(self.registered)

    def get(self, path: str) -> bytes | None:
        return self.registered.get(path.rpartition("/")[2])


def registration(events: str | None) -> bytes:
    value = {"version": 4, "host": "h", "port": 9, "endpoints": ["PLAINTEXT://h:9"], "events": events}
    return json.dumps({name: each for name, each in value.items() if each is not None}).encode()


def test_registrations_are_read_in_one_session_until_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = ZooKeeper()
    monkeypatch.setattr(event_pages, "ZnodeReader", zookeeper)
    args = parse("events", "--zookeeper", "z:2181")
    zookeeper.registered = {"1": registration("http://h:1/events"), "2": registration(None), "3": b"{", "x": b""}
    with page_source(args) as source:
        assert source.find() == {1: "http://h:1/events"}
        assert list(source.unknown) == [3]
        zookeeper.registered = {"1": registration("http://h:7/events"), "3": registration("http://h:3/events")}
        assert source.find() == {1: "http://h:7/events", 3: "http://h:3/events"}
        assert not source.unknown
        assert zookeeper.sessions == [1, 1]
        zookeeper.is_down = True
        for _ in range(2):
            with pytest.raises(OSError, match=r"connection is lost|does not answer"):
                source.find()
        assert zookeeper.sessions == [1, 0]
        zookeeper.is_down = False
        assert len(source.find()) == 2
        assert zookeeper.sessions == [2, 1]
    assert zookeeper.sessions == [2, 0]


class Brokers:
    """What a cluster answers to admin clients; ``asked`` are the brokers whose configuration was read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listeners: dict[int, str | Exception | None] = {}
        self.bootstrap: list[str] = []
        self.asked: list[int] = []
        self.failure: Exception | None = None
        self.open = 0
        monkeypatch.setattr(event_pages, "admin_client", self.client)
        monkeypatch.setattr(event_pages, "broker_configs", self.configs)

    @contextmanager
    def client(self, args: argparse.Namespace) -> Iterator[Brokers]:
        self.bootstrap.append(args.bootstrap_server)
        self.open += 1
        try:
            yield self
        finally:
            self.open -= 1

    def describe_cluster(self) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return {"brokers": [{"broker_id": each, "host": f"b{each}", "port": 9092} for each in self.listeners]}

    def configs(self, _: object, broker: int, names: list[str]) -> dict[str, Any]:
        self.asked.append(broker)
        listener = self.listeners[broker]
        if isinstance(listener, Exception):
            raise listener
        return {name: {"value": listener} for name in names}

    def took(self) -> list[int]:
        """The brokers asked since the last call."""
        asked, self.asked = self.asked, []
        return asked


def test_a_configuration_is_read_again_only_of_brokers_that_were_away_or_are_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = Brokers(monkeypatch)
    brokers.listeners = {1: "http://0.0.0.0:1", 2: "http://h:2", 3: None}
    args = parse("events")
    with page_source(args) as source:
        two = {1: "http://b1:1/events", 2: "http://h:2/events"}
        assert source.find() == two
        assert (source.find(), brokers.took()) == (two, [1, 2, 3])
        assert (len(brokers.bootstrap), brokers.open) == (1, 1)
        brokers.listeners[2] = "http://h:7"
        assert source.find(silent={2})[2] == "http://h:7/events"
        assert brokers.took() == [2]
        left = brokers.listeners.pop(1)
        assert list(source.find()) == [2]
        brokers.listeners |= {1: left, 4: "http://h:4"}
        assert sorted(source.find()) == [1, 2, 4]
        assert brokers.took() == [1, 4]
        # The client that knew nothing of them was replaced, by one that any broker may answer.
        assert brokers.bootstrap == ["nowhere:1", *["b1:9092,b2:9092,b3:9092,nowhere:1"], brokers.bootstrap[-1]]
        assert set(brokers.bootstrap[-1].split(",")) == {*(f"b{each}:9092" for each in (1, 2, 3, 4)), "nowhere:1"}
        assert brokers.open == 1
    assert brokers.open == 0
    assert args.bootstrap_server == "nowhere:1"


def test_a_broker_that_hangs_costs_its_own_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch)
    brokers.listeners = {1: KafkaTimeoutError("hangs"), 2: "http://h:2"}
    source = ConfiguredPages(parse("events"))
    assert source.find() == {2: "http://h:2/events"}
    assert "hangs" in source.unknown[1]
    brokers.listeners[1] = "http://h:1"
    assert source.find() == {1: "http://h:1/events", 2: "http://h:2/events"}
    assert not source.unknown
    with pytest.raises(OSError, match=r"broker 2 does not tell its metrics\.listener: .*hangs"):
        brokers.listeners[2] = KafkaTimeoutError("hangs")
        configured_pages(parse("events"))


def test_a_client_that_fails_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch)
    brokers.listeners = {1: "http://h:1"}
    source = ConfiguredPages(parse("events"))
    found = source.find()
    brokers.failure = KafkaConnectionError("lost")
    with pytest.raises(OSError, match="lost"):
        source.find()
    assert brokers.open == 0
    brokers.failure = None
    assert source.find() == found
    assert (brokers.took(), brokers.open) == ([1], 1)
    brokers.listeners[2] = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
        source.find()
    assert brokers.open == 0
