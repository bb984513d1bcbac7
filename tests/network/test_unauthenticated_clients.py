"""What clients that have not authenticated take from the others is bounded."""

from __future__ import annotations

import struct

import pytest

from kafkalite.common.authentication import AuthenticationStep, Verdict
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.network import unauthenticated_clients
from kafkalite.network.connection import Connection
from kafkalite.network.endpoint_security import ListenerSecurity
from kafkalite.network.tls_socket import BEGUN, BEGUN_WITH_CERTIFICATE, TlsSocket
from kafkalite.network.unauthenticated_clients import MEMORY, PATIENCE, SMALL, UnauthenticatedClients
from tests.network.fakes import FakeSocket, Harness
from tests.network.tls_peers import client_context, handshake, server_context, wires

FRAME = 524_288


class Guest:
    """A client that notes its end."""

    def __init__(self, clients: UnauthenticatedClients) -> None:
        self.why = ""
        self._unauthenticated = clients
        clients.add(self)

    def expel(self, why: str) -> None:
        self.why = why
        self._unauthenticated.remove(self)


class UnauthenticatedFixture:
    """Clients of whom ten may be connected."""

    def __init__(self) -> None:
        self.now = 0.0
        self.unauthenticated = UnauthenticatedClients(lambda: self.now, 10)

    def guests(self, count: int) -> list[Guest]:
        return [Guest(self.unauthenticated) for _ in range(count)]


