"""The limits of the network, as server.properties and /config/brokers have them."""

from __future__ import annotations

import pytest

from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.settings import announced_events, network_limits
from kafkalite.network.limits import UNLIMITED, ListenerLimits

TWO = {
    "zookeeper.connect": "zk",
    "listeners": "CLIENTS://:9092,BROKERS://:9094",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def test_each_listener_has_its_own_limits_or_the_broker_s() -> None:
    config = BrokerConfig.parse(
        {
            **TWO,
            "max.connections": "100",
            "listener.name.clients.max.connections": "50",
            "listener.name.clients.max.connection.creation.rate": "7",
        }
    )
    limits = network_limits(config)
    assert limits.brokers_listeners == {"BROKERS"}
    assert limits.listeners == {"CLIENTS": ListenerLimits(50, 7), "BROKERS": ListenerLimits(100, UNLIMITED)}
    config.dynamic.update_default({"max.connection.creation.rate": "9", "listener.name.brokers.max.connections": "8"})
    limits = network_limits(config)
    assert limits.max_connection_rate == 9
    assert limits.listeners == {"CLIENTS": ListenerLimits(50, 7), "BROKERS": ListenerLimits(8, 9)}


def test_single_addresses_have_numbers_of_connections(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig.parse({**TWO, "max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:6,10.0.0.2"})
    assert network_limits(config).max_connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 6}
    assert "'10.0.0.2' is not address:number" in caplog.text


@pytest.mark.parametrize(
    ("listener", "announced"),
    [
        ("http://127.0.0.1:9404", "http://127.0.0.1:9404/events"),
        ("http://[::1]:9404/", "http://[::1]:9404/events"),
        ("http://0.0.0.0:9404", "http://inner:9404/events"),
        ("http://[::]:9404", "http://inner:9404/events"),
        ("http://127.0.0.1:0", ""),
        (None, ""),
    ],
)
def test_the_page_with_the_events_is_announced_under_an_address_that_others_reach(
    listener: str | None, announced: str
) -> None:
    texts = {**TWO, "advertised.listeners": "CLIENTS://outer:9092,BROKERS://inner:9093"}
    config = BrokerConfig.parse(texts if listener is None else {**texts, "metrics.listener": listener})
    assert announced_events(config) == announced
