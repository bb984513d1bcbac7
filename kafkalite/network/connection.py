"""One client's connection: bytes in, requests out, answers back in the order of the requests.

Answers to: ``org.apache.kafka.common.network.KafkaChannel`` and ``kafka.network.Processor``. Reactor shell: it
is a reader and a writer of Twisted's reactor, and uses only the socket and the server that it is given.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Any, Protocol

from kafkalite.common.types import FileRegion, Part
from kafkalite.network.limits import NetworkLimits
from kafkalite.network.output_queue import OutputQueue, RegionError, WriteResult
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.network.request import ConnectionInfo, Request, RequestHandler
from kafkalite.network.request_memory import RequestMemory
from kafkalite.protocol.api_keys import is_flexible
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import FrameParser, parse_request_header
from kafkalite.protocol.memory import FramePool

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">ii")
_API_VERSIONS = 18


class ConnectionHost(Protocol):
    """What a connection shares with the others of its broker: ``kafkalite.network.server.KafkaServer``."""

    reactor: Any
    handler: RequestHandler
    limits: NetworkLimits
    memory: RequestMemory
    pool: FramePool
    complaints: RateLimitedLog
    scratch: bytearray
    """The buffer that small requests of all connections are read into."""
    view: memoryview
    """A view of ``scratch``."""
    is_stopping: bool

    @property
    def now(self) -> Callable[[], float]:
        """The monotonic clock, in seconds."""

    def enter(self) -> None:
        """An event of a connection begins."""

    def leave(self) -> None:
        """The event is over: settle the connections that were marked during it."""

    def mark(self, connection: Connection) -> None:
        """``connection`` has something to write, or may read again: settle it after the current event."""

    def warm(self, region: FileRegion, done: Callable[[Exception | None], None]) -> None:
        """Bring ``region`` into memory off the reactor, then clear its ``cold`` and call ``done``."""

    def forget(self, connection: Connection) -> None:
        """``connection`` is closed."""


class Connection:
    """Reads requests and hands them to the handler; collects answers and writes them after the event.

    Requests are numbered in the order of arrival: ``_next`` is the number of the next request to arrive, ``_due`` of
    the next one to be answered. An answer that comes before those to earlier requests waits in ``_early``.
    """

    __slots__ = (
        "_backlog",
        "_blocked",
        "_busy",
        "_due",
        "_early",
        "_held",
        "_inflight",
        "_next",
        "_reading",
        "_server",
        "_sock",
        "_warming",
        "closed",
        "dirty",
        "fd",
        "info",
        "ip",
        "last_active",
        "output",
        "parser",
    )

    def __init__(self, server: ConnectionHost, sock: Any, ip: str, info: ConnectionInfo) -> None:
        self._server = server
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

    # The methods that Twisted's reactor calls (IReadWriteDescriptor).

    def fileno(self) -> int:
        """The number of the descriptor, also after it was closed; the reactor no longer watches it then."""
        return self.fd

    def logPrefix(self) -> str:  # noqa: N802
        """For Twisted's own log."""
        return "kafka"

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        """The reactor saw the connection fail."""
        self.close(str(getattr(reason, "value", reason)))

    def doRead(self) -> None:  # noqa: N802
        """Bytes have come, or the client has closed."""
        if self.closed:
            return
        server = self._server
        parser = self.parser
        if server.memory.is_exhausted and not parser.held:
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
        self.last_active = server.now()
        server.enter()
        try:
            frames = parser.received(server.scratch, count)
            size = 0
            for frame in frames:
                size += len(frame)
            held = parser.held
            server.memory.held += size + held - self._held
            self._inflight += size
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
                server.reactor.removeWriter(self)
        finally:
            server.leave()

    # Requests.

    @property
    def outstanding(self) -> int:
        """How many requests have no answer, or one that waits for the answers to earlier requests."""
        return self._next - self._due

    @property
    def _is_unread(self) -> bool:
        """Whether the client has so much to read that it gets no further answers for now."""
        output, limits = self.output, self._server.limits
        return output.memory > limits.max_unsent_memory or output.size > limits.max_unsent_bytes

    def _dispatch(self, frames: list[bytearray | memoryview]) -> None:
        server = self._server
        handle = server.handler.handle
        received = self.last_active
        limits = server.limits
        self._busy = True
        try:
            for index, frame in enumerate(frames):
                if self._next - self._due >= limits.max_inflight_requests or self._is_unread:
                    self._backlog = frames[index:]
                    self.stop_reading()
                    return
                view = memoryview(frame)
                header, body = parse_request_header(view)
                request = Request(header, view[body:], self, received, len(frame), self._next)
                self._next += 1
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

    def respond(self, request: Request, parts: list[Part] | None) -> None:
        """See :class:`kafkalite.network.request.Responder`."""
        if request.answered or self.closed:
            return
        request.answered = True
        self._inflight -= request.size
        memory = self._server.memory
        memory.outstanding -= 1
        memory.release(request.size)
        if request.sequence != self._due:
            if self._early is None:
                self._early = {}
            self._early[request.sequence] = (request, parts)
            return
        self._due += 1
        if parts is not None:
            self._emit(request, parts)
        if self._early:
            early = self._early
            while self._due in early:
                request, parts = early.pop(self._due)
                self._due += 1
                if parts is not None:
                    self._emit(request, parts)
        if not self._busy:
            self._mark()

    def _mark(self) -> None:
        """Settle after the current event."""
        if not self.dirty and not self.closed:
            self.dirty = True
            self._server.mark(self)

    def _emit(self, request: Request, parts: list[Part]) -> None:
        header = request.header
        output = self.output
        size = 4
        for part in parts:
            size += len(part)
        if is_flexible(header.api_key, header.api_version) and header.api_key != _API_VERSIONS:
            output.append(_HEAD.pack(size + 1, header.correlation_id) + b"\0", 9)
        else:
            output.append(_HEAD.pack(size, header.correlation_id), 8)
        for part in parts:
            count = len(part)
            if count:
                output.append(part, count)

    # Writing, and what depends on it.

    def settle(self) -> None:
        """Write what can be written; handle requests that had to wait; read again if reading was stopped."""
        self.dirty = False
        while not self.closed:
            if self.output and not self._blocked and not self._warming:
                self._write()
            limits = self._server.limits
            if self.closed or self._is_unread:
                return
            backlog = self._backlog
            if backlog is None:
                break
            if self._next - self._due >= limits.max_inflight_requests:
                return
            self._backlog = None
            self._dispatch(backlog)
        if not self._reading and not self.closed and not self._server.is_stopping:
            self.start_reading()

    def _write(self) -> None:
        try:
            written = self.output.write(self._sock)
        except RegionError as error:
            # A part of the answer may have been sent, so it cannot become an error response. The client will ask again.
            self._drop(str(error))
            return
        except OSError as error:
            self.close(f"writing failed: {error}")
            return
        if written == WriteResult.BLOCKED:
            self._blocked = True
            self._server.reactor.addWriter(self)
        elif written == WriteResult.COLD:
            self._warming = True
            self._server.warm(self.output.cold_region(), self._warmed)

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
            self._server.reactor.addReader(self)

    def stop_reading(self) -> None:
        """Leave incoming bytes in the kernel, so that TCP slows the client down."""
        if self._reading:
            self._reading = False
            self._server.reactor.removeReader(self)

    # The end.

    def abort(self, why: str) -> None:
        """See :class:`kafkalite.network.request.Responder`."""
        if not self.closed:
            if self.output and not self._blocked and not self._warming:
                # Answers to the requests before the malformed one are sent, as far as the socket takes them at once.
                self._write()
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
        server.reactor.removeWriter(self)
        self._sock.close()
        self.output.clear()
        unanswered = self._next - self._due - (len(self._early) if self._early else 0)
        server.memory.outstanding -= unanswered
        self._early = self._backlog = None
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
