"""A broker logs in to another one, and again before its session ends; the other end is the real authenticator."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.common.authentication import SaslClient
from kafkalite.common.tasks import deferred
from kafkalite.network.client import BrokerConnection
from kafkalite.network.endpoint_security import ClientSecurity
from kafkalite.network.sockets import OsSockets
from kafkalite.protocol.frames import FrameParser
from kafkalite.security.plain import PlainSaslServer, PlainUsers
from kafkalite.security.sasl_client import PlainSaslClient, ScramSaslClient
from kafkalite.security.sasl_server import SaslListener, SaslServerAuthenticator
from kafkalite.security.scram import ScramSaslServer, ScramUsers
from kafkalite.security.scram_credentials import SCRAM_SHA_512, ScramCredential
from tests.network.fakes import FakeReactor, FakeSocket, ManualExecutor
from tests.network.test_client import answer, failure_of, receive

SCRAM = ScramCredential.from_password(SCRAM_SHA_512, "hush", b"salt", 4096)


class Link:
    """A connection and the authenticator at its other end."""

    def __init__(
        self,
        password: str = "hush",
        mechanism: str = "PLAIN",
        max_reauth_ms: int = 0,
        threads: ManualExecutor | None = None,
    ) -> None:
        users = ScramUsers(lambda _: SCRAM, lambda _: None, b"secret")
        listener = SaslListener(
            {
                "PLAIN": lambda: PlainSaslServer(PlainUsers({"user_broker": "hush"}).check),
                "SCRAM-SHA-512": lambda: ScramSaslServer(SCRAM_SHA_512, users, random.Random(1)),
            },
            {"PLAIN": max_reauth_ms, "SCRAM-SHA-512": max_reauth_ms},
        )
        self.server = SaslServerAuthenticator(listener, lambda _, __: (b"", True))
        self.reactor = FakeReactor()
        self.sock = FakeSocket()
        clients: dict[str, Callable[[], SaslClient]] = {
            "PLAIN": lambda: PlainSaslClient("broker", password),
            "SCRAM-SHA-512": lambda: ScramSaslClient(SCRAM_SHA_512, "broker", password, random.Random(2)),
        }
        sockets = OsSockets(self.reactor)
        self.connection = BrokerConnection(
            self.reactor,
            "broker",
            9092,
            "me",
            sockets=sockets,
            security=ClientSecurity(sasl=clients[mechanism], executor=threads),
        )
        self.opened: Any = deferred(self.connection.connect())
        self.connection.attach(self.sock)
        self.connection.doWrite()
        self._sent = FrameParser(1 << 20)

    def frames(self) -> list[bytes]:
        """What was sent and not taken yet."""
        frames = [bytes(frame) for frame in self._sent.feed(bytes(self.sock.sent))]
        self.sock.sent.clear()
        return frames

    def serve(self) -> None:
        """The authenticator takes all frames, until there is none."""
        while frames := self.frames():
            for frame in frames:
                if self.server.is_complete:
                    assert self.server.begin_reauthentication(self.now_ms)
                step = self.server.receive(frame, self.now_ms)
                assert step.answer is not None
                receive(self.sock, self.connection, struct.pack(">i", len(step.answer)) + step.answer)

    @property
    def now_ms(self) -> int:
        return int(self.reactor.seconds() * 1000)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_requests_follow_the_login(mechanism: str) -> None:
    link = Link(mechanism=mechanism)
    assert not link.opened.called
    link.serve()
    assert link.opened.called
    assert link.server.is_complete
    work: Any = deferred(link.connection.send(1, 11, b"fetch"))
    correlation_id = struct.unpack_from(">i", link.frames()[0], 4)[0]
    receive(link.sock, link.connection, answer(correlation_id, b"records"))
    assert bytes(work.result) == b"records"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_login_that_fails_closes_the_connection_and_says_no_password(mechanism: str) -> None:
    link = Link("planted", mechanism)
    link.serve()
    assert link.sock.closed
    text = failure_of(link.opened)
    assert "authentication failed" in text
    assert "planted" not in text


def test_a_broker_that_answers_nothing_ends_the_login_in_time() -> None:
    link = Link()
    link.reactor.advance(10.1)
    assert link.sock.closed
    assert "no connection within 10 s" in failure_of(link.opened)


def test_the_broker_logs_in_again_before_its_session_ends_and_requests_wait_meanwhile() -> None:
    link = Link(max_reauth_ms=10_000)
    link.serve()
    before: Any = deferred(link.connection.send(1, 11, b"before"))
    (fetch,) = link.frames()
    link.reactor.advance(8.6)
    (handshake,) = link.frames()
    meanwhile: Any = deferred(link.connection.send(1, 11, b"meanwhile"))
    assert link.frames() == []
    receive(link.sock, link.connection, answer(struct.unpack_from(">i", fetch, 4)[0], b"records"))
    assert bytes(before.result) == b"records"
    assert link.server.begin_reauthentication(link.now_ms)
    step = link.server.receive(handshake, link.now_ms)
    assert step.answer is not None
    receive(link.sock, link.connection, struct.pack(">i", len(step.answer)) + step.answer)
    (token,) = link.frames()
    step = link.server.receive(token, link.now_ms)
    assert step.answer is not None
    receive(link.sock, link.connection, struct.pack(">i", len(step.answer)) + step.answer)
    (request,) = link.frames()
    assert request.endswith(b"meanwhile")
    receive(link.sock, link.connection, answer(struct.unpack_from(">i", request, 4)[0], b"later"))
    assert bytes(meanwhile.result) == b"later"
    link.reactor.advance(8.6)
    assert len(link.frames()) == 1


def test_requests_that_waited_fail_with_the_login() -> None:
    link = Link(max_reauth_ms=10_000)
    link.serve()
    link.reactor.advance(8.6)
    waiting = deferred(link.connection.send(1, 11, b"x"))
    link.connection.close()
    assert "closed" in failure_of(waiting)
    assert not link.reactor.getDelayedCalls()


@pytest.mark.parametrize("password", ["hush", "planted"])
def test_steps_that_block_are_made_off_the_reactor(password: str) -> None:
    threads = ManualExecutor()
    link = Link(password, "SCRAM-SHA-512", threads=threads)
    link.serve()
    steps = 0
    while threads.work:
        assert not link.opened.called
        threads.do_one()
        link.serve()
        steps += 1
    if password == "hush":
        assert (steps, link.opened.called, link.server.is_complete) == (3, True, True)
    else:
        assert "authentication failed" in failure_of(link.opened)
