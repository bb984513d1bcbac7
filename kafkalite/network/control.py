"""The control plane: controller and brokers talking in msgpack frames on a listener of their own.

Answers to: ``kafka.controller.ControllerChannelManager`` and the control-plane ``SocketServer`` (KIP-291). Reactor shell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.cluster.control import ControlRequest, ControlResponse
from kafkalite.cluster.model import Endpoint

ControlHandler = Callable[[ControlRequest], Awaitable[ControlResponse]]


class ControlServer:
    """Serves control requests, each connection's in order."""

    def __init__(self, reactor: Any, handler: ControlHandler) -> None:
        self.handler = handler

    def listen(self, host: str, port: int) -> int:
        """Open the listener; returns the port. Raises :class:`StartupError`."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Close everything."""
        raise NotImplementedError


class ControlClient:
    """Sends control requests; one connection a broker, made when needed."""

    def __init__(self, reactor: Any) -> None:
        pass

    def send(self, endpoint: Endpoint, request: ControlRequest, timeout: float = 30.0) -> Awaitable[ControlResponse]:
        """Send; requests to one endpoint are handled in the order of the calls. Raises :class:`ConnectionLost`."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections."""
        raise NotImplementedError
