"""Connections of a listener whose clients must authenticate, with an authenticator that follows a script."""

from __future__ import annotations

import struct

import pytest

from kafkalite.common.authentication import AuthenticationStep, Verdict
from kafkalite.common.principals import ANONYMOUS, KafkaPrincipal
from kafkalite.network.connection import Connection
from kafkalite.network.endpoint_security import ListenerSecurity
from kafkalite.network.limits import NetworkLimits
from kafkalite.network.request import Request
from tests.network.fakes import FakeReactor, FakeSocket, Harness, ManualExecutor, answers, echo, frame

ALICE = KafkaPrincipal.user("alice")
HANDSHAKE = 17


class Script:
    """Gives the steps that it was told; notes the frames."""

    def __init__(self, *steps: AuthenticationStep, expires_at_ms: int | None = None) -> None:
        self.steps = list(steps)
        self.session_expires_at_ms = expires_at_ms
        self.principal: KafkaPrincipal | None = None
        self.received: list[bytes] = []
        self.may_begin = True

    def receive(self, frame: bytes | bytearray | memoryview, now_ms: int) -> AuthenticationStep:  # noqa: ARG002
        self.received.append(bytes(frame))
        step = self.steps.pop(0)
        if step.verdict is Verdict.COMPLETE:
            self.principal = ALICE
        return step

    def begin_reauthentication(self, now_ms: int) -> bool:  # noqa: ARG002
        return self.may_begin

    def is_expired(self, now_ms: int) -> bool:
        return self.session_expires_at_ms is not None and now_ms > self.session_expires_at_ms


def client(
    script: Script,
    limits: NetworkLimits | None = None,
    threads: ManualExecutor | None = None,
    login_reactor: FakeReactor | None = None,
) -> tuple[Harness, FakeSocket, Connection]:
    harness = Harness(limits, threads, login_reactor)
    harness.server.time_ms = lambda: int(harness.reactor.seconds() * 1000)
    harness.handler.answer = echo
    sock = FakeSocket(7)
    harness.server.accepted(sock, ("10.0.0.1", 7), "SASL", ListenerSecurity("SASL_PLAINTEXT", lambda _: script, 100))
    (connection,) = harness.server._connections
    return harness, sock, connection


