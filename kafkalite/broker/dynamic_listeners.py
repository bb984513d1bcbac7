"""The listeners of a running broker: bound at its start, opened and closed as ``/config/brokers`` says.

Answers to: ``kafka.server.DynamicListenerConfig`` and ``SocketServer.{addListeners,removeListeners}``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.listeners import LISTENER_KEYS, Listening
from kafkalite.cluster.model import Endpoint
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.network.endpoint_security import ListenerSecurity
from kafkalite.network.server import KafkaServer

log = logging.getLogger(__name__)


class DynamicListeners:
    """Opens and closes ports of ``server`` as the configuration in force says. The control plane keeps its port.

    ``static`` are the listeners of server.properties, used if those in ZooKeeper are wrong. A listener whose address
    changes is closed and opened again. ``security`` says how the connections of a listener are secured. ``on_change``
    is called after :attr:`advertised` changed.
    """

    def __init__(
        self,
        static: Listening,
        dynamic: DynamicConfig,
        server: KafkaServer,
        security: Callable[[Endpoint], ListenerSecurity],
        on_change: Callable[[], object],
    ) -> None:
        self._listening = static
        self._dynamic = dynamic
        self._server = server
        self._security = security
        self._on_change = on_change
        self._ports: dict[str, int] = {}

    @property
    def advertised(self) -> tuple[Endpoint, ...]:
        """The addresses at which clients and brokers reach this broker, after :meth:`bind`."""
        return self._listening.reachable(self._ports)

    def bind(self) -> None:
        """Bind all ports without serving yet. Raises :class:`StartupError`."""
        self._listening = self._configured() or self._listening
        for endpoint in self._listening.bound:
            self._ports[endpoint.listener] = self._server.bind(
                endpoint.host, endpoint.port, endpoint.listener, self._security(endpoint)
            )

    def queue(self) -> None:
        """Let connections wait until :meth:`open`. Raises :class:`StartupError`."""
        self._server.queue()

    def open(self) -> None:
        """Serve, and follow changes. Raises :class:`StartupError`."""
        self._server.open()
        self._dynamic.on_change(self._follow)
        self._apply()

    def _configured(self) -> Listening | None:
        try:
            return Listening.parse(self._dynamic.values)
        except ConfigError as error:
            log.error("Ignored the dynamic configuration of listeners: %s", error)
            return None

    def _follow(self, names: frozenset[str]) -> None:
        if not names.isdisjoint(LISTENER_KEYS):
            self._apply()

    def _apply(self) -> None:
        wanted = self._configured()
        if wanted is None or wanted == self._listening:
            return
        old, new = self._listening.of_clients, wanted.of_clients
        try:
            opened = self._server.bind_all(
                [
                    (each.host, each.port, name, self._security(each))
                    for name, each in new.items()
                    if old.get(name) != each
                ]
            )
        except (ConfigError, StartupError) as error:
            log.error("Listeners stay as they are: %s", error)
            return
        for name in sorted(name for name, each in old.items() if new.get(name) != each):
            self._server.close_listener(name)
            del self._ports[name]
        self._server.open()
        self._ports.update(opened)
        self._listening = wanted
        self._on_change()
