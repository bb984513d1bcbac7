"""One client's connection: bytes in, requests out, answers back in the order of the requests.

Answers to: ``org.apache.kafka.common.network.KafkaChannel`` and ``kafka.network.Processor``. Reactor shell: it
is a reader and a writer of Twisted's reactor, and uses only the socket and the server that it is given.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Protocol

from twisted.python.failure import Failure

from kafkalite.common.authentication import AuthenticationStep, Authenticator, Verdict
from kafkalite.common.types import FileRegion, Part
from kafkalite.network.connection_totals import ConnectionTotals
from kafkalite.network.endpoint_security import PLAINTEXT, ListenerSecurity
from kafkalite.network.failed_authentications import FailedAuthentications
from kafkalite.network.limits import NetworkLimits
from kafkalite.network.output_queue import OutputQueue, RegionError, WriteResult
from kafkalite.network.pending_step import PendingStep
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.network.reactor import DelayedCall, ReactorSockets
from kafkalite.network.request import ConnectionInfo, Request, RequestHandler, RequestTimes
from kafkalite.network.request_memory import RequestMemory
from kafkalite.network.sockets import Socket
from kafkalite.network.tls_channel import TlsChannel
from kafkalite.network.tls_socket import ESTABLISHED, TlsSocket
from kafkalite.network.unauthenticated_clients import UnauthenticatedClients
from kafkalite.protocol.api_keys import is_flexible
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import FrameParser, parse_request_header
from kafkalite.protocol.memory import FramePool

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_API_KEY = struct.Struct(">h")
_SASL_HANDSHAKE = 17
_API_VERSIONS = 18


class ConnectionHost(Protocol):
    """What a connection shares with the others of its broker: ``kafkalite.network.server.KafkaServer``."""

    reactor: ReactorSockets
    handler: RequestHandler
    limits: NetworkLimits
    memory: RequestMemory
    pool: FramePool
    complaints: RateLimitedLog
    scratch: bytearray
    """The buffer that small requests of all connections are read into."""
    view: memoryview
    """A view of ``scratch``."""
    unauthenticated: UnauthenticatedClients
    is_stopping: bool
    failed_authentications: FailedAuthentications
    """How many clients failed to authenticate, by listener."""
    totals: ConnectionTotals

    @property
    def now(self) -> Callable[[], float]:
        """The monotonic clock, in seconds."""

    @property
    def time_ms(self) -> Callable[[], int]:
        """The time of day, in ms."""

    def enter(self) -> None:
        """An event of a connection begins."""

    def leave(self) -> None:
        """The event is over: settle the connections that were marked during it."""

    def mark(self, connection: Connection) -> None:
        """``connection`` has something to write, or may read again: settle it after the current event."""

    def warm(self, region: FileRegion, done: Callable[[Exception | None], None]) -> None:
        """Bring ``region`` into memory off the reactor, then clear its ``cold`` and call ``done``."""

    def make_step(
        self, work: Callable[[], AuthenticationStep], done: Callable[[AuthenticationStep | None], None]
    ) -> PendingStep:
        """Make a step of an authentication off the reactor, then call ``done``, with ``None`` if that failed."""

    def forget(self, connection: Connection) -> None:
        """``connection`` is closed."""


class Connection:
    """Reads requests and hands them to the handler; collects answers and writes them after the event.

    Requests are numbered in the order of arrival: ``_next`` is the number of the next request to arrive, ``_due`` of
    the next one to be answered. An answer that comes before those to earlier requests waits in ``_early``.
    ``reactor`` watches the socket until the client has authenticated, then the server's does. It is a ``TlsChannel``
    where the socket is a ``TlsSocket``.

    A muted connection takes no request and is not read; what it was asked before is answered. It is muted while its
    client is throttled (KIP-219), while a step of its authentication is made off the reactor, and from a failed
    authentication until that is answered.
    """

    __slots__ = (
        "_authenticator",
        "_awaits_answers",
        "_backlog",
        "_blocked",
        "_busy",
        "_due",
        "_early",
        "_held",
        "_inflight",
        "_is_authenticating",
        "_muted",
        "_muted_until",
        "_next",
        "_reactor",
        "_reading",
        "_received",
        "_security",
        "_server",
        "_sock",
        "_traffic",
        "_unsent",
        "_warming",
        "_was_authenticated",
        "closed",
        "dirty",
        "fd",
        "info",
        "ip",
        "last_active",
        "output",
        "parser",
    )

    def __init__(
        self,
        server: ConnectionHost,
        sock: Socket,
        ip: str,
        info: ConnectionInfo,
        security: ListenerSecurity = PLAINTEXT,
        reactor: ReactorSockets | None = None,
    ) -> None:
        self._server = server
        self._reactor = server.reactor if reactor is None else reactor
        self._sock = sock
        self.fd: int = sock.fileno()
        self.ip = ip
        self.info = info
        self.parser = FrameParser(server.limits.max_request_bytes, server.pool)
        self.output = OutputQueue()
        self.last_active: float = server.now()
        self.closed = False
        self.dirty = False
        self._next = 0
        self._due = 0
        self._early: dict[int, tuple[Request, list[Part] | None]] | None = None
        self._backlog: list[bytearray | memoryview] | None = None
        self._inflight = 0
        self._held = 0
        self._busy = False
        self._reading = False
        self._blocked = False
        self._warming = False
        self._security = security
        self._traffic = server.totals.traffic[info.listener]
        self._authenticator: Authenticator | None = None
        self._was_authenticated = False
        self._is_authenticating = False
        self._awaits_answers = False
        if security.authenticator is not None:
            self._authenticator = security.authenticator(info)
            self._expect_authentication()
        self._muted: DelayedCall | PendingStep | None = None
        self._muted_until = 0.0
        self._received = 0.0
        self._unsent: list[RequestTimes] = []
        """Of the timed requests whose answers are in ``output``."""

    # The methods that Twisted's reactor calls (IReadWriteDescriptor).

    def fileno(self) -> int:
        """The number of the descriptor, also after it was closed; the reactor no longer watches it then."""
        return self.fd

    def logPrefix(self) -> str:  # noqa: N802
        """For Twisted's own log."""
        return "kafka"

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802
        """The reactor saw the connection fail."""
        self.close(str(getattr(reason, "value", reason)))

    def doRead(self) -> None:  # noqa: N802
        """Bytes have come, or the client has closed."""
        if self.closed:
            return
        server = self._server
        parser = self.parser
        if server.memory.is_exhausted and not parser.held and not self._has_priority:
            self.stop_reading()
            server.memory.wait(self._mark)
            return
        target = parser.target(server.view)
        try:
            count = self._sock.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"reading failed: {error}")
            return
        finally:
            del target
        if count == 0:
            self.close("closed by the client")
            return
        self._traffic.bytes_in += count
        self.last_active = self._received = server.now()
        server.enter()
        try:
            frames = parser.received(server.scratch, count)
            size = 0
            for frame in frames:
                size += len(frame)
            held = parser.held
            server.memory.held += size + held - self._held
            self._inflight += size
            if self._is_authenticating and held != self._held:
                server.unauthenticated.holds(self, self._memory_of_login + held)
            self._held = held
            if frames:
                self._dispatch(frames)
            if parser.offence:
                self.abort(parser.offence)
        except ProtocolError as error:
            self.abort(str(error))
        finally:
            self.settle()
            server.leave()

    def doWrite(self) -> None:  # noqa: N802
        """The socket takes more bytes."""
        if self.closed:
            return
        server = self._server
        self.last_active = server.now()
        self._blocked = False
        server.enter()
        try:
            self.settle()
            if not self._blocked and not self.closed:
                self._reactor.removeWriter(self)
        finally:
            server.leave()

    # Requests.

    @property
    def outstanding(self) -> int:
        """How many requests have no answer, or one that waits for the answers to earlier requests."""
        return self._next - self._due

    @property
    def is_muted(self) -> bool:
        """Whether no request is taken for now."""
        return self._muted is not None

    def mute(self, seconds: float) -> None:
        """See :class:`kafkalite.network.request.Responder`."""
        if self.closed or seconds <= 0:
            return
        self._muted_until = max(self._muted_until, self._server.now() + seconds)
        if self._muted is None:
            self._muted = self._server.reactor.callLater(seconds, self._unmute)
            self.stop_reading()

    def _unmute(self) -> None:
        now = self._server.now()
        if now < self._muted_until:
            # Another of the client's requests was throttled meanwhile, for longer.
            self._muted = self._server.reactor.callLater(self._muted_until - now, self._unmute)
            return
        self._muted = None
        # The client was silent because it was told to be.
        self.last_active = now
        self._mark()

    @property
    def _is_unread(self) -> bool:
        """Whether the client has so much to read that it gets no further answers for now."""
        output, limits = self.output, self._server.limits
        return output.memory > limits.max_unsent_memory or output.size > limits.max_unsent_bytes

    @property
    def _has_priority(self) -> bool:
        """Whether requests are read although the memory for them is exhausted."""
        return self.info.is_of_controller or (self._next == 0 and self._server.memory.has_reserve)

    def _dispatch(self, frames: list[bytearray | memoryview]) -> None:
        server = self._server
        handle = server.handler.handle
        received = self._received
        limits = server.limits
        self._busy = True
        try:
            for index, frame in enumerate(frames):
                full = self._next - self._due >= limits.max_inflight_requests
                if full or self._muted is not None or self._is_unread:
                    self._backlog = frames[index:]
                    self.stop_reading()
                    return
                view = memoryview(frame)
                if self._authenticator is not None and self._take_for_authentication(self._authenticator, view):
                    if self._awaits_answers:
                        self._backlog = frames[index:]
                        self.stop_reading()
                        return
                    if self.closed:
                        return
                    continue
                header, body = parse_request_header(view)
                request = Request(header, view[body:], self, received, len(frame), self._next)
                self._next += 1
                self._traffic.requests += 1
                server.memory.outstanding += 1
                handle(request)
                if self.closed:
                    return
        except ProtocolError as error:
            self.abort(str(error))
        except Exception:
            log.exception("%s: a request could not be handled", self.info.peer)
            self.close("its request could not be handled")
        finally:
            self._busy = False

    def _take_for_authentication(self, authenticator: Authenticator, frame: memoryview) -> bool:
        """Whether ``frame`` is no request for the handler: it belongs to the authentication, or the session is over.

        ``_awaits_answers`` then says that it cannot be taken before the requests before it are answered.
        """
        server = self._server
        now_ms = server.time_ms()
        if not self._is_authenticating:
            if len(frame) < _API_KEY.size or _API_KEY.unpack_from(frame)[0] != _SASL_HANDSHAKE:
                if authenticator.is_expired(now_ms):
                    server.totals.expired[self.info.listener] += 1
                    self.close("its session expired, and it did not authenticate again")
                    return True
                return False
            self._awaits_answers = self.outstanding > 0
            if self._awaits_answers:
                return True
            if not authenticator.begin_reauthentication(now_ms):
                return False
            self._expect_authentication()
        self._awaits_answers = False
        step = authenticator.receive(frame, now_ms)
        self._inflight -= len(frame)
        server.memory.release(len(frame))
        if step.work is not None:
            self.stop_reading()
            pending = server.make_step(step.work, self._step_made)
            if not pending.is_over:
                self._muted = pending
        else:
            self._take_step(authenticator, step)
        return True

    def _step_made(self, step: AuthenticationStep | None) -> None:
        """A step that blocked is made; ``None`` if that failed."""
        self._muted = None
        if step is None or self._authenticator is None:
            self._drop("its authentication could not be carried out")
            return
        self.last_active = self._server.now()
        self._take_step(self._authenticator, step)
        self._mark()

    def _take_step(self, authenticator: Authenticator, step: AuthenticationStep) -> None:
        if step.verdict is Verdict.INVALID:
            self.abort(step.reason)
        elif step.verdict is Verdict.FAILED:
            self._refuse(step)
        else:
            self._send_frame(step.answer)
            if step.verdict is Verdict.COMPLETE:
                self._authenticated(authenticator)

    @property
    def _memory_of_login(self) -> int:
        """Bytes that the connection takes beside its requests."""
        return ESTABLISHED if isinstance(self._sock, TlsSocket) else 0

    def _expect_authentication(self) -> None:
        self._is_authenticating = True
        self.parser.max_size = min(self._server.limits.max_request_bytes, self._security.max_receive_bytes)

    def _authenticated(self, authenticator: Authenticator) -> None:
        assert authenticator.principal is not None
        totals = self._server.totals
        (totals.reauthenticated if self._was_authenticated else totals.authenticated)[self.info.listener] += 1
        self._was_authenticated = True
        self.info.principal = authenticator.principal
        self.info.decisions = None
        self._is_authenticating = False
        self._leave_unauthenticated()
        self.parser.max_size = self._server.limits.max_request_bytes
        if authenticator.session_expires_at_ms is None:
            self._authenticator = None

    def _leave_unauthenticated(self) -> None:
        """The client has authenticated: its events no longer wait for those of clients that have not."""
        server = self._server
        server.unauthenticated.remove(self)
        before = self._reactor
        if isinstance(before, TlsChannel):
            before.move_to(server.reactor)
        elif before is not server.reactor:
            before.removeReader(self)
            before.removeWriter(self)
            self._reactor = server.reactor
            if self._reading:
                self._reactor.addReader(self)
            if self._blocked:
                self._reactor.addWriter(self)

    def _refuse(self, step: AuthenticationStep) -> None:
        """Mute, because a client that guesses must not be fast; answer a failed authentication after that and close."""
        server = self._server
        self.stop_reading()
        why = f"authentication failed: {step.reason}"
        server.failed_authentications.add(self.info.listener, self.info.peer, str(step.reason))
        server.complaints.warning("closing the connection of %s: %s", self.info.peer, why)
        delay = server.limits.failed_authentication_delay
        self._muted = server.reactor.callLater(delay, self._end_refused, step.answer, why)

    def _end_refused(self, answer: bytes | None, why: str) -> None:
        self._muted = None
        self._send_frame(answer)
        if self.output.size and not self._blocked and not self._warming:
            self._write()
        self.close(why)

    def _send_frame(self, frame: bytes | None) -> None:
        if frame is not None:
            self.output.extend((_LENGTH.pack(len(frame)) + frame,))

    def respond(self, request: Request, parts: list[Part] | None) -> None:
        """See :class:`kafkalite.network.request.Responder`."""
        if request.answered or self.closed:
            return
        request.answered = True
        times = request.times
        if times is not None:
            times.answered = self._server.now()
            times.throttled = request.throttled
        self._inflight -= request.held
        memory = self._server.memory
        memory.outstanding -= 1
        memory.release(request.held)
        if request.sequence != self._due:
            if self._early is None:
                self._early = {}
            self._early[request.sequence] = (request, parts)
            return
        self._due += 1
        self._emit(request, parts)
        if self._early:
            early = self._early
            while self._due in early:
                request, parts = early.pop(self._due)
                self._due += 1
                self._emit(request, parts)
        if not self._busy:
            self._mark()

    def release(self, size: int) -> None:
        """See :class:`kafkalite.network.request.Responder`."""
        if not self.closed:
            self._inflight -= size
            self._server.memory.release(size)

    def _mark(self) -> None:
        """Settle after the current event."""
        if not self.dirty and not self.closed:
            self.dirty = True
            self._server.mark(self)

    def _emit(self, request: Request, parts: list[Part] | None) -> None:
        times = request.times
        if parts is None:
            if times is not None:
                times.finish(times.answered)
            return
        if times is not None:
            self._unsent.append(times)
        self._traffic.answers += 1
        header = request.header
        size = 4 + sum(map(len, parts))
        if is_flexible(header.api_key, header.api_version) and header.api_key != _API_VERSIONS:
            head = _HEAD.pack(size + 1, header.correlation_id) + b"\0"
        else:
            head = _HEAD.pack(size, header.correlation_id)
        self.output.extend((head, *parts))

    # Writing, and what depends on it.

    def settle(self) -> None:
        """Write what can be written; handle requests that had to wait; read again if reading was stopped."""
        self.dirty = False
        while not self.closed:
            if self.output.size:
                if not self._blocked and not self._warming:
                    self._write()
                if self.closed or self._is_unread:
                    return
            backlog = self._backlog
            if backlog is None:
                break
            at_once = 1 if self._awaits_answers else self._server.limits.max_inflight_requests
            if self._muted is not None or self._next - self._due >= at_once:
                return
            self._backlog = None
            self._dispatch(backlog)
        if not self._reading and not self.closed and self._muted is None and not self._server.is_stopping:
            self.start_reading()

    def _write(self) -> None:
        output = self.output
        size = output.size
        try:
            written = output.write(self._sock)
        except RegionError as error:
            # A part of the answer may have been sent, so it cannot become an error response. The client will ask again.
            self._drop(str(error))
            return
        except OSError as error:
            self.close(f"writing failed: {error}")
            return
        self._traffic.bytes_out += size - output.size
        if written == WriteResult.ALL:
            if self._unsent:
                self._sent()
        elif written == WriteResult.BLOCKED:
            self._blocked = True
            self._reactor.addWriter(self)
        elif written == WriteResult.COLD:
            self._warming = True
            self._server.warm(self.output.cold_region(), self._warmed)

    def _sent(self) -> None:
        """All answers in ``output`` are sent."""
        now = self._server.now()
        for times in self._unsent:
            times.finish(now)
        self._unsent.clear()

    def _warmed(self, error: Exception | None) -> None:
        """The cold region at the head of the output is in memory now, or cannot be read."""
        self._warming = False
        if self.closed:
            return
        if error is not None:
            self._drop(str(error))
        else:
            self._mark()

    def start_reading(self) -> None:
        """Have the reactor call :meth:`doRead`."""
        if not self._reading and not self.closed:
            self._reading = True
            self._reactor.addReader(self)

    def stop_reading(self) -> None:
        """Leave incoming bytes in the kernel, so that TCP slows the client down."""
        if self._reading:
            self._reading = False
            self._reactor.removeReader(self)

    # Methods that a TlsChannel calls (TlsOwner).

    def tls_established(self) -> None:
        """The handshake is complete: the client's certificate may say who it is."""
        principal_of = self._security.principal
        sock = self._sock
        if principal_of is not None and isinstance(sock, TlsSocket):
            try:
                self.info.principal = principal_of(sock.peer_certificate)
            except (LookupError, ValueError) as error:
                self._drop(f"its certificate is refused: {error}")
                return
        if self._is_authenticating:
            self._server.unauthenticated.holds(self, self._memory_of_login)
        else:
            self._leave_unauthenticated()

    def tls_holds(self, size: int) -> None:
        """The handshake goes on, and takes ``size`` bytes of memory."""
        self._server.unauthenticated.holds(self, size)

    def tls_failed(self, why: str) -> None:
        """The handshake failed."""
        self._drop(f"no TLS: {why}")

    # The end.

    def abort(self, why: str) -> None:
        """See :class:`kafkalite.network.request.Responder`."""
        if not self.closed:
            if self.output.size and not self._blocked and not self._warming:
                # Answers to the requests before the malformed one are sent, as far as the socket takes them at once.
                self._write()
            self._drop(why)

    def expel(self, why: str) -> None:
        """See :class:`kafkalite.network.unauthenticated_clients.UnauthenticatedClient`."""
        self._drop(why)

    def _drop(self, why: str) -> None:
        """Close for a reason that the operator of the broker should know."""
        self._server.complaints.warning("closing the connection of %s: %s", self.info.peer, why)
        self.close(why)

    def close(self, why: str) -> None:
        """Close at once; requests without an answer and answers that were not sent are dropped."""
        if self.closed:
            return
        self.closed = True
        log.debug("%s: %s", self.info.peer, why)
        server = self._server
        self.stop_reading()
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        self._reactor.removeWriter(self)
        self._sock.close()
        self.output.clear()
        unanswered = self._next - self._due - (len(self._early) if self._early else 0)
        server.memory.outstanding -= unanswered
        self._early = self._backlog = None
        # A TlsChannel refers to this connection: without the cycle both are freed at once.
        self._reactor = server.reactor
        # Release the memory of a frame that was received in part.
        self.parser = FrameParser(0)
        server.forget(self)
        server.memory.release(self._inflight + self._held)
        self._inflight = self._held = 0
        waiting, self.info.waiting = self.info.waiting, None
        if waiting:
            # In the reactor's next turn, because the caller may be iterating over the requests that wait.
            server.reactor.callLater(0, _give_up, list(waiting.values()))


def _give_up(waiting: list[Callable[[], object]]) -> None:
    """Cancel requests that waited; their client has gone."""
    for cancel in waiting:
        try:
            cancel()
        except Exception:
            log.exception("a request that waited could not be given up")
