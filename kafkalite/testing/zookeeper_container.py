"""ZooKeeper in a container, for users' tests.

Answers to: nothing in testcontainers. Blocking.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kafkalite.testing.container_security import ContainerSecurity
from kafkalite.testing.fault_targets import ZOOKEEPER
from kafkalite.testing.fixed_port_container import FixedPortContainer
from kafkalite.testing.properties import ZOOKEEPER_DEFAULTS

IMAGE = os.environ.get("ZOOKEEPER_IMAGE", "zookeeper:3.9")
PORT = 2181
_ENVIRONMENT = {
    "JVMFLAGS": "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xshare:auto",
    "ZOO_ADMINSERVER_ENABLED": "false",
    "ZOO_MAX_CLIENT_CNXNS": "0",
    "ZOO_TICK_TIME": "500",
}
_PROPERTIES = {"maxSessionTimeout": "120000", **ZOOKEEPER_DEFAULTS}
_WITHOUT_A_PLAIN_PORT = "server.1=localhost:2888:3888"
"""The image's own default has the port of clients behind it."""


class ZooKeeperContainer(FixedPortContainer):
    """One ZooKeeper server, with settings for a fast start."""

    def __init__(self, image: str = IMAGE, **kwargs: Any) -> None:
        super().__init__(image, PORT, ZOOKEEPER, **kwargs)
        self.with_envs(**_ENVIRONMENT, ZOO_CFG_EXTRA=_words(_PROPERTIES))

    def get_connection_string(self) -> str:
        """``host:port`` for clients on this machine."""
        return self.address

    def secure_by(self, security: ContainerSecurity) -> None:
        """Serve, from the next start on, clients with a certificate of ``security``, over TLS, and no others."""
        secured = security.zookeeper_properties((self.name_among_brokers, self.host))
        self.with_envs(
            ZOO_SERVERS=_WITHOUT_A_PLAIN_PORT,
            ZOO_CFG_EXTRA=_words({**_PROPERTIES, **secured, "secureClientPort": str(self.port)}),
        )
        self.take(security.zookeeper_files())


def _words(properties: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in properties.items())
