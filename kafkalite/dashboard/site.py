"""The page over HTTP: its files, and one stream of server-sent events with every change.

Answers to: nothing in Kafka. Reactor shell (``twisted.web``).

A page of another site must neither read nor steer a cluster through the browser of the person who looks at it: the
``Host`` must be the address that is listened on (DNS rebinding), the ``Origin`` this one, and the page may load nothing
from elsewhere. What changes the cluster asks for more: see :mod:`kafkalite.dashboard.action_resource`.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from importlib import resources
from typing import Final, cast

from twisted.internet.interfaces import IPushProducer
from twisted.web.pages import forbidden, notFound
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from zope.interface import implementer

from kafkalite.common.clock import Clock
from kafkalite.dashboard.action_resource import MOST_BYTES, ActionResource, Changes
from kafkalite.dashboard.live_state import LiveState
from kafkalite.dashboard.page_login import PageLogin
from kafkalite.dashboard.tls_factory import TlsFactory

FILES: Final = {
    "index.html": "text/html; charset=utf-8",
    "dashboard.css": "text/css; charset=utf-8",
    "main.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "views.js": "text/javascript; charset=utf-8",
    "tree.js": "text/javascript; charset=utf-8",
    "actions.js": "text/javascript; charset=utf-8",
}
"""The files of the page, in ``kafkalite/dashboard/page``, with their types."""
MOST_PAGES: Final = 32
"""Pages that may be open at a time."""
LOGIN_DELAY: Final = 1.0
"""Seconds after which a failed login is answered."""
_TOKEN: Final = b"{{token}}"
"""Where the page has the token of changes."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def site(
    state: LiveState,
    hosts: Callable[[], frozenset[str]],
    clock: Clock,
    changes: Changes | None = None,
    login: PageLogin | None = None,
) -> Site | TlsFactory:
    """The HTTP site. ``hosts``: the values of ``Host`` that requests may have; ``changes``: the permission for them.

    With ``login`` it is served over TLS, and to its users only; ``clock`` delays the answer to others.
    """
    root = _Guarded(hosts, clock, login)
    page = resources.files("kafkalite.dashboard").joinpath("page")
    token = "" if changes is None else changes.token
    for name, kind in FILES.items():
        content = page.joinpath(name).read_bytes()
        if name == "index.html":
            content = content.replace(_TOKEN, escape(token, quote=True).encode())
        root.putChild(name.encode(), cast("IResource", _File(content, kind)))
    root.putChild(b"", root.children[b"index.html"])
    root.putChild(b"changes", cast("IResource", _Changes(state)))
    root.putChild(b"actions", cast("IResource", ActionResource(changes)))
    served = Site(root, requestFactory=_Request)
    return served if login is None else TlsFactory(served, login.tls)


class _Request(Request):
    """A request of a bounded size, because a body is kept before anything else is looked at."""

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
        """The size is announced; ``None``: it is not."""
        if length is None or length > MOST_BYTES:
            self.channel.loseConnection()
            length = 0
        super().gotLength(length)


class _Guarded(Resource):
    """Refuses requests that come through another site, before any resource sees them."""

    def __init__(self, hosts: Callable[[], frozenset[str]], clock: Clock, login: PageLogin | None) -> None:
        super().__init__()
        self._hosts = hosts
        self._clock = clock
        self._login = login

    def getChildWithDefault(self, path: bytes, request: Request) -> Resource:  # noqa: N802 - Twisted's name
        """The resource at ``path``, with the headers that all answers have."""
        for name, value in HEADERS.items():
            request.setHeader(name, value)
        host, origin = request.getHeader("host"), request.getHeader("origin")
        if host not in self._hosts():
            return forbidden(message="The dashboard answers at its own address only.")
        if origin is not None and origin != f"{'http' if self._login is None else 'https'}://{host}":
            return forbidden(message="The dashboard answers its own page only.")
        if self._login is not None:
            certificate = getattr(request.channel.transport, "certificate", None)
            if not self._login.is_user(certificate, request.getHeader("authorization") or ""):
                return _Unauthorized(self._clock)
        child: Resource = super().getChildWithDefault(path, request)
        return child

    def getChild(self, path: bytes, request: Request) -> Resource:  # noqa: N802, ARG002 - Twisted's name
        """Nothing else is here."""
        return notFound(message="There is no such page.")


class _Unauthorized(Resource):
    """Asks for a login, after a delay, so that passwords cannot be tried quickly."""

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def render(self, request: Request) -> int:
        """The answer to every method."""
        timer = self._clock.call_later(LOGIN_DELAY, lambda: self._answer(request))
        request.notifyFinish().addErrback(lambda _: timer.cancel())
        return NOT_DONE_YET

    def _answer(self, request: Request) -> None:
        request.setResponseCode(401)
        request.setHeader("WWW-Authenticate", 'Basic realm="kafkalite", charset="UTF-8"')
        request.setHeader("Content-Type", "text/plain; charset=utf-8")
        request.write(b"Log in as a user of this dashboard.\n")
        request.finish()


class _File(Resource):
    """A file of the page."""

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(self, content: bytes, kind: str) -> None:
        super().__init__()
        self._content = content
        self._kind = kind

    def render_GET(self, request: Request) -> bytes:  # noqa: N802 - Twisted's name
        """The content."""
        request.setHeader("Content-Type", self._kind)
        return self._content


class _Changes(Resource):
    """``/changes``: all values, then each change, as server-sent events."""

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(self, state: LiveState) -> None:
        super().__init__()
        self._state = state
        self._open = 0

    def render_GET(self, request: Request) -> int | bytes:  # noqa: N802 - Twisted's name
        """Keep the answer open and write each change into it."""
        if self._open >= MOST_PAGES:
            request.setResponseCode(503)
            return f"{MOST_PAGES} pages are open: close one\n".encode()
        self._open += 1
        request.setHeader("Content-Type", "text/event-stream; charset=utf-8")
        stream = _Stream(self._state, request)

        def closed(_: object) -> None:
            self._open -= 1
            stream.stopProducing()

        request.notifyFinish().addBoth(closed)
        return NOT_DONE_YET


@implementer(IPushProducer)
class _Stream:
    """Writes each change to one page. A page that reads too slowly misses changes, and gets all values afterwards."""

    def __init__(self, state: LiveState, request: Request) -> None:
        self._state = state
        self._request = request
        self._is_paused = False
        self._missed = False
        self._unsubscribe: Callable[[], None] | None = state.subscribe(self._changed)
        self._write("all", state.message())
        request.registerProducer(self, True)

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """The page's socket takes no more."""
        self._is_paused = True

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """The page has read what was written."""
        self._is_paused = False
        if self._missed:
            self._missed = False
            self._write("all", self._state.message())

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """The page is gone."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _changed(self, message: bytes) -> None:
        if self._is_paused:
            self._missed = True
        else:
            self._write("changes", message)

    def _write(self, event: str, message: bytes) -> None:
        self._request.write(f"event: {event}\ndata: ".encode() + message + b"\n\n")