def raw(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def go_on(answer: bytes | None = None) -> AuthenticationStep:
    return AuthenticationStep(Verdict.CONTINUE, answer)


def done(answer: bytes = b"done") -> AuthenticationStep:
    return AuthenticationStep(Verdict.COMPLETE, answer)


def test_requests_reach_the_handler_only_once_the_client_is_authenticated() -> None:
    script = Script(go_on(b"first"), done())
    harness, sock, connection = client(script)
    harness.receive(sock, connection, raw(b"one"))
    assert (bytes(sock.sent), connection.info.principal) == (raw(b"first"), ANONYMOUS)
    harness.receive(sock, connection, raw(b"two") + frame(5, b"body"))
    assert script.received == [b"one", b"two"]
    assert bytes(sock.sent).startswith(raw(b"first") + raw(b"done"))
    assert answers(sock.sent[len(raw(b"first") + raw(b"done")) :]) == [(5, b"body")]
    assert (connection.info.principal, connection.info.security_protocol) == (ALICE, "SASL_PLAINTEXT")
    assert (harness.server.memory.held, harness.server.memory.outstanding) == (0, 0)


@pytest.mark.parametrize("room", [0, 1 << 20], ids=["and its answer does not leave at once", ""])
def test_the_login_reactor_watches_a_connection_until_it_is_authenticated(room: int) -> None:
    logins = FakeReactor()
    harness, sock, connection = client(Script(go_on(b"first"), done()), login_reactor=logins)
    assert (logins.readers, harness.reactor.readers) == ({connection}, set())
    sock.room = room
    for data in (raw(b"one"), raw(b"two")):
        sock.incoming += data
        connection.doRead()
    assert (logins.readers, logins.writers) == (set(), set())
    assert harness.reactor.readers == {connection}
    assert harness.reactor.writers == ({connection} if not room else set())
    sock.room = 1 << 20
    if not room:
        connection.doWrite()
    assert (bytes(sock.sent), harness.reactor.writers) == (raw(b"first") + raw(b"done"), set())
    connection.close("the test is over")
    assert harness.reactor.readers == set()


def test_the_reactor_itself_watches_a_connection_of_a_listener_without_logins() -> None:
    logins = FakeReactor()
    harness = Harness(login_reactor=logins)
    _, connection = harness.client()
    assert (harness.reactor.readers, logins.readers) == ({connection}, set())


def test_a_failure_is_answered_after_the_delay_and_counted() -> None:
    script = Script(AuthenticationStep(Verdict.FAILED, b"no", "wrong password"))
    harness, sock, connection = client(script, NetworkLimits(failed_authentication_delay=0.5))
    harness.receive(sock, connection, raw(b"guess") + raw(b"again"))
    harness.reactor.advance(0.4)
    assert (bytes(sock.sent), sock.closed, connection in harness.reactor.readers) == (b"", False, False)
    assert harness.server.failed_authentications.totals == {"SASL": 1}
    harness.reactor.advance(0.2)
    assert (bytes(sock.sent), sock.closed, script.received) == (raw(b"no"), True, [b"guess"])
    assert (harness.server.memory.held, harness.handler.requests) == (0, [])


def test_a_frame_out_of_place_closes_without_an_answer() -> None:
    harness, sock, connection = client(Script(AuthenticationStep(Verdict.INVALID, None, "no request")))
    harness.receive(sock, connection, raw(b"GET / HTTP/1.1"))
    assert (bytes(sock.sent), sock.closed, harness.server.memory.held) == (b"", True, 0)


def test_a_large_frame_is_refused_before_authentication_and_taken_after_it() -> None:
    harness, sock, connection = client(Script())
    harness.receive(sock, connection, raw(b"x" * 101))
    assert sock.closed
    harness, sock, connection = client(Script(done()))
    harness.receive(sock, connection, raw(b"one"))
    harness.receive(sock, connection, frame(1, b"x" * 101))
    assert answers(sock.sent[len(raw(b"done")) :]) == [(1, b"x" * 101)]


def test_requests_after_the_end_of_the_session_close_the_connection() -> None:
    harness, sock, connection = client(Script(done(), expires_at_ms=1000))
    harness.receive(sock, connection, raw(b"one") + frame(1, b"in time"))
    harness.reactor.advance(1.1)
    harness.receive(sock, connection, frame(2, b"too late"))
    assert sock.closed
    assert [bytes(request.body) for request in harness.handler.requests] == [b"in time"]
    assert harness.server.totals.expired == {"SASL": 1}
    assert harness.server.totals.traffic["SASL"].requests == 1, "neither the login nor what came too late"


@pytest.mark.parametrize("may_begin", [True, False])
def test_a_handshake_of_an_authenticated_client_begins_an_exchange_where_it_may(may_begin: bool) -> None:
    script = Script(done(), go_on(b"go"), done(b"once more"), expires_at_ms=1000)
    harness, sock, connection = client(script)
    script.may_begin = may_begin
    harness.receive(sock, connection, raw(b"one"))
    harness.receive(sock, connection, frame(2, b"", HANDSHAKE, 1))
    if not may_begin:
        assert [request.header.api_key for request in harness.handler.requests] == [HANDSHAKE]
        return
    assert (harness.server.totals.authenticated, harness.server.totals.reauthenticated) == ({"SASL": 1}, {})
    connection.info.decisions = "of before"
    harness.receive(sock, connection, raw(b"token") + frame(3, b"body"))
    assert (harness.server.totals.authenticated, harness.server.totals.reauthenticated) == ({"SASL": 1}, {"SASL": 1})
    assert bytes(sock.sent).startswith(raw(b"done") + raw(b"go") + raw(b"once more"))
    assert [request.header.correlation_id for request in harness.handler.requests] == [3]
    assert connection.info.decisions is None


def test_a_new_exchange_begins_after_the_answers_to_the_requests_before_it() -> None:
    script = Script(done(), go_on(b"go"), done(b"once more"), expires_at_ms=1000)
    harness, sock, connection = client(script)
    waiting: list[Request] = []
    harness.handler.answer = waiting.append
    handshake = frame(2, b"", HANDSHAKE, 1)
    harness.receive(sock, connection, raw(b"one") + frame(1) + handshake + raw(b"token") + frame(3))
    sock.sent.clear()
    assert script.received == [b"one"]
    waiting.pop().respond([b"late"])
    harness.reactor.turn()
    assert bytes(sock.sent) == raw(struct.pack(">i", 1) + b"late") + raw(b"go") + raw(b"once more")
    assert [request.header.correlation_id for request in waiting] == [3]
    assert connection in harness.reactor.readers


# Steps that block


def blocked(step: AuthenticationStep) -> AuthenticationStep:
    def work() -> AuthenticationStep:
        return step

    return AuthenticationStep(Verdict.BLOCKED, work=work)


def blocking_client(*steps: AuthenticationStep) -> tuple[Script, ManualExecutor, Harness, FakeSocket, Connection]:
    script, threads = Script(*steps), ManualExecutor()
    harness, sock, connection = client(script, threads=threads)
    return script, threads, harness, sock, connection


def test_a_step_that_blocks_is_made_off_the_reactor_and_the_client_waits_for_it() -> None:
    script, threads, harness, sock, connection = blocking_client(blocked(go_on(b"first")), blocked(done()))
    harness.receive(sock, connection, raw(b"one") + raw(b"two") + frame(5, b"body"))
    assert (script.received, connection in harness.reactor.readers, connection.is_muted) == ([b"one"], False, True)
    script.principal = ALICE
    threads.do_one()
    harness.reactor.turn()
    assert (bytes(sock.sent), script.received) == (raw(b"first"), [b"one", b"two"])
    assert harness.handler.requests == []
    threads.do_one()
    harness.reactor.turn()
    assert bytes(sock.sent).startswith(raw(b"first") + raw(b"done"))
    assert [bytes(request.body) for request in harness.handler.requests] == [b"body"]
    assert (connection.info.principal, connection in harness.reactor.readers) == (ALICE, True)
    assert (harness.server.memory.held, harness.server.memory.outstanding) == (0, 0)


def test_a_failure_of_a_step_that_blocks_is_answered_after_the_delay_and_counted() -> None:
    refused = blocked(AuthenticationStep(Verdict.FAILED, b"no", "wrong ticket"))
    _, threads, harness, sock, connection = blocking_client(refused)
    harness.receive(sock, connection, raw(b"one"))
    threads.do_one()
    harness.reactor.advance(0.05)
    assert (bytes(sock.sent), harness.server.failed_authentications.totals) == (b"", {"SASL": 1})
    harness.reactor.advance(0.06)
    assert (bytes(sock.sent), sock.closed) == (raw(b"no"), True)


def test_a_client_that_leaves_meanwhile_gets_no_answer() -> None:
    _, threads, harness, sock, connection = blocking_client(blocked(done()))
    harness.receive(sock, connection, raw(b"one"))
    connection.close("the client has gone")
    threads.do_one()
    harness.reactor.turn()
    assert (bytes(sock.sent), connection.info.principal) == (b"", ANONYMOUS)


def test_a_step_that_raises_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> AuthenticationStep:
        raise RuntimeError("the threads have ended")

    _, threads, harness, sock, connection = blocking_client(AuthenticationStep(Verdict.BLOCKED, work=work))
    harness.receive(sock, connection, raw(b"one"))
    threads.do_one()
    assert sock.closed
    assert "could not be carried out" in caplog.text


def test_steps_of_several_clients_take_one_thread() -> None:
    _, threads, harness, sock, connection = blocking_client(blocked(go_on(b"first")))
    other = FakeSocket(8)
    script = Script(blocked(go_on(b"other")))
    harness.server.accepted(other, ("10.0.0.2", 8), "SASL", ListenerSecurity("SASL_PLAINTEXT", lambda _: script, 100))
    (_, second) = harness.server._connections
    harness.receive(sock, connection, raw(b"one"))
    harness.receive(other, second, raw(b"one"))
    assert len(threads.work) == 1
    threads.do_one()
    threads.do_one()
    harness.reactor.turn()
    assert (bytes(sock.sent), bytes(other.sent)) == (raw(b"first"), raw(b"other"))
