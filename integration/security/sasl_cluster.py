"""Clusters whose brokers have a SASL listener beside the plain one, and the settings of each client library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from integration.conftest import ClusterFactory
from integration.harness.java import KAFKA_3_9, Result, run_tool
from integration.harness.raw import RawClient
from kafkalite.broker.properties import load_properties
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENER: Final = "CLIENT"
PASSWORD: Final = "planted-password-9f3c"
BROKER_PASSWORD: Final = "planted-broker-password-71d0"
USERS: Final = {"alice": PASSWORD, "bob": "planted-password-of-bob-02e7", "broker": BROKER_PASSWORD}


class Login(NamedTuple):
    """What a client shows of itself."""

    mechanism: str
    user: str = "alice"
    password: str = PASSWORD

    @property
    def jaas(self) -> str:
        """The login module for Java, with its options."""
        module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
        return f'{module} required username="{self.user}" password="{self.password}";'

    def librdkafka(self, bootstrap: str) -> dict[str, str]:
        """Settings of librdkafka."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }

    def python(self, bootstrap: str) -> dict[str, str]:
        """Settings of kafka-python and of aiokafka."""
        return {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }

    def properties(self, path: Path) -> Path:
        """A file of client properties for Java's tools and ours."""
        lines = [
            "security.protocol=SASL_PLAINTEXT",
            f"sasl.mechanism={self.mechanism}",
            f"sasl.jaas.config={self.jaas}",
        ]
        path.write_text("\n".join([*lines, ""]))
        return path


class SaslCluster:
    """Brokers with a listener ``CLIENT`` of ``protocol`` on ``host``. ``settings`` are of every broker."""

    def __init__(
        self,
        make_cluster: ClusterFactory,
        settings: Mapping[str, str] | None = None,
        brokers: int = 1,
        protocol: str = "SASL_PLAINTEXT",
        host: str = "127.0.0.1",
    ) -> None:
        self._host = host
        prefix = f"listener.name.{LISTENER.lower()}"
        users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
        broker = f'username="broker" password="{BROKER_PASSWORD}"'
        jaas = {
            f"{prefix}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {broker} {users};",
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required {broker};",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required {broker};",
        }
        common = {"sasl.enabled.mechanisms": ",".join(MECHANISMS), **jaas, **(settings or {})}
        self.cluster: LocalCluster = make_cluster(brokers, common, start=False)
        self.cluster.directory.mkdir(parents=True)
        self.cluster.start_zookeeper()
        self._ports = dict(zip(self.cluster.broker_ids, free_ports(brokers), strict=True))
        for broker_id, port in self._ports.items():
            plain = load_properties(self.cluster._write_properties(broker_id))
            self.cluster.override_broker(
                broker_id,
                {
                    "listeners": f"{plain['listeners']},{LISTENER}://{host}:{port}",
                    "listener.security.protocol.map": f"{plain['listener.security.protocol.map']},"
                    f"{LISTENER}:{protocol}",
                },
            )

    def start(self) -> SaslCluster:
        """Start the brokers."""
        self.cluster.start()
        return self

    def address(self, broker_id: int = 1) -> str:
        """``host:port`` of a broker's SASL listener."""
        return f"{self._host}:{self._ports[broker_id]}"

    @property
    def bootstrap(self) -> str:
        """``host:port,…`` of the SASL listeners of all brokers."""
        return ",".join(self.address(broker_id) for broker_id in self._ports)

    def set_password(self, user: str, password: str, *mechanisms: str, iterations: int = 4096) -> None:
        """Write the credentials of ``user`` by Kafka's tool, through a broker."""
        credentials = ",".join(f"{each}=[iterations={iterations},password={password}]" for each in mechanisms)
        self.alter_user(user, "--add-config", credentials)

    def alter_user(self, user: str, *arguments: str) -> Result:
        """One change of a user by Kafka's tool, through a broker."""
        return self._configs(user, "--alter", *arguments)

    def describe_user(self, user: str) -> str:
        """What Kafka's tool says of a user."""
        return self._configs(user, "--describe").out

    def _configs(self, user: str, *arguments: str) -> Result:
        where = ("--bootstrap-server", self.cluster.bootstrap, "--entity-type", "users", "--entity-name", user)
        return run_tool(KAFKA_3_9, "kafka.admin.ConfigCommand", *where, *arguments)

    def connect(self, broker_id: int = 1) -> RawClient:
        """A connection that has not authenticated."""
        return RawClient(self.address(broker_id))
