"""The security of a local cluster: keys, users, and the properties that make brokers and clients use them.

Answers to: what the chapter "Security" of Kafka's documentation asks an operator to do. Blocking: files.

Clients reach the listener ``CLIENTS`` by SASL_SSL and log in by SCRAM-SHA-512. Brokers reach each other on the listener
``BROKERS`` by TLS with client certificates, so that they need no password before the first one has started.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from kafkalite.common.errors import StartupError
from kafkalite.embedded.whole_files import write_private
from kafkalite.security.scram_credentials import SCRAM_SHA_512, ScramCredential
from kafkalite.spark.client.config import ClientConfig, SaslConfig, SslConfig
from kafkalite.zk.session_security import ZkSecurity, ZkTls, tls_context

if TYPE_CHECKING:
    from kafkalite.embedded.certificates import CertificateAuthority

FOLDER = "security"
CLIENTS, BROKERS = "CLIENTS", "BROKERS"
"""Names of the two listeners."""
ADMIN, CLIENT = "admin", "client"
"""Users: the super user, and the one who has no ACL until one is granted."""
USERS = (ADMIN, CLIENT)
BROKER_NAME = "broker"
"""Common name of every broker's certificate. One for all, because ZooKeeper's ACLs let in the name that wrote them."""
ZOOKEEPER_CLIENT = "zookeeper-client"
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
ITERATIONS = 4096
"""Of SCRAM, as Kafka's tool has it: the passwords are random and long."""
_USERS_FILE = "users.json"
_PASSWORD_BYTES = 24


