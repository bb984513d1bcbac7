"""Connections over TLS on a reactor in memory: handshakes in the server, and a broker's own connection."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable
from functools import partial
from typing import Any

import pytest

from kafkalite.common.principals import ANONYMOUS, KafkaPrincipal
from kafkalite.common.tasks import Future, deferred
from kafkalite.network.client import BrokerConnection
from kafkalite.network.connection import Connection
from kafkalite.network.endpoint_security import ClientSecurity, ListenerSecurity
from kafkalite.network.limits import NetworkLimits
from kafkalite.network.sockets import OsSockets
from kafkalite.network.tls_channel import TlsChannel
from kafkalite.network.tls_socket import PIECE, TlsSocket
from tests.network.fakes import FakeReactor, Harness, ManualExecutor, answers, echo, frame
from tests.network.tls_peers import (
    Wire,
    client_context,
    handshake,
    random_bytes,
    read_all,
    send_all,
    server_context,
    wires,
)
from tests.soak import SOAK, has_long_form

SSL = ListenerSecurity("SSL", tls=server_context)


class TlsChannelFixture:
    """A server, and one client that speaks TLS to it."""

    def __init__(
        self,
        security: ListenerSecurity = SSL,
        limits: NetworkLimits | None = None,
        executor: ManualExecutor | None = None,
        login_reactor: FakeReactor | None = None,
    ) -> None:
        self.logins = login_reactor
        self.harness = Harness(limits, executor, login_reactor)
        self.harness.handler.answer = echo
        self.wire, below = wires()
        self.client = TlsSocket(below, client_context(identified=True), is_server=False, server_name="broker")
        self.harness.server.accepted(self.wire, ("10.0.0.1", 7), "SSL", security)
        (self.connection,) = self.harness.server._connections
        self.pump()

    @property
    def channel(self) -> TlsChannel | None:
        """What the reactor watches, if it does."""
        watched = self.harness.reactor.readers | (self.logins.readers if self.logins else set())
        found = [each for each in watched if isinstance(each, TlsChannel)]
        return found[0] if found else None

    def pump(self) -> None:
        """The reactor serves the server's end for as long as there is something to do."""
        for _ in range(1000):
            channel = self.channel
            if channel is not None and (self.wire.incoming or self.wire.ended):
                channel.doRead()
            elif self.wire.room and self.harness.reactor.writers:
                for writer in list(self.harness.reactor.writers):
                    writer.doWrite()
            elif self.harness.reactor.getDelayedCalls():
                self.harness.reactor.turn()
                if not self.wire.incoming:
                    return
            else:
                return

    def establish(self) -> TlsChannelFixture:
        for _ in range(4):
            handshake(self.client)
            self.pump()
        assert self.client.is_established
        return self

    def ask(self, *frames: bytes) -> list[tuple[int, bytes]]:
        send_all(self.client, b"".join(frames))
        found = bytearray()
        for _ in range(50):
            self.pump()
            self.harness.reactor.turn()
            found += read_all(self.client)
        return answers(found)


def test_the_login_reactor_watches_a_connection_until_its_handshake_is_complete() -> None:
    logins = FakeReactor()
    fixture = TlsChannelFixture(login_reactor=logins)
    assert (logins.readers, fixture.harness.reactor.readers) == ({fixture.channel}, set())
    fixture.establish()
    assert (logins.readers, fixture.harness.reactor.readers) == (set(), {fixture.channel})
    assert fixture.ask(frame(1, b"one")) == [(1, b"one")]
    assert (logins.writers, fixture.harness.reactor.writers) == (set(), set())


def test_requests_are_served_after_the_handshake() -> None:
    fixture = TlsChannelFixture().establish()
    assert fixture.ask(frame(1, b"one"), frame(2, b"two")) == [(1, b"one"), (2, b"two")]
    assert fixture.connection.info.security_protocol == "SSL"
    assert fixture.connection.info.ip == "10.0.0.1"
    assert fixture.harness.server.memory.held == 0


