"""kazoo's session, driven our way: requests in batches, answers by one lane. Reactor shell.

Answers to: ``org.apache.zookeeper.ClientCnxn``.

kazoo keeps the connection in a thread of its own; of the rest only its codec is used. Requests go to that thread in
batches (kazoo itself writes one a turn and wakes the thread with a byte for each, which blocks the caller once some
hundreds wait), and everything comes back by one lane: two queues would let a completion overtake the watch event that
preceded it, and readers would then believe what that event had made stale. This file overrides kazoo's internals, so
it is the one to look at when kazoo changes.
"""

from __future__ import annotations

import _socket
import logging
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.protocol.states import Callback, KeeperState
from kazoo.retry import KazooRetry

from kafkalite.common.tasks import Future
from kafkalite.zk import zk_client
from kafkalite.zk.session_security import OPEN, LoginRefusedError, ZkSecurity, log_in, secured
from kafkalite.zk.zk_client import ZkError

log = logging.getLogger(__name__)
A = TypeVar("A")
T = TypeVar("T")
_BATCH = 500
"""Calls made in one turn of the reactor, so that a burst from ZooKeeper does not hold up the network."""


class ReactorLane:
    """Makes calls that come from any thread on the reactor, in the order in which they came."""

    def __init__(self, call_from_thread: Callable[..., object]) -> None:
        self._call_from_thread = call_from_thread
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._scheduled = False

    def put(self, call: Callable[..., object], *args: object) -> None:
        """Make ``call(*args)`` on the reactor."""
        # Append before the flag is read, because _drain clears the flag before it reads the calls: so no call is ever
        # left behind. Scheduling once too often is harmless.
        self._calls.append((call, args))
        if not self._scheduled:
            self._scheduled = True
            self._call_from_thread(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        calls = self._calls
        for _ in range(min(len(calls), _BATCH)):
            call, args = calls.popleft()
            try:
                call(*args)
            except Exception:
                log.exception("ZooKeeper callback %r failed", call)
        if calls and not self._scheduled:
            self._scheduled = True
            self._call_from_thread(self._drain)


MAX_ANSWER = 64 << 20
"""Bytes of one answer; a connection that announces more is dropped."""
_WRITE_SIZE = _READ_SIZE = 256 << 10
_TLS_RECORD = 16 << 10
"""The longest record of TLS. A call that asks for less leaves decrypted bytes behind, which make no socket readable."""

_MIN_HANDSHAKE = 3.0
"""Seconds that a server always has to open a session, which it first writes to its disk."""

_ERRORS: tuple[tuple[type[Exception], type[ZkError]], ...] = (
    (exceptions.NoNodeError, zk_client.NoNodeError),
    (exceptions.NodeExistsError, zk_client.NodeExistsError),
    (exceptions.BadVersionError, zk_client.BadVersionError),
    (exceptions.NotEmptyError, zk_client.NotEmptyError),
    (exceptions.NoAuthError, zk_client.NotAuthorizedError),
    (exceptions.InvalidACLError, zk_client.NoIdentityError),
    (exceptions.SessionExpiredError, zk_client.SessionExpiredError),
    (exceptions.ConnectionLoss, zk_client.ConnectionLostError),
    (exceptions.ConnectionClosedError, zk_client.ConnectionLostError),
)


def zk_error(error: Exception, path: str) -> ZkError:
    """kazoo's error as one of ours."""
    for theirs, ours in _ERRORS:
        if isinstance(error, theirs):
            return ours(path)
    return ZkError(path, f"{type(error).__name__} {error}".strip() + ":")


class KazooRequest(Protocol):
    """A request of kazoo's, with the number of its type."""

    type: int

    def serialize(self) -> bytes: ...


class Answer(Generic[A, T]):
    """Takes the answer to one request from kazoo, in kazoo's thread."""

    __slots__ = ("_convert", "_future", "_lane", "_path", "session")

    def __init__(
        self, lane: ReactorLane, future: Future[T], path: str, convert: Callable[[A], T], session: int | None
    ) -> None:
        self._lane = lane
        self._future = future
        self._path = path
        self._convert = convert
        self.session = session

    def set(self, value: A) -> None:
        self._lane.put(self._succeed, value)

    def set_exception(self, error: Exception) -> None:
        self._lane.put(self._future.errback, zk_error(error, self._path))

    def _succeed(self, value: A) -> None:
        try:
            result = self._convert(value)
        except ZkError as error:
            self._future.errback(error)
        else:
            self._future.callback(result)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads without its two queues. Its connections have had their TLS handshake."""

    def __init__(self, lane: ReactorLane, connect_timeout: float, security: ZkSecurity) -> None:
        super().__init__()
        self._lane = lane
        self._connect_timeout = connect_timeout
        self._security = security
        self.reads_ahead = security.tls is None
        self.host = ""
        """Name of the server that is connected to next; only the newest kazoo hands it to :meth:`create_connection`."""
        self.last_problem = ""
        """Why the last connection failed, where it was more than an unreachable server."""

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Callback) -> None:
        self._lane.put(callback.func, *callback.args)

    def create_connection(self, address: tuple[str, int], *, timeout: float, **_kazoos_own: object) -> _socket.socket:
        # A host that swallows packets must leave time for the others within the session timeout.
        connection = socket.create_connection(address, min(timeout, self._connect_timeout))
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return secured(connection, self.host, self._security.tls)
        except ssl.SSLError as error:
            text = getattr(error, "verify_message", "") or error.reason or str(error)
            self.report(f"TLS to {self.host}:{address[1]} failed: {text}")
            connection.close()
            raise
        except OSError:
            connection.close()
            raise

    def hint(self) -> str:
        """What may be wrong where a server takes the connection and answers nothing."""
        if self._security.tls is None:
            return "the server closed the connection: does its port serve TLS (zookeeper.ssl.client.enable)?"
        return "the server closed the connection: does it trust the certificate in zookeeper.ssl.keystore.location?"

    def report(self, problem: str) -> None:
        """Keep and log why a connection failed: each reason once, because kazoo tries again without end."""
        if problem != self.last_problem:
            self.last_problem = problem
            log.error("ZooKeeper: %s", problem)


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection; writes all waiting requests at once, and each request only in the session it is bound to."""

    _xid: int

    def _invoke(self, timeout: float, request: object, xid: int | None = None) -> object:
        if not isinstance(request, serialization.Connect):
            return super()._invoke(timeout, request, xid)
        # A ZooKeeper that is starting may take the connection and lose its first request: leave time to ask again.
        longest = max(_MIN_HANDSHAKE, self.client._session_timeout / 3000)
        answer = super()._invoke(min(timeout, longest), request, xid)
        self.client.negotiated_ms = answer[0].time_out
        return answer

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        client = self.client
        self._read_sock.recv(4096)
        client.awake = False  # Cleared before the queue is read: see KazooSession.submit.
        now = time.monotonic()
        if not client._pending:
            self._answered = now
        elif now - self._answered > read_timeout:
            # kazoo pings only after a pause in sending, so a client that keeps sending never notices a dead server.
            raise ConnectionDropped(f"no answer for {read_timeout:g} s")
        queue = client._queue
        out = bytearray()
        while queue and len(out) < _WRITE_SIZE:
            request, answer = queue.popleft()
            if answer is not None and answer.session not in (None, client._session_id):
                answer.set_exception(exceptions.SessionExpiredError())
                continue
            self._xid = int(self._xid) % 2147483647 + 1
            body = request.serialize()
            out += serialization.int_int_struct.pack(len(body) + 8, self._xid)
            out += serialization.int_struct.pack(request.type)
            out += body
            client._pending.append((request, answer, self._xid))
        if queue:
            client.wake()
        self._write(out, connect_timeout)

    def _connect(self, host: str, address: str, port: int) -> object:
        self._received = bytearray()
        self._read_size = _READ_SIZE if self.handler.reads_ahead else _TLS_RECORD
        self._answered = time.monotonic()
        self._frame: bytes | None = None
        client = self.client
        self.handler.host = host
        # kazoo says "connected" before the login, which may fail.
        client.is_logging_in = self.sasl_options is not None
        try:
            timeouts = super()._connect(host, address, port)
        except ConnectionDropped:
            if self._socket is not None and not self.handler.last_problem:
                self.handler.last_problem = self.handler.hint()
            raise
        finally:
            client.is_logging_in = False
        self.handler.last_problem = ""
        if self.sasl_options is not None:
            client._session_callback(KeeperState.CONNECTED)
        return timeouts

    def _read_socket(self, read_timeout: float) -> object:
        # Read all received bytes by one system call; kazoo makes four for each answer.
        try:
            chunk = self._socket.recv(self._read_size)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        if not chunk:
            raise ConnectionDropped("ZooKeeper closed the connection")
        self._answered = time.monotonic()
        received = self._received
        received += chunk
        position = 0
        closed = None
        while closed is None and len(received) - position >= 4:
            (length,) = serialization.int_struct.unpack_from(received, position)
            if not 0 <= length <= MAX_ANSWER:
                raise ConnectionDropped(f"an answer of {length} bytes")
            if len(received) - position - 4 < length:
                break
            self._frame = bytes(received[position + 4 : position + 4 + length])
            position += 4 + length
            closed = super()._read_socket(read_timeout)
        del received[:position]
        return closed

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        def receive() -> bytes:
            (length,) = serialization.int_struct.unpack(self._read(4, timeout))
            if not 0 <= length <= MAX_ANSWER:
                raise ConnectionDropped(f"an answer of {length} bytes")
            return bytes(self._read(length, timeout))

        try:
            log_in(self.sasl_options, lambda frame: self._write(frame, timeout), receive)
        except (LoginRefusedError, ConnectionDropped) as error:
            # ZooKeeper closes the connection of a client that it refuses.
            self.handler.report(f"the SASL login at {host} failed: {error}")
            # kazoo would end its thread for ever; the password may be put right on the server.
            raise ConnectionDropped("the SASL login failed") from None

    def _read_header(self, timeout: float) -> object:
        frame, self._frame = self._frame, None
        if frame is None:  # The client is still connecting.
            return super()._read_header(timeout)
        header, offset = serialization.ReplyHeader.deserialize(frame, 0)
        return header, frame, offset


class KazooSession(KazooClient):  # type: ignore[misc]
    """kazoo's session."""

    def __init__(self, lane: ReactorLane, hosts: str, timeout: float, security: ZkSecurity = OPEN) -> None:
        count = hosts.partition("/")[0].count(",") + 1
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.5)
        logger = logging.getLogger("kafkalite.zk.kazoo")
        logger.setLevel(logging.WARNING)
        super().__init__(
            hosts,
            timeout,
            handler=_Handler(lane, max(0.3, timeout / 3 / count), security),
            auth_data=[("digest", security.digest)] if security.digest else None,
            connection_retry=retry,
            logger=logger,
        )
        self._connection = _Connection(self, self._conn_retry.copy(), logger=logger, sasl_options=security.sasl)
        self.awake = False
        self.is_logging_in = False
        self.negotiated_ms = int(timeout * 1000)

    @property
    def last_problem(self) -> str:
        """Why the last connection failed, where it was more than an unreachable server; any thread may ask."""
        return str(self.handler.last_problem)

    def _session_callback(self, state: KeeperState) -> None:
        if state != KeeperState.CONNECTED or not self.is_logging_in:
            super()._session_callback(state)

    def wake(self) -> None:
        """Make the connection's thread look at the queue."""
        if not self.awake:
            self.awake = True
            socket = self._connection._write_sock
            if socket is not None:
                socket.send(b"\0")

    def submit(self, request: KazooRequest, answer: Answer[A, T]) -> None:
        """Queue ``request``; it is sent while connected, or fails."""
        queue = self._queue
        queue.append((request, answer))
        if self._state != KeeperState.CONNECTED or self._queue is not queue:
            # The connection was lost after the reactor had checked it, and its thread may have emptied the queue before
            # this request came in. The thread that takes an entry answers it, so that each is answered once.
            while queue:
                try:
                    entry = queue.popleft()
                except IndexError:
                    return
                if entry[1] is not None:
                    entry[1].set_exception(exceptions.ConnectionLoss())
            return
        self.wake()