class ClusterSecurity:
    """What is in the folder ``security`` of a local cluster's directory: own CA, keys, and passwords.

    :meth:`create` makes it, :meth:`find` finds it again.
    """

    def __init__(self, folder: Path, passwords: Mapping[str, str]) -> None:
        self.folder = folder
        self._passwords = dict(passwords)

    @classmethod
    def create(cls, directory: Path) -> ClusterSecurity:
        """The security of the cluster in ``directory``, made if it has none.

        Raises :class:`StartupError` if the package ``cryptography`` is missing.
        """
        found = cls.find(directory)
        if found is not None:
            return found
        folder = directory.absolute() / FOLDER
        passwords = {user: secrets.token_hex(_PASSWORD_BYTES) for user in USERS}
        security = cls(folder, passwords)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        certificate_authority(security.ca_file).create()
        for user in USERS:
            write_private(security.properties_file(user), _lines(security.login_properties(user)))
        security.write_zookeeper_properties()
        # Last, because this file is the sign that all others are there.
        write_private(folder / _USERS_FILE, json.dumps(passwords, indent=2) + "\n")
        return security

    @classmethod
    def find(cls, directory: Path) -> ClusterSecurity | None:
        """The security of the cluster in ``directory``; ``None`` if it has none."""
        folder = directory.absolute() / FOLDER
        try:
            passwords = json.loads((folder / _USERS_FILE).read_text())
        except FileNotFoundError:
            return None
        return cls(folder, passwords)

    # Files

    @property
    def ca_file(self) -> Path:
        """The certificate of the CA, which clients, brokers and ZooKeeper trust."""
        return self.folder / "ca.pem"

    def key_file(self, server: str) -> Path:
        """Key and certificate of ``broker-1``, ``zookeeper`` and so on; made by :meth:`issue`."""
        return self.folder / f"{server}.pem"

    def properties_file(self, user: str) -> Path:
        """The user's client properties in a file, for ``--command-config`` and the like."""
        return self.folder / f"{user}.properties"

    def issue(self, server: str, common_name: str, hosts: Sequence[str] = LOCAL_HOSTS) -> Path:
        """:meth:`key_file` of ``server``, made if it is missing."""
        file = self.key_file(server)
        if not file.exists():
            certificate_authority(self.ca_file).issue(file, common_name, hosts)
        return file

    # Properties

    def broker_properties(
        self,
        broker_id: int,
        hosts: Sequence[str] = LOCAL_HOSTS,
        *,
        of_clients: Sequence[str] = (CLIENTS,),
        of_brokers: str = BROKERS,
        folder: PurePath | None = None,
    ) -> dict[str, str]:
        """Properties of ``server.properties``, without the addresses of the listeners.

        ``of_clients`` and ``of_brokers`` are the names of the listeners; ``folder`` is where the broker finds the key
        and the CA's certificate, if that is not :attr:`folder`.
        """
        key = self.issue(f"broker-{broker_id}", BROKER_NAME, hosts)
        seen, scram = folder or self.folder, SCRAM_SHA_512.name
        protocols = {**dict.fromkeys(of_clients, "SASL_SSL"), of_brokers: "SSL"}
        logins = (f"listener.name.{listener.lower()}.{scram.lower()}.sasl.jaas.config" for listener in of_clients)
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": of_brokers,
            **_stores("ssl", seen / key.name, seen / self.ca_file.name),
            f"listener.name.{of_brokers.lower()}.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": scram,
            **dict.fromkeys(logins, "org.apache.kafka.common.security.scram.ScramLoginModule required;"),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{ADMIN};User:CN={BROKER_NAME}",
            **_zookeeper_connection(seen / key.name, seen / self.ca_file.name),
            "zookeeper.set.acl": "true",
        }

    def zookeeper_properties(
        self, hosts: Sequence[str] = LOCAL_HOSTS, *, folder: PurePath | None = None
    ) -> dict[str, str]:
        """Properties of ``zoo.cfg``, without the address: only clients with a certificate of the CA are served.

        ``folder`` as in :meth:`broker_properties`.
        """
        key = self.issue("zookeeper", "zookeeper", hosts)
        seen = folder or self.folder
        return {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(seen / key.name),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(seen / self.ca_file.name),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",
            # ZooKeeper's client in Kafka begins with TLS 1.2.
            "ssl.enabledProtocols": "TLSv1.3,TLSv1.2",
        }

    def write_zookeeper_properties(self) -> None:
        """The file for ``--zk-tls-config-file`` of tools that may do in ZooKeeper what brokers may."""
        key = self.issue(ZOOKEEPER_CLIENT, BROKER_NAME)
        write_private(self.properties_file("zookeeper"), _lines(_zookeeper_connection(key, self.ca_file)))

    def write_page_properties(self) -> Path:
        """The file for ``--listen-config`` of the dashboard: a key of its own, and the super user."""
        key = self.issue("dashboard", "dashboard")
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        properties = {
            "ssl.keystore.location": str(key),
            "ssl.keystore.type": "PEM",
            "plain.sasl.jaas.config": f'{module} required user_{ADMIN}="{self._passwords[ADMIN]}";',
        }
        write_private(self.properties_file("dashboard"), _lines(properties))
        return self.properties_file("dashboard")

    def zookeeper_security(self) -> ZkSecurity:
        """How a client connects to ZooKeeper that may do what brokers may."""
        key = self.issue(ZOOKEEPER_CLIENT, BROKER_NAME)
        return ZkSecurity(ZkTls(key.read_bytes(), self.ca_file.read_bytes(), protocols=("TLSv1.2", "TLSv1.3")))

    def zookeeper_client(self) -> ssl.SSLContext:
        """TLS of such a client."""
        tls = self.zookeeper_security().tls
        assert tls is not None
        return tls_context(tls)

    def login_properties(self, user: str) -> dict[str, str]:
        """Properties by which ``user`` logs in, in librdkafka's spelling, without the addresses of the brokers."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca_file),
            "sasl.mechanism": SCRAM_SHA_512.name,
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }

    def logins(self) -> dict[str, dict[str, str]]:
        """:meth:`login_properties` of every user."""
        return {user: self.login_properties(user) for user in self._passwords}

    def client_config(self, user: str) -> ClientConfig:
        """How a blocking client connects as ``user``."""
        return ClientConfig(
            (),
            client_id="kafkalite-probe",
            security_protocol="SASL_SSL",
            ssl=SslConfig(truststore_location=str(self.ca_file)),
            sasl=SaslConfig(SCRAM_SHA_512.name, user, self._passwords[user]),
        )

    def credentials(self) -> dict[str, dict[str, str]]:
        """The configuration of each user in ``/config/users``, with a new salt."""
        return {
            user: {
                SCRAM_SHA_512.name: ScramCredential.from_password(
                    SCRAM_SHA_512, password, os.urandom(32), ITERATIONS
                ).text()
            }
            for user, password in self._passwords.items()
        }


def certificate_authority(certificate: Path) -> CertificateAuthority:
    """The authority of ``certificate``. Raises :class:`StartupError` if the package ``cryptography`` is missing."""
    try:
        from kafkalite.embedded.certificates import CertificateAuthority
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise StartupError(
            "a secured cluster needs the package cryptography: pip install 'kafkalite[testing]'"
        ) from None
    return CertificateAuthority(certificate)


def _zookeeper_connection(key: PurePath, trusted: PurePath) -> dict[str, str]:
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        **_stores("zookeeper.ssl", key, trusted),
    }


def _lines(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def _stores(prefix: str, key: PurePath, trusted: PurePath) -> dict[str, str]:
    return {
        f"{prefix}.keystore.location": str(key),
        f"{prefix}.keystore.type": "PEM",
        f"{prefix}.truststore.location": str(trusted),
        f"{prefix}.truststore.type": "PEM",
    }
