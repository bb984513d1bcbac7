"""A small real web site, a shop of hats and shoes, whose pages report to a tracker; and its visitors."""

from __future__ import annotations

import html
import http.client
import json
import random
import threading
import uuid
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

from kafkalite.pipelines.feeders.tracker import BadEventError, Tracker

Event = dict[str, Any]
GOODS = ("straw hat", "top hat", "felt hat", "red shoes", "dancing shoes", "snow shoes")
WORDS = ("hat", "shoes", "s", "red", "umbrella", "añil")


def page_of(title: str, links: dict[str, str]) -> str:
    """A page: every link has the name under which clicks are reported; ``data-track`` is the address for reports."""
    items = "".join(
        f'<li><a href="{html.escape(target)}" data-element="{html.escape(name)}">{html.escape(name)}</a></li>'
        for name, target in links.items()
    )
    search = '<form action="/search"><input name="q"></form>'
    body = f"<h1>{title}</h1>{search}<ul>{items}</ul>"
    return f'<html><body data-track="/track" data-hits="{len(links) - 1}">{body}</body></html>'


def goods(query: str) -> dict[str, str]:
    """The links to the found goods, and the link home."""
    found = {name: f"/goods/{name.replace(' ', '-')}" for name in GOODS if query in name}
    return {"home": "/", **found}


def answer(path: str) -> str | None:
    """The page at ``path``; ``None`` if there is none."""
    url = urlsplit(path)
    if url.path == "/":
        return page_of("Hats & shoes", goods(""))
    if url.path == "/search":
        return page_of("Found", goods(parse_qs(url.query).get("q", [""])[0]))
    if url.path.removeprefix("/goods/").replace("-", " ") in GOODS:
        return page_of("For you", {"home": "/", "into the basket": "/basket"})
    return page_of("Your basket", {"home": "/"}) if url.path == "/basket" else None


class Site(ThreadingHTTPServer):
    """The shop on its own port; visitors get a cookie, and their pages' events go to ``tracker``."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = int(self.server_address[1])
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and close the port."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        """Answer with a page."""
        page = answer(self.path)
        self._send(404 if page is None else 200, page or "", new_visitor="visitor" not in self._cookies())

    def do_POST(self) -> None:
        """Take an event; answer when it is acknowledged by the brokers."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self.server.tracker.track(body)
            self._send(204)
        except BadEventError as error:
            self._send(400, str(error))

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _cookies(self) -> SimpleCookie:
        return SimpleCookie(self.headers.get("Cookie", ""))

    def _send(self, status: int, text: str = "", *, new_visitor: bool = False) -> None:
        body = text.encode()
        self.send_response(status)
        if new_visitor:
            self.send_header("Set-Cookie", f"visitor={uuid.uuid4().hex}")
        if status != 204:
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Page(HTMLParser):
    """The links and the tracking address that a browser finds in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: dict[str, str] = {}
        self.track = ""
        self.hits = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take links, and the body's tracking attributes."""
        found = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links[found["data-element"]] = found["href"]
        elif tag == "body":
            self.track, self.hits = found["data-track"], int(found["data-hits"])


class Visitor:
    """A user with a browser, who follows links and searches; records every event that the site accepted."""

    def __init__(self, port: int, seed: int) -> None:
        self.events: list[Event] = []
        self._port = port
        self._chance = random.Random(seed)
        self._cookie = ""
        self._now = datetime(2000, 1, 1, tzinfo=UTC)

    def visit(self, start: datetime, steps: int, most_seconds: int) -> None:
        """Visit at ``start`` with ``steps`` actions, up to ``most_seconds`` between two of them."""
        self._now = start
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            path = "/"
            page = self._open(connection, path, None)
            for _ in range(steps):
                self._now += timedelta(milliseconds=self._chance.randrange(1, most_seconds * 1000))
                if self._chance.random() < 0.3:
                    words = self._chance.choice(WORDS)
                    target = f"/search?q={quote_plus(words)}"
                    page = self._open(connection, target, path)
                    self._tell(connection, page, kind="search", page=target, query=words, hits=page.hits)
                else:
                    element, target = self._chance.choice(list(page.links.items()))
                    self._tell(connection, page, kind="click", page=path, element=element)
                    page = self._open(connection, target, path)
                path = target
        finally:
            connection.close()

    def _open(self, connection: http.client.HTTPConnection, path: str, referrer: str | None) -> Page:
        connection.request("GET", path, headers={"Cookie": self._cookie} if self._cookie else {})
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, (path, response.status)
        self._cookie = response.headers.get("Set-Cookie") or self._cookie
        page = Page(text)
        self._tell(connection, page, kind="page_view", page=path, referrer=referrer)
        return page

    def _tell(self, connection: http.client.HTTPConnection, teller: Page, **fields: Any) -> None:
        """Report an event, like the script of a page."""
        event = {"visitor": self._cookie.removeprefix("visitor="), "at": self._now.isoformat(), **fields}
        connection.request("POST", teller.track, json.dumps(event))
        response = connection.getresponse()
        said = response.read()
        assert response.status == 204, (response.status, said)
        self.events.append(event)
