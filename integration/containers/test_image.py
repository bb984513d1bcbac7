"""The image of a broker: what it is made of, how it starts, says that it serves, and stops."""

from __future__ import annotations

import json
from typing import Any

from integration.containers.daemon import docker
from integration.harness.wait import wait_for


def inspect(container: str) -> Any:
    """What Docker says about ``container``."""
    return json.loads(docker("inspect", container))[0]


def test_one_broker_serves(broker_image: str, zookeeper_image: str, network: str) -> None:
    zookeeper = docker("run", "--detach", "--network", network, "--network-alias", "zookeeper", zookeeper_image)
    broker = docker(
        *("run", "--detach", "--network", network, "--env", "KAFKALITE_ZOOKEEPER_CONNECT=zookeeper:2181/kafka"),
        broker_image,
    )
    wait_for(lambda: inspect(broker)["State"]["Health"]["Status"] == "healthy", "the broker is healthy")
    assert inspect(zookeeper)["State"]["Running"]