# trap: kafkalite/network/tls_channel.py: Decrypted requests wait in memory, where the reactor does not see them.
@pytest.mark.parametrize("size", [100, 40_000, 1_000_000])
def test_many_requests_in_few_records_are_all_served(size: int) -> None:
    fixture = TlsChannelFixture().establish()
    bodies = [random_bytes(size) for _ in range(3_000_000 // size if size > 100 else 3000)]
    assert fixture.ask(*(frame(i, body) for i, body in enumerate(bodies))) == list(enumerate(bodies))


def test_a_connection_that_is_read_again_takes_what_waits_in_memory_first() -> None:
    fixture = TlsChannelFixture(limits=NetworkLimits(max_inflight_requests=1)).establish()
    fixture.harness.handler.answer = lambda _: None
    send_all(fixture.client, b"".join(frame(i, random_bytes(40_000)) for i in range(3)))
    fixture.pump()
    assert fixture.channel is None
    assert not fixture.wire.incoming
    for count in range(1, 4):
        assert len(fixture.harness.handler.requests) == count
        fixture.harness.handler.requests[-1].respond([b"done"])
        for _ in range(3):
            fixture.harness.reactor.turn()
    assert answers(read_all(fixture.client)) == [(i, b"done") for i in range(3)]


def test_a_client_that_reads_slowly_gets_everything() -> None:
    fixture = TlsChannelFixture().establish()
    fixture.wire.room = 10
    body = random_bytes(3 * PIECE)
    send_all(fixture.client, frame(1, body))
    found = bytearray()
    for _ in range(60):
        fixture.pump()
        found += read_all(fixture.client)
        fixture.wire.room = 60_000
    assert answers(found) == [(1, body)]
    assert fixture.harness.reactor.writers == set()


def test_the_certificate_of_a_client_names_its_principal() -> None:
    seen: list[bytes | None] = []

    def principal(certificate: bytes | None) -> KafkaPrincipal:
        seen.append(certificate)
        return KafkaPrincipal.user("alice")

    fixture = TlsChannelFixture(ListenerSecurity("SSL", tls=lambda: server_context(asks=True), principal=principal))
    assert fixture.connection.info.principal == ANONYMOUS
    fixture.establish()
    assert fixture.connection.info.principal == KafkaPrincipal.user("alice")
    assert seen[0] is not None


def test_a_client_whose_certificate_maps_to_no_principal_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: bytes | None) -> KafkaPrincipal:
        raise LookupError("No rules apply to CN=x")

    fixture = TlsChannelFixture(ListenerSecurity("SSL", tls=lambda: server_context(asks=True), principal=refuse))
    with caplog.at_level(logging.WARNING):
        fixture.establish()
    assert fixture.connection.closed
    assert fixture.wire.closed
    assert "No rules apply to CN=x" in caplog.text
    assert fixture.harness.reactor.writers == fixture.harness.reactor.readers == set()


def test_a_handshake_that_fails_closes_the_connection_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    fixture = TlsChannelFixture()
    with caplog.at_level(logging.WARNING):
        fixture.wire.incoming += frame(1, b"a plain request")
        fixture.pump()
    assert fixture.connection.closed
    (line,) = caplog.messages
    assert line.startswith("closing the connection of 10.0.0.1:7: no TLS: ")
    assert fixture.harness.server.connections == 0


def test_a_client_that_only_looks_whether_the_port_is_open_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    fixture = TlsChannelFixture()
    with caplog.at_level(logging.INFO):
        fixture.wire.ended = True
        fixture.pump()
    assert fixture.connection.closed
    assert caplog.messages == []


def test_a_client_that_stalls_in_its_handshake_is_closed_after_the_idle_timeout() -> None:
    fixture = TlsChannelFixture(limits=NetworkLimits(idle_timeout=10))
    fixture.harness.server.open()
    handshake(fixture.client)
    hello = bytes(fixture.wire.incoming)
    fixture.wire.incoming.clear()
    for byte in hello[:30]:
        fixture.wire.incoming.append(byte)
        fixture.harness.reactor.advance(0.5)
        fixture.pump()
    assert fixture.connection.closed


class Ports(OsSockets):
    """Connects to ``below`` at once."""

    def __init__(self, below: Wire) -> None:
        super().__init__(None)
        self._below = below

    def resolve(self, host: str) -> Awaitable[str]:
        found: Future[str] = Future()
        found.callback(host)
        return found

    def connect(self, address: str, port: int) -> tuple[Any, int]:
        del address, port
        return self._below, 0


class Link:
    """A broker's own connection to a server that speaks TLS."""

    def __init__(self, *, trusts: bool = True, host: str = "broker") -> None:
        self.reactor = FakeReactor()
        below, above = wires()
        self.server = TlsSocket(above, server_context(), is_server=True)
        security = ClientSecurity(client_context(trusts=trusts))
        self.connection = BrokerConnection(self.reactor, host, 9092, "me", sockets=Ports(below), security=security)
        self.outcome: list[str] = []
        deferred(self.connection.connect()).addCallbacks(
            lambda _: self.outcome.append("connected"), lambda failure: self.outcome.append(str(failure.value))
        )

    def run(self) -> None:
        for _ in range(6):
            for descriptor in [*self.reactor.writers, *self.reactor.readers]:
                if descriptor in self.reactor.writers:
                    descriptor.doWrite()
                if descriptor in self.reactor.readers:
                    descriptor.doRead()
            self.reactor.turn()
            try:
                handshake(self.server)
            except OSError:
                self.server.close()


def test_a_broker_connects_to_another_one_over_tls() -> None:
    link = Link()
    assert link.outcome == []
    link.run()
    assert link.outcome == ["connected"]
    assert link.reactor.writers == set()
    received: list[bytes] = []
    deferred(link.connection.send(0, 8, [random_bytes(3 * PIECE)])).addCallback(
        lambda body: received.append(bytes(body))
    )
    link.run()
    assert len(read_all(link.server)) > 3 * PIECE
    send_all(link.server, bytes.fromhex("000000080000000161626364"))
    link.run()
    assert received == [b"abcd"]


@pytest.mark.parametrize(
    ("trusts", "host", "why"),
    [(False, "broker", "no TLS: certificate verify failed"), (True, "other", "Hostname mismatch")],
)
def test_a_broker_does_not_connect_to_one_that_it_cannot_identify(trusts: bool, host: str, why: str) -> None:
    link = Link(trusts=trusts, host=host)
    link.run()
    (outcome,) = link.outcome
    assert why in outcome


# trap: kafkalite/network/handshakes.py: The signatures of many handshakes keep all other clients waiting.
def test_a_handshake_is_computed_off_the_reactor_and_is_not_watched_meanwhile() -> None:
    executor = ManualExecutor()
    fixture = TlsChannelFixture(executor=executor)
    reactor = fixture.harness.reactor
    handshake(fixture.client)
    (channel,) = reactor.readers
    channel.doRead()
    assert reactor.readers == reactor.writers == set()
    # As if the reactor had another event of the socket at hand.
    channel.doRead()
    assert len(executor.work) == 1 and not fixture.wire.sends
    executor.do_one()
    assert reactor.readers == {channel} and fixture.wire.sends
    handshake(fixture.client)
    channel.doRead()
    executor.do_one()
    assert fixture.client.is_established
    assert fixture.ask(frame(1, b"one")) == [(1, b"one")]
    assert executor.work == []


def test_a_connection_may_be_closed_while_its_handshake_is_computed() -> None:
    executor = ManualExecutor()
    fixture = TlsChannelFixture(executor=executor)
    handshake(fixture.client)
    channel = fixture.channel
    assert channel is not None
    channel.doRead()
    fixture.connection.close("test")
    executor.do_one()
    assert fixture.harness.reactor.readers == fixture.harness.reactor.writers == set()
    assert not fixture.wire.sends


def test_a_closed_connection_leaves_no_cycle() -> None:
    fixture = TlsChannelFixture().establish()
    fixture.connection.close("test")
    assert isinstance(fixture.connection, Connection)
    assert not isinstance(fixture.connection._reactor, TlsChannel)


PIECES = 1_000_000 if SOAK else 1000


def hello() -> bytes:
    """The first message of a client."""
    above, below = wires()
    handshake(TlsSocket(below, client_context(), is_server=False, server_name="broker"))
    return bytes(above.incoming)


def bad_piece(rng: random.Random, valid: bytes) -> bytes:
    """A part of a handshake, whole or damaged, a record of any content, or random bytes."""
    choice = rng.random()
    if choice < 0.1:
        return rng.randbytes(rng.randrange(60))
    if choice < 0.4:
        body = rng.randbytes(rng.randrange(80))
        size = rng.choice((len(body), len(body), 0, 1, 1 << 14, 0xFFFF))
        return bytes([rng.choice((20, 21, 22, 22, 23, 24)), 3, rng.randrange(1, 5)]) + size.to_bytes(2, "big") + body
    piece = bytearray(valid)
    for _ in range(rng.choice((0, 0, 1, 3))):
        piece[rng.randrange(len(piece))] = rng.randrange(256)
    return bytes(piece[: rng.randrange(1, len(piece) + 1)] if rng.random() < 0.4 else piece)


@has_long_form
def test_no_pieces_of_a_handshake_raise_or_leave_anything(caplog: pytest.LogCaptureFixture) -> None:
    """After any bytes, a connection that its client ends is closed, and nothing of it is left."""
    rng = random.Random(31)
    harness = Harness()
    first = hello()
    reactor, waiting = harness.reactor, harness.server.unauthenticated
    pieces = refused = begun = 0
    while pieces < PIECES:
        security = ListenerSecurity("SSL", tls=partial(server_context, asks=rng.random() < 0.5))
        above, _ = wires()
        harness.server.accepted(above, ("10.0.0.1", 7), "SSL", security)
        (connection,) = harness.server._connections
        for _ in range(rng.randrange(1, 8)):
            above.incoming += bad_piece(rng, first)
            pieces += 1
            while above.incoming and reactor.readers:
                (channel,) = reactor.readers
                channel.doRead()
                reactor.advance(0.001)
            if connection.closed:
                refused += 1
                break
        sock = connection._sock
        assert isinstance(sock, TlsSocket)
        begun += sock.has_begun
        above.ended = True
        for channel in list(reactor.readers):
            channel.doRead()
        reactor.advance(0.001)
        assert connection.closed
        assert above.closed
        assert reactor.readers == reactor.writers == set()
        assert (harness.server.connections, waiting._total, len(waiting._since)) == (0, 0, 0)
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING]
    assert refused > PIECES // 8
    assert begun > PIECES // 10
