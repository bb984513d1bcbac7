"""One broker with every kind of secured listener."""

from __future__ import annotations

from pathlib import Path

import psutil

from integration.conftest import TEST_OVERRIDES
from integration.faults.cluster import create_topic
from integration.security.sasl_cluster import PASSWORD, PLAIN_MODULE, SCRAM_MODULE
from integration.security.stores import Stores
from integration.security.strangers import Door
from kafkalite.broker.properties import load_properties
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.spark.client.config import ClientConfig, SaslConfig, SslConfig
from kafkalite.spark.client.connection import SparkConnection

HOST, TOPIC = "127.0.0.1", "healthy"
LISTENERS = {
    "TLS": ("SSL", False),
    "TLS_ASKS": ("SSL", True),
    "SASL": ("SASL_PLAINTEXT", False),
    "SASL_TLS": ("SASL_SSL", False),
    "SASL_TLS_ASKS": ("SASL_SSL", True),
}
"""Name → security protocol, and whether it demands certificates of clients."""
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


class SecuredBroker:
    """One broker with all of :data:`LISTENERS`, on which alice may log in by PLAIN or by her certificate."""

    def __init__(self, directory: Path) -> None:
        self.stores = Stores(directory / "stores")
        self.stores.issue("broker")
        self.stores.issue("alice", "alice@example.org", common_name="alice")
        self._forger = Stores(directory / "forger")
        self._forger.issue("alice", "alice@example.org", common_name="alice")
        self.cluster = LocalCluster(directory / "cluster", 1, overrides={**TEST_OVERRIDES, **self._settings()})
        self.cluster.directory.mkdir(parents=True)
        self.cluster.start_zookeeper()
        self.ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        plain = load_properties(self.cluster._write_properties(1))
        listeners = [plain["listeners"], *(f"{name}://{HOST}:{port}" for name, port in self.ports.items())]
        protocols = [plain["listener.security.protocol.map"]]
        protocols += [f"{name}:{protocol}" for name, (protocol, _) in LISTENERS.items()]
        self.cluster.override_broker(
            1, {"listeners": ",".join(listeners), "listener.security.protocol.map": ",".join(protocols)}
        )
        self.cluster.start()
        create_topic(self.cluster, TOPIC, 1)
        self.process = psutil.Process(self.cluster.pid(1))

    def _settings(self) -> dict[str, str]:
        settings = {
            **self.stores.properties("broker", "PEM"),
            # With Kafka's backlog of 50 many of the strangers' connections are retried after a second (KIP-764).
            "socket.listen.backlog.size": "2000",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        }
        for name, (protocol, asks) in LISTENERS.items():
            prefix = f"listener.name.{name.lower()}"
            if protocol.startswith("SASL"):
                settings |= {
                    f"{prefix}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{PASSWORD}";',
                    f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
                    f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
                    f"{prefix}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
                    f"{prefix}.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
                }
            if asks:
                settings[f"{prefix}.ssl.client.auth"] = "required"
        return settings

    def door(self, name: str) -> Door:
        """A listener as a stranger sees it."""
        protocol, asks = LISTENERS[name]
        authority, forged = self.stores.path("ca.pem"), self._forger.path("alice.pem")
        return Door(self.ports[name], protocol, str(authority), str(forged), asks)

    def address(self, name: str) -> tuple[str, int]:
        """Host and port of a listener."""
        return HOST, self.ports[name]

    def client_config(self, name: str) -> ClientConfig:
        """With which alice logs in to a listener."""
        protocol, asks = LISTENERS[name]
        key = str(self.stores.path("alice.pem")) if asks else None
        trusted = SslConfig(truststore_location=str(self.stores.path("ca.pem")), keystore_location=key)
        sasl = SaslConfig("PLAIN", "alice", PASSWORD) if protocol.startswith("SASL") else None
        return ClientConfig((), client_id="healthy", security_protocol=protocol, ssl=trusted, sasl=sasl)

    def login(self, name: str) -> SparkConnection:
        """A connection on which alice has logged in."""
        return SparkConnection(*self.address(name), self.client_config(name))

    @property
    def memory(self) -> int:
        """Resident bytes of the broker."""
        return int(self.process.memory_info().rss)

    @property
    def connections(self) -> int:
        """How many connections to the secured listeners the broker has open."""
        ports = self.ports.values()
        found = self.process.net_connections("tcp4")
        return sum(each.status == psutil.CONN_ESTABLISHED and each.laddr.port in ports for each in found)

    def complaints(self) -> list[str]:
        """Lines of the log about failures of the broker itself."""
        lines = self.cluster.log_file(1).read_text().splitlines()
        return [line for line in lines if "Traceback" in line or " ERROR " in line or " CRITICAL " in line]
