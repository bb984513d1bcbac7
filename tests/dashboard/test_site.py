"""What the page's server refuses, asked in bytes of HTTP, without a socket."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.server import Site

from kafkalite.common.errors import ConfigError
from kafkalite.common.tasks import Future
from kafkalite.dashboard.action_resource import MOST_AT_ONCE, MOST_BYTES, READ_ONLY, Changes, Outcome
from kafkalite.dashboard.actions import ToolAccess
from kafkalite.dashboard.live_state import LiveState
from kafkalite.dashboard.page_login import PageLogin
from kafkalite.dashboard.process import BrokerAccess, DashboardSettings, is_loopback, serve
from kafkalite.dashboard.site import LOGIN_DELAY, site
from kafkalite.testing.clock import ManualClock

HOST, ORIGIN, TOKEN = "127.0.0.1:8080", "http://127.0.0.1:8080", 'a"token<of>32&bytes'
FILLED = {"action": "create-topic", "fields": {"topic": "orders", "partitions": 3, "replicas": 1}}


@dataclass
class Answer:
    """Status, headers in lower case, and body of an answer."""

    status: int
    headers: dict[str, str]
    body: str


@dataclass
class Served:
    """A site that is asked through bytes; ``ran`` are the commands, each ended by its future."""

    changes: bool = True
    login: PageLogin | None = None
    clock: ManualClock = field(default_factory=ManualClock)
    ran: list[tuple[Sequence[str], Future[Outcome]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        allowed = Changes(TOKEN, ToolAccess("zk:2181"), lambda: "one:9092", self.run) if self.changes else None
        served = site(LiveState(self.clock), lambda: frozenset({HOST}), self.clock, allowed, self.login)
        # Without the reactor's timeout of idle connections: there is no reactor here.
        self.site = cast("Site", getattr(served, "wrapped", served))
        self.site.timeOut = None

    def run(self, words: Sequence[str]) -> Awaitable[Outcome]:
        future: Future[Outcome] = Future()
        self.ran.append((words, future))
        return future

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> StringTransport:
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        transport = StringTransport()
        protocol = self.site.buildProtocol(None)
        assert protocol is not None
        protocol.makeConnection(transport)
        protocol.dataReceived("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)
        return transport

    def get(self, path: str = "/", **headers: str) -> Answer:
        return answer_of(self.send("GET", path, {"Host": HOST, **headers}))

    def post(self, value: object, **headers: str | None) -> Answer:
        return answer_of(self.posted(value, **headers))

    def posted(self, value: object, **headers: str | None) -> StringTransport:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        given: dict[str, str | None] = {"Host": HOST, "Origin": ORIGIN, "X-Kafkalite-Token": TOKEN}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in given.items() if value is not None}
        return self.send("POST", "/actions", sent, body)


def answer_of(transport: StringTransport) -> Answer:
    head, _, body = transport.value().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(int(status.split()[1]), headers, body.decode())


@pytest.mark.parametrize("host", ["attacker.example", "attacker.example:8080", "127.0.0.1", "localhost:8080", ""])
def test_another_host_is_refused(host: str) -> None:
    for path in ("/", "/main.js", "/changes", "/actions"):
        assert Served().get(path, Host=host).status == 403


@pytest.mark.parametrize("origin", ["http://attacker.example", "null", "https://127.0.0.1:8080", f"{ORIGIN}.example"])
def test_another_origin_is_refused(origin: str) -> None:
    served = Served()
    for path in ("/", "/changes", "/actions"):
        assert served.get(path, Origin=origin).status == 403
    assert served.post({**FILLED, "run": True}, Origin=origin).status == 403
    assert served.ran == []


def test_every_answer_has_a_strict_content_security_policy() -> None:
    served = Served()
    answers = [served.get(path) for path in ("/", "/main.js", "/actions", "/nothing")]
    for answer in [*answers, served.get(Host="attacker.example"), served.post(FILLED)]:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_a_wide_address_is_refused_without_a_login(host: str) -> None:
    settings = DashboardSettings(host, 8080, "zk:2181", BrokerAccess(lambda _: b""))
    with pytest.raises(ConfigError, match="the page has no login"):
        serve(settings, lambda _: None)
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_a_loopback_address_needs_no_login(host: str) -> None:
    assert is_loopback(host)


def test_without_permission_nothing_changes_and_the_page_has_no_token() -> None:
    served = Served(changes=False)
    answer = served.post({**FILLED, "run": True})
    assert (answer.status, json.loads(answer.body)) == (403, {"error": READ_ONLY})
    assert json.loads(served.get("/actions").body) == {"actions": [], "why": READ_ONLY}
    assert '<meta name="kafkalite-token" content="">' in served.get().body


def test_the_page_has_the_token_as_text_and_no_other_answer_has_it() -> None:
    served = Served()
    assert '<meta name="kafkalite-token" content="a&quot;token&lt;of&gt;32&amp;bytes">' in served.get().body
    for path in ("/main.js", "/actions.js", "/actions", "/nothing"):
        assert "token<of>32" not in served.get(path).body
        assert "token&lt;of&gt;32" not in served.get(path).body


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Kafkalite_Token": None},
        {"X_Kafkalite_Token": ""},
        {"X_Kafkalite_Token": TOKEN[:-1]},
        {"X_Kafkalite_Token": "ü"},
        {"Origin": None},
    ],
)
def test_a_change_without_the_token_or_without_an_origin_is_refused(headers: dict[str, str | None]) -> None:
    served = Served()
    answer = served.post({**FILLED, "run": True}, **headers)
    assert answer.status == 403
    assert json.loads(answer.body)["error"].count("\n") == 0
    assert served.ran == []


def test_a_form_shows_its_command_and_runs_nothing() -> None:
    served = Served()
    answer = served.post(FILLED)
    expected = "kafkalite topics --bootstrap-server one:9092 --create --topic orders --partitions 3"
    assert json.loads(answer.body) == {"command": f"{expected} --replication-factor 1"}
    assert served.ran == []


def test_a_change_runs_the_command_that_was_shown() -> None:
    served = Served()
    transport = served.posted({**FILLED, "run": True})
    assert transport.value() == b""
    [(words, end)] = served.ran
    assert words[0] == "topics"
    end.callback(Outcome(1, "Error: <b>exists</b>"))
    shown = json.loads(answer_of(transport).body)
    assert shown["command"] == f"kafkalite {' '.join(words)}"
    assert (shown["code"], shown["output"]) == (1, "Error: <b>exists</b>")
    assert answer_of(transport).headers["content-type"] == "application/json"


def test_a_page_that_is_closed_meanwhile_loses_only_the_answer() -> None:
    served = Served()
    body = json.dumps({**FILLED, "run": True}).encode()
    head = f"POST /actions HTTP/1.1\r\nHost: {HOST}\r\nOrigin: {ORIGIN}\r\nX-Kafkalite-Token: {TOKEN}\r\n"
    protocol = served.site.buildProtocol(None)
    assert protocol is not None
    protocol.makeConnection(StringTransport())
    protocol.dataReceived(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    protocol.connectionLost(Failure(ConnectionDone()))
    [(_, end)] = served.ran
    end.callback(Outcome(0, ""))
    assert served.post({**FILLED, "run": False}).status == 200


def test_few_commands_run_at_a_time() -> None:
    served = Served()
    for _ in range(MOST_AT_ONCE):
        served.posted({**FILLED, "run": True})
    assert served.post({**FILLED, "run": True}).status == 503
    served.ran[0][1].callback(Outcome(0, ""))
    served.posted({**FILLED, "run": True})
    assert len(served.ran) == MOST_AT_ONCE + 1


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"action": "format", "run": true}', b"[" * 10_000])
def test_a_request_that_is_no_action_is_refused(body: bytes) -> None:
    served = Served()
    assert served.post(body).status == 400
    assert served.ran == []


@pytest.mark.parametrize("body", [b"[]", b"null", b'{"action": "format"}', b'{"action": "create-topic", "fields": {}}'])
def test_a_form_that_is_not_filled_shows_what_is_missing(body: bytes) -> None:
    answer = Served().post(body)
    assert answer.status == 200
    assert list(json.loads(answer.body)) == ["error"]


def test_a_body_that_is_too_long_ends_the_connection() -> None:
    served = Served()
    transport = served.posted(b" " * (MOST_BYTES + 1))
    assert transport.disconnecting
    assert served.ran == []


def test_only_users_of_the_login_see_the_page_and_others_wait() -> None:
    good = "Basic " + base64.b64encode(b"admin:secret").decode()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    login = PageLogin(context, (), lambda certificate, shown: certificate is None and shown == good)
    served = Served(login=login)
    assert served.get(Authorization=good).status == 200
    assert served.get(Authorization=good, Origin=ORIGIN).status == 403, "the page's own origin is https"
    for shown in ({}, {"Authorization": "Basic YTpi"}):
        transport = served.send("GET", "/", {"Host": HOST, **shown})
        assert transport.value() == b""
        served.clock.advance(LOGIN_DELAY)
        answer = answer_of(transport)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert TOKEN not in answer.body
