"""A request, the connection that it came on, and the handler that takes it.

Answers to: ``kafka.network.RequestChannel.Request`` and ``common.requests.RequestContext``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkalite.common.types import Part
from kafkalite.protocol.frames import RequestHeader


class ConnectionInfo:
    """The client of a connection. ``software_name`` and ``software_version`` come with ApiVersions (KIP-511).

    ``waiting``: number of a request that waits → what cancels it; called when the connection is closed.
    """

    __slots__ = ("id", "listener", "peer", "principal", "software_name", "software_version", "waiting")

    def __init__(self, id: int, peer: str, listener: str, principal: str = "User:ANONYMOUS") -> None:
        self.id = id
        self.peer = peer
        self.listener = listener
        self.principal = principal
        self.software_name = ""
        self.software_version = ""
        self.waiting: dict[int, Callable[[], object]] | None = None


class Responder(Protocol):
    """The connection as a request sees it."""

    info: ConnectionInfo

    def respond(self, request: Request, parts: list[Part] | None) -> None:
        """Answer ``request`` with ``parts``, or not at all (``None``)."""

    def abort(self, why: str) -> None:
        """Close the connection at once; ``why`` goes to the log."""


class Request:
    """A request with its own memory: ``body`` is writable and stays valid for as long as it is referenced.

    ``received`` is a monotonic time in seconds. The handler calls :meth:`respond`, :meth:`respond_nothing` or
    :meth:`close_connection` once; later calls are ignored.
    ``sequence`` is the request's number on its connection.
    """

    __slots__ = ("_responder", "answered", "body", "header", "received", "sequence", "size")

    def __init__(
        self,
        header: RequestHeader,
        body: memoryview,
        responder: Responder,
        received: float,
        size: int = 0,
        sequence: int = 0,
    ) -> None:
        self.header = header
        self.body = body
        self.received = received
        self.size = size
        self.sequence = sequence
        self.answered = False
        self._responder = responder

    @property
    def connection(self) -> ConnectionInfo:
        """The connection that the request came on."""
        return self._responder.info

    def wait(self, give_up: Callable[[], object]) -> None:
        """The request waits, perhaps for days: ``give_up`` is called if the client disconnects meanwhile."""
        info = self._responder.info
        if info.waiting is None:
            info.waiting = {}
        info.waiting[self.sequence] = give_up

    def respond(self, parts: list[Part]) -> None:
        """Answer with these parts of a body (length and header are added), after the answers to earlier requests."""
        self._responder.respond(self, parts)

    def respond_nothing(self) -> None:
        """This request gets no answer (Produce with acks 0)."""
        self._responder.respond(self, None)

    def close_connection(self, why: str) -> None:
        """Close the connection; ``why`` goes to the log."""
        self._responder.abort(why)


class RequestHandler(Protocol):
    """Takes complete requests: the broker's dispatcher."""

    def handle(self, request: Request) -> None:
        """Handle the request. Called on the reactor, must not block."""
