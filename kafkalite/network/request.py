"""One request on its way through the broker, and whom it goes to.

Answers to: ``kafka.network.RequestChannel.Request`` and ``common.requests.RequestContext``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkalite.common.types import Part
from kafkalite.protocol.frames import RequestHeader


class ConnectionInfo:
    """Who is at the other end. ``software_name`` and ``software_version`` come with ApiVersions (KIP-511).

    ``waiting``: by its number, what gives a request up that waits for long; called once the connection is gone.
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
        """Send ``parts`` in answer to ``request``; ``None``: it gets no answer."""

    def abort(self, why: str) -> None:
        """Close at once."""


class Request:
    """A request with its own memory: ``body`` is writable and stays valid for as long as anybody holds it.

    ``received`` is a monotonic time in seconds. Exactly one of the three calls is to be made; later ones are ignored.
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
        """The request waits, perhaps for days: ``give_up`` is called should the client go away meanwhile."""
        info = self._responder.info
        if info.waiting is None:
            info.waiting = {}
        info.waiting[self.sequence] = give_up

    def respond(self, parts: list[Part]) -> None:
        """Answer with these body parts (length and header are added); sent when all earlier requests are answered."""
        self._responder.respond(self, parts)

    def respond_nothing(self) -> None:
        """This request gets no answer (Produce with acks 0)."""
        self._responder.respond(self, None)

    def close_connection(self, why: str) -> None:
        """Close the connection; ``why`` goes to the log."""
        self._responder.abort(why)


class RequestHandler(Protocol):
    """Where complete requests go."""

    def handle(self, request: Request) -> None:
        """Take the request; called on the reactor, must not block."""
