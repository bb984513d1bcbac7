"""A container that keeps its port, and its networks: the base of the containers of brokers and ZooKeeper.

Answers to: ``testcontainers.core.container.DockerContainer``. Blocking.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from docker.errors import APIError
from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

from kafkalite.embedded.processes import free_ports
from kafkalite.testing.container_files import ContainerFiles

ATTEMPTS = 3
LOG_LINES = 20
_PORT_TAKEN = ("port is already allocated", "address already in use")


class NetworkLink(Network):
    """An internal network of containers, without a way out; ports are published on another network."""

    def __init__(self) -> None:
        super().__init__(docker_network_kw={"internal": True})

    def disconnect(self, container_id: str) -> None:
        """Disconnect a container: the others get no answers from it, as behind a cut cable."""
        self._unwrap_network.disconnect(container_id)

    def discard(self) -> None:
        """Remove it, if it was made."""
        if self._network is not None:
            self.remove()
            self._network = None


class LinkedClient(DockerClient):
    """A Docker client that connects a container to all its networks, and puts its files there, before the start."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.more_networks: list[tuple[NetworkLink, str]] = []
        self.files: Sequence[ContainerFiles] = ()

    def start(self, container: Any) -> None:
        for network, alias in self.more_networks:
            network.connect(container.id, [alias])
        for files in self.files:
            # Copied, not mounted, because the daemon may be on another machine.
            container.put_archive("/", files.archive())
        super().start(container)


class FixedPortContainer(DockerContainer):
    """A container whose port on this machine is chosen before it starts, and stays its own when it starts again."""

    def __init__(self, image: str, port: int, name: str, **kwargs: Any) -> None:
        super().__init__(image, **kwargs)
        self.port = port
        self.host_port = 0
        self.name_among_brokers = name
        self.links: dict[str, NetworkLink] = {}
        self._docker = self._client = LinkedClient(**kwargs.get("docker_client_kw", {}))

    @property
    def address(self) -> str:
        """``host:port`` for this machine."""
        return f"{self.host}:{self.host_port}"

    @property
    def host(self) -> str:
        """The address of its port for this machine; known before the start, unlike testcontainers' own answer."""
        if self._client.get_connection_mode() is ConnectionMode.docker_host:
            return str(self._client.host())
        # This process is in a container, and ports are published on the daemon's machine, the bridge's gateway.
        bridge = self._client.client.networks.get("bridge").attrs["IPAM"]["Config"][0]
        return str(bridge.get("Gateway") or ipaddress.ip_network(bridge["Subnet"])[1])

    def take(self, *files: ContainerFiles) -> None:
        """From its next start on the container finds ``files``, and none of those before."""
        self._client.files = files

    def launch(self) -> None:
        """Start it without waiting until it serves. Raises ``docker.errors.APIError``."""
        self._client.more_networks = [(network, self.name_among_brokers) for network in self.links.values()]
        for attempt in range(1, ATTEMPTS + 1):
            [self.host_port] = free_ports(1, "0.0.0.0")
            self.with_bind_ports(self.port, self.host_port)
            try:
                DockerContainer.start(self)
            except APIError as error:
                # Try again, because another process may have taken the port that was free a moment ago.
                if attempt == ATTEMPTS or not any(words in str(error) for words in _PORT_TAKEN):
                    raise
                self.discard()
            else:
                return

    def discard(self) -> None:
        """Remove it and its data, if it was made."""
        if self._container is not None:
            self._container.remove(force=True, v=True)
            self._container = None

    def leave(self, link: str) -> None:
        """Disconnect it from a network."""
        self.links[link].disconnect(self.get_container_id())

    def join(self, link: str) -> None:
        """Connect it to a network again."""
        self.links[link].connect(self.get_container_id(), [self.name_among_brokers])

    @property
    def state(self) -> str:
        """Docker's state: ``running``, ``paused``, ``exited`` and so on."""
        container = self.get_wrapped_container()
        container.reload()
        return str(container.status)

    def last_lines(self) -> str:
        """The last lines of its output."""
        lines = b"".join(self.get_logs()).decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])
