"""A request, the connection that it came on, and the handler that takes it.

Answers to: ``kafka.network.RequestChannel.Request`` and ``common.requests.RequestContext``. Reactor shell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from kafkalite.common.principals import ANONYMOUS, KafkaPrincipal
from kafkalite.common.types import Part
from kafkalite.protocol.frames import RequestHeader

_ON_CLOSE: Final = -1
"""Stands among the numbers of requests that wait."""


_NOTHING: Final = memoryview(b"")


class ConnectionInfo:
    """The client of a connection. ``software_name`` and ``software_version`` come with ApiVersions (KIP-511).

    ``ip`` is the address of the client as ACLs name hosts. ``principal`` is who the client is: it is anonymous until
    its certificate or SASL tells. ``decisions`` is what the authorizer keeps for the connection, of this principal
    only; ``usage`` is what quotas keep for it. ``waiting``: number of a request that waits → what cancels it; called
    when the connection is closed. ``opened`` is when the connection was accepted, in seconds of the monotonic clock.
    ``is_of_controller``: a request of the cluster's controller came on it.
    """

    __slots__ = (
        "decisions",
        "id",
        "ip",
        "is_of_controller",
        "listener",
        "opened",
        "peer",
        "principal",
        "security_protocol",
        "software_name",
        "software_version",
        "usage",
        "waiting",
    )

    def __init__(
        self,
        id: int,
        peer: str,
        listener: str,
        ip: str = "",
        security_protocol: str = "PLAINTEXT",
        principal: KafkaPrincipal = ANONYMOUS,
        *,
        opened: float = 0.0,
    ) -> None:
        self.id = id
        self.peer = peer
        self.listener = listener
        self.opened = opened
        self.ip = ip
        self.security_protocol = security_protocol
        self.principal = principal
        self.decisions: object | None = None
        self.usage: object | None = None
        self.is_of_controller = False
        self.software_name = ""
        self.software_version = ""
        self.waiting: dict[int, Callable[[], object]] | None = None

    def on_close(self, call: Callable[[], object]) -> None:
        """Call ``call`` when the connection is closed. A later call replaces an earlier one."""
        if self.waiting is None:
            self.waiting = {}
        self.waiting[_ON_CLOSE] = call


class Responder(Protocol):
    """The connection as a request sees it."""

    info: ConnectionInfo

    def respond(self, request: Request, parts: list[Part] | None) -> None:
        """Answer ``request`` with ``parts``, or not at all (``None``)."""

    def abort(self, why: str) -> None:
        """Close the connection at once; ``why`` goes to the log."""

    def release(self, size: int) -> None:
        """``size`` bytes of requests without an answer are no longer in memory."""

    def mute(self, seconds: float) -> None:
        """Take no request from the connection for that time; those that it has taken are answered."""


class RequestTimes:
    """When a request was received, its handler took it and returned, it was answered and its answer sent.

    All in seconds of the monotonic clock; ``processed`` is the time of the answer where the handler gave it.
    ``throttled`` are the seconds for which the request muted its connection, ``size`` its bytes. Once sent, it is
    added to ``latest``.
    """

    __slots__ = ("answered", "latest", "processed", "received", "sent", "size", "started", "throttled")

    def __init__(self, received: float, started: float, size: int, latest: deque[RequestTimes]) -> None:
        self.received = received
        self.started = self.processed = self.answered = self.sent = started
        self.throttled = 0.0
        self.size = size
        self.latest = latest

    def finish(self, sent: float) -> None:
        """The last byte of the answer was handed to the kernel."""
        self.sent = sent
        self.latest.append(self)


class Request:
    """A request with its own memory: ``body`` is writable and stays valid for as long as it is referenced.

    ``received`` is a monotonic time in seconds. The handler calls :meth:`respond`, :meth:`respond_nothing` or
    :meth:`close_connection` once; later calls are ignored.
    ``sequence`` is the request's number on its connection. ``began`` and ``spent`` are for quotas of time: since when
    the request is being handled (``None``: it waits, or has no quota), and for how many seconds it was handled before.
    ``held`` are the bytes that count as memory of the broker's requests.

    ``throttled`` are the seconds for which it muted its connection. ``times`` is set if the request is timed.
    ``is_of_follower``: it is the fetch of a follower.
    """

    __slots__ = (
        "_responder",
        "answered",
        "began",
        "body",
        "connection",
        "header",
        "held",
        "is_of_follower",
        "received",
        "sequence",
        "size",
        "spent",
        "throttled",
        "times",
    )

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
        self.throttled = 0.0
        self.times: RequestTimes | None = None
        self.is_of_follower = False
        self.size = self.held = size
        self.sequence = sequence
        self.answered = False
        self.began: float | None = None
        self.spent = 0.0
        self._responder = responder
        self.connection = responder.info
        """The connection that the request came on. No property, because each request reads it several times."""

    def release_body(self) -> None:
        """The body is needed no more: its memory is free for other requests, though the answer may take long."""
        self.body = _NOTHING
        if not self.answered:
            held, self.held = self.held, 0
            self._responder.release(held)

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

    def throttle(self, milliseconds: int) -> None:
        """Mute the connection for that time (KIP-219). Say so in the answer, and send it at once."""
        self.throttled = milliseconds / 1000
        self._responder.mute(self.throttled)

    def close_connection(self, why: str) -> None:
        """Close the connection; ``why`` goes to the log."""
        self._responder.abort(why)


class RequestHandler(Protocol):
    """Takes complete requests: the broker's dispatcher."""

    def handle(self, request: Request) -> None:
        """Handle the request. Called on the reactor, must not block."""