def test_who_has_held_memory_for_longest_goes_once_all_hold_too_much() -> None:
    fixture = UnauthenticatedFixture()
    guests = fixture.guests(5)
    for guest in reversed(guests):
        fixture.unauthenticated.holds(guest, MEMORY // 5)
    assert not any(guest.why for guest in guests)
    fixture.unauthenticated.holds(guests[4], MEMORY // 5 + 10)
    assert [bool(guest.why) for guest in guests] == [False, False, False, True, False]
    fixture.unauthenticated.holds(guests[0], MEMORY)
    assert [bool(guest.why) for guest in guests] == [False, True, True, True, True]
    assert "hold too much memory" in guests[1].why


def test_first_messages_count_for_nothing() -> None:
    fixture = UnauthenticatedFixture()
    guests = fixture.guests(1000)
    for guest in guests:
        fixture.unauthenticated.holds(guest, SMALL)
    fixture.unauthenticated.holds(guests[0], MEMORY)
    assert not any(guest.why for guest in guests)


def test_who_has_authenticated_or_gone_holds_nothing() -> None:
    fixture = UnauthenticatedFixture()
    first, second, third = fixture.guests(3)
    fixture.unauthenticated.holds(first, MEMORY)
    fixture.unauthenticated.remove(first)
    fixture.unauthenticated.remove(first)
    fixture.unauthenticated.holds(first, MEMORY)
    fixture.unauthenticated.holds(second, MEMORY // 2)
    fixture.unauthenticated.holds(third, MEMORY // 2)
    assert not any(guest.why for guest in (first, second, third))


def test_the_oldest_of_too_many_goes_after_its_time() -> None:
    fixture = UnauthenticatedFixture()
    guests = fixture.guests(12)
    fixture.now = PATIENCE
    guests += fixture.guests(1)
    assert not any(guest.why for guest in guests)
    fixture.now += 1
    guests += fixture.guests(2)
    assert [number for number, guest in enumerate(guests) if guest.why] == [0, 1]
    assert guests[0].why == "10 clients have not authenticated, and this one for longest"


class Sasl:
    """An authenticator that takes the frame `good`, and goes on after any other."""

    session_expires_at_ms = None
    principal = KafkaPrincipal.user("alice")

    def receive(self, frame: bytes | bytearray | memoryview, now_ms: int) -> AuthenticationStep:  # noqa: ARG002
        return AuthenticationStep(Verdict.COMPLETE if bytes(frame) == b"good" else Verdict.CONTINUE)

    def begin_reauthentication(self, now_ms: int) -> bool:  # noqa: ARG002
        return False

    def is_expired(self, now_ms: int) -> bool:  # noqa: ARG002
        return False


class DoorFixture:
    """A server and connections to a listener with this security."""

    def __init__(self, security: ListenerSecurity) -> None:
        self.harness = Harness()
        self.security = security

    @property
    def held(self) -> int:
        return self.harness.server.unauthenticated._total

    @property
    def count(self) -> int:
        return len(self.harness.server.unauthenticated._since)

    def connect(self) -> tuple[FakeSocket, Connection]:
        sock = FakeSocket()
        before = set(self.harness.server._connections)
        self.harness.server.accepted(sock, ("10.0.0.1", 7), "SASL", self.security)
        (new,) = self.harness.server._connections.keys() - before
        return sock, new


# trap: kafkalite/network/unauthenticated_clients.py: Five thousand clients that stall in their login take hundreds of
# megabytes.
def test_half_frames_before_the_login_are_bounded_together(caplog: pytest.LogCaptureFixture) -> None:
    fixture = DoorFixture(ListenerSecurity("SASL_PLAINTEXT", lambda _: Sasl()))
    opened = []
    for _ in range(200):
        sock, connection = fixture.connect()
        fixture.harness.receive(sock, connection, struct.pack(">i", FRAME) + bytes(FRAME - 1))
        assert fixture.held <= MEMORY
        opened.append((sock, connection))
    closed = [connection.closed for _, connection in opened]
    assert closed == sorted(closed, reverse=True)
    assert 100 < sum(closed) < 200
    assert "have not authenticated" in caplog.text
    sock, connection = opened[-1]
    fixture.harness.receive(sock, connection, b"\0")
    assert not connection.closed
    fixture.harness.receive(sock, connection, struct.pack(">i", 4) + b"good")
    assert fixture.count == 200 - sum(closed) - 1
    for _, connection in opened:
        connection.close("test")
    assert (fixture.count, fixture.held, fixture.harness.server.memory.held) == (0, 0, 0)


def test_a_client_counts_no_more_after_its_login() -> None:
    fixture = DoorFixture(ListenerSecurity("SASL_PLAINTEXT", lambda _: Sasl()))
    sock, connection = fixture.connect()
    assert fixture.count == 1
    fixture.harness.receive(sock, connection, struct.pack(">i", 4) + b"good")
    assert fixture.count == 0
    fixture.harness.receive(sock, connection, struct.pack(">i", FRAME) + bytes(FRAME // 2))
    assert fixture.held == 0


def test_a_listener_without_security_has_no_unauthenticated_clients() -> None:
    fixture = DoorFixture(ListenerSecurity())
    fixture.connect()
    assert fixture.count == 0


@pytest.mark.parametrize(("asks", "expected"), [(False, BEGUN), (True, BEGUN_WITH_CERTIFICATE)])
def test_handshakes_that_stall_are_bounded_together(asks: bool, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = 1 << 21
    monkeypatch.setattr(unauthenticated_clients, "MEMORY", bound)
    harness = Harness()
    security = ListenerSecurity("SSL", tls=lambda: server_context(asks=asks))
    server = harness.server
    for number in range(bound // expected + 20):
        above, below = wires()
        client = TlsSocket(below, client_context(identified=asks), is_server=False, server_name="broker")
        handshake(client)
        before = set(harness.reactor.readers)
        server.accepted(above, ("10.0.0.1", number), "SSL", security)
        (channel,) = harness.reactor.readers - before
        if not number:
            above.incoming, rest = above.incoming[:-1], above.incoming[-1:]
            channel.doRead()
            assert server.unauthenticated._total == 0
            above.incoming += rest
        channel.doRead()
        harness.reactor.turn()
        if not number:
            assert server.unauthenticated._total == BEGUN
        if asks and number < bound // expected + 19:
            above.incoming += b"\x17"
            channel.doRead()
            harness.reactor.turn()
        if not number:
            assert server.unauthenticated._total == expected
        assert server.unauthenticated._total <= bound
    assert bound - expected < server.unauthenticated._total
    # The last one is served although the others stall.
    for _ in range(3):
        handshake(client)
        channel.doRead()
        harness.reactor.turn()
    assert client.is_established
    assert len(server.unauthenticated._since) == server.connections - 1
