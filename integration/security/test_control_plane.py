"""Control requests over TLS, on a listener of their own, while brokers fetch from each other in plain text."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import controller, create_topic, move_leader, states, wait_in_sync
from integration.harness.wait import wait_for
from integration.harness.wire import Wire, leaders
from integration.security.stores import Stores, add_listeners

TOPIC = "controlled"


@pytest.mark.kafkalite_only
def test_control_requests_travel_over_tls(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """The listener asks for certificates, so that brokers bring their own."""
    stores = Stores(tmp_path / "stores")
    stores.issue("broker")
    settings = stores.properties("broker", "PEM") | {
        "control.plane.listener.name": "SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.client.auth": "required",
        "auto.leader.rebalance.enable": "false",
    }
    cluster = make_cluster(3, settings, start=False)
    ports = add_listeners(cluster, ("SSL",))
    cluster.start()
    create_topic(cluster, TOPIC, 1)
    elected = wait_for(lambda: controller(cluster), "there is a controller")
    for leader in (2, 3, 1):
        move_leader(cluster, TOPIC, 0, leader)
        for broker_id in cluster.broker_ids:
            with Wire(cluster.address(broker_id)) as wire:
                wait_for(lambda wire=wire, leader=leader: leaders(wire, TOPIC) == {0: leader}, "the leader is known")  # type: ignore[misc]
    wait_in_sync(cluster, TOPIC, 1)
    reached = {
        connection.raddr.port
        for connection in psutil.Process(cluster.pid(elected)).net_connections("tcp4")
        if connection.status == psutil.CONN_ESTABLISHED and connection.raddr
    }
    assert {ports[broker_id, "SSL"] for broker_id in cluster.broker_ids} <= reached
    for broker_id in cluster.broker_ids:
        log = cluster.log_file(broker_id).read_text()
        assert "to broker" not in log or " failed: " not in log, log
    # A controlled shutdown asks the controller on the listener between brokers.
    cluster.stop_broker(1)
    assert "has moved all leaderships away" in cluster.log_file(1).read_text()
    assert states(cluster, TOPIC, 1)[0]["leader"] in (2, 3)
