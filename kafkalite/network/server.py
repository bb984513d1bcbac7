"""The broker's front door: accepts connections, reads requests, writes answers in order.

Answers to: ``kafka.network.{SocketServer,Acceptor,Processor,ConnectionQuotas}``. Reactor shell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkalite.common.tasks import Executor
from kafkalite.network.request import RequestHandler


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Bounds. Bytes, counts and seconds; ``max_inflight_bytes`` bounds all requests that are in memory at once."""

    max_request_bytes: int = 104_857_600
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    idle_timeout: float = 600.0
    max_inflight_bytes: int = 536_870_912
    max_inflight_requests: int = 1000
    max_unsent_bytes: int = 67_108_864
    backlog: int = 512


class KafkaServer:
    """All listeners of one broker. ``reactor`` is Twisted's; ``executor`` warms cold files up before they are sent."""

    def __init__(
        self,
        reactor: Any,
        handler: RequestHandler,
        limits: NetworkLimits | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.handler = handler

    def listen(self, host: str, port: int, listener: str = "PLAINTEXT") -> int:
        """Open a listener; ``port`` 0 takes a free one. Returns the port. Raises :class:`StartupError`."""
        raise NotImplementedError

    @property
    def connections(self) -> int:
        """How many connections are open."""
        raise NotImplementedError

    async def stop(self, grace: float = 1.0) -> None:
        """Accept and read nothing more, give answers under way ``grace`` seconds, close everything."""
        raise NotImplementedError
