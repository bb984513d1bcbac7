"""How clients connect to the clusters of users' tests.

Answers to: ``KafkaClusterTestKit.ClientPropertiesBuilder``. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from kafkalite.embedded.security import ADMIN, CLIENT


class ClientProperties(ABC):
    """The properties of clients of confluent-kafka.

    A secured cluster has two users: ``client``, who has no ACL until one is granted, and ``admin``, the super user.
    """

    @abstractmethod
    def get_bootstrap_server(self) -> str:
        """``host:port,…`` for clients on this machine."""

    @abstractmethod
    def _login_properties(self, user: str) -> dict[str, str]:
        """Properties by which ``user`` logs in; none for an open cluster."""

    def get_client_properties(self, user: str = CLIENT) -> dict[str, str]:
        """``bootstrap.servers``, and how ``user`` logs in: for an open cluster the former alone."""
        return {"bootstrap.servers": self.get_bootstrap_server(), **self._login_properties(user)}

    @property
    def client(self) -> dict[str, str]:
        """:meth:`get_client_properties` of the ordinary user; ``ssl.ca.location`` is the authority's certificate."""
        return self.get_client_properties(CLIENT)

    @property
    def admin(self) -> dict[str, str]:
        """:meth:`get_client_properties` of the super user."""
        return self.get_client_properties(ADMIN)
