"""What a handler knows of the request besides its fields.

Answers to: ``RequestContext`` of Kafka. Pure.
"""

from __future__ import annotations

from kafkalite.apis.services import BrokerServices
from kafkalite.network.request import ConnectionInfo


class RequestContext:
    """The broker's services, the version in which the client speaks, and the connection that it came by."""

    __slots__ = ("client_id", "connection", "services", "version")

    def __init__(
        self, services: BrokerServices, version: int, connection: ConnectionInfo, client_id: str | None = None
    ) -> None:
        self.services = services
        self.version = version
        self.connection = connection
        self.client_id = client_id
