"""The security of a cluster in containers: its files on this machine, and the part of them that each container gets.

Answers to: ``kafkalite cluster start --secure``, for containers. Blocking: files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from kafkalite.embedded.cluster import CHROOT
from kafkalite.embedded.security import LOCAL_HOSTS, USERS, ClusterSecurity
from kafkalite.embedded.users import register_users
from kafkalite.spark.client.config import ClientConfig
from kafkalite.testing.container_files import ContainerFiles
from kafkalite.zk.session_security import ZkSecurity

FOLDER = PurePosixPath("/etc/kafkalite/security")
"""Where a container finds its key and the certificate of the authority."""
BROKER_USER, ZOOKEEPER_USER = 1001, 1000
"""User ids of the processes in the images."""


class ContainerSecurity:
    """Authority, keys and passwords, made for one run of the containers, in a folder that :meth:`close` removes."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="kafkalite-")
        self._security = ClusterSecurity.create(Path(self._folder.name))

    def close(self) -> None:
        """Remove all files."""
        self._folder.cleanup()

    # Containers

    def broker_properties(
        self, broker_id: int, hosts: Sequence[str], of_clients: Sequence[str], of_brokers: str
    ) -> dict[str, str]:
        """Properties of ``server.properties``. ``hosts``: names by which the broker is reached, beside this machine's.

        ``of_clients`` and ``of_brokers`` are names of listeners.
        """
        names = _names(hosts)
        return self._security.broker_properties(
            broker_id, names, of_clients=of_clients, of_brokers=of_brokers, folder=FOLDER
        )

    def broker_files(self, broker_id: int) -> ContainerFiles:
        """The files that the properties of a broker name."""
        return self._files(BROKER_USER, self._security.key_file(f"broker-{broker_id}"))

    def zookeeper_properties(self, hosts: Sequence[str]) -> dict[str, str]:
        """Properties of ``zoo.cfg``."""
        return self._security.zookeeper_properties(_names(hosts), folder=FOLDER)

    def zookeeper_files(self) -> ContainerFiles:
        """The files that the properties of ZooKeeper name."""
        return self._files(ZOOKEEPER_USER, self._security.key_file("zookeeper"))

    # This machine

    def register_users(self, zookeeper: str) -> None:
        """Write the users into ZooKeeper. Raises :class:`StartupError` if ZooKeeper does not answer."""
        register_users(zookeeper, self._security.credentials(), self.zookeeper)

    def login_properties(self, user: str) -> dict[str, str]:
        """Properties by which ``user`` logs in, in librdkafka's spelling, without the addresses of the brokers."""
        return self._security.login_properties(user)

    @property
    def client_configs(self) -> list[ClientConfig]:
        """How a blocking client connects, as each of the users."""
        return [self._security.client_config(user) for user in USERS]

    @property
    def zookeeper(self) -> ZkSecurity:
        """How a client connects to ZooKeeper that may do what brokers may."""
        return self._security.zookeeper_security()

    def _files(self, owner: int, key: Path) -> ContainerFiles:
        return ContainerFiles(FOLDER, owner, {file.name: file.read_bytes() for file in (key, self._security.ca_file)})


def chroot(address: str) -> str:
    """The connection string of a secured cluster's ZooKeeper at ``address``."""
    return f"{address}/{CHROOT}"


def _names(hosts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*LOCAL_HOSTS, *hosts)))
