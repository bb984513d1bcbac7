"""kazoo's session, driven our way: requests in batches, answers by one lane. Reactor shell.

Answers to: ``org.apache.zookeeper.ClientCnxn``.

kazoo keeps the connection in a thread of its own; of the rest only its codec is used. Requests go to that thread in
batches (kazoo itself writes one a turn and wakes the thread with a byte for each, which blocks the caller once some
hundreds wait), and everything comes back by one lane. What is overridden here are kazoo's internals, so that this is
the file to look at when kazoo changes.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from kafkalite.common.tasks import Future
from kafkalite.zk import zk_client
from kafkalite.zk.lane import ReactorLane
from kafkalite.zk.zk_client import ZkError

MAX_ANSWER = 64 << 20
"""Bytes of one answer; a connection that announces more is dropped."""
_WRITE_SIZE = _READ_SIZE = 256 << 10

_ERRORS: tuple[tuple[type[Exception], type[ZkError]], ...] = (
    (exceptions.NoNodeError, zk_client.NoNodeError),
    (exceptions.NodeExistsError, zk_client.NodeExistsError),
    (exceptions.BadVersionError, zk_client.BadVersionError),
    (exceptions.NotEmptyError, zk_client.NotEmptyError),
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


class Answer:
    """Where kazoo puts the answer to one request, in its own thread."""

    __slots__ = ("_convert", "_future", "_lane", "_path", "session")

    def __init__(
        self, lane: ReactorLane, future: Future[Any], path: str, convert: Callable[[Any], Any], session: int | None
    ) -> None:
        self._lane = lane
        self._future = future
        self._path = path
        self._convert = convert
        self.session = session

    def set(self, value: object) -> None:
        self._lane.put(self._succeed, value)

    def set_exception(self, error: Exception) -> None:
        self._lane.put(self._future.errback, zk_error(error, self._path))

    def _succeed(self, value: object) -> None:
        try:
            result = self._convert(value)
        except ZkError as error:
            self._future.errback(error)
        else:
            self._future.callback(result)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads without its two queues."""

    def __init__(self, lane: ReactorLane, connect_timeout: float) -> None:
        super().__init__()
        self._lane = lane
        self._connect_timeout = connect_timeout

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        self._lane.put(callback.func, *callback.args)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        # a host that swallows packets must leave time for the others within the session timeout
        kwargs["timeout"] = min(kwargs.get("timeout") or self._connect_timeout, self._connect_timeout)
        return super().create_connection(*args, **kwargs)


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, writing all that waits at once, and each request only in the session it was meant for."""

    _xid: int

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, serialization.Connect):
            self.client.negotiated_ms = answer[0].time_out
        return answer

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        client = self.client
        self._read_sock.recv(4096)
        client.awake = False  # cleared before the queue is looked at: see KazooSession.submit
        now = time.monotonic()
        if not client._pending:
            self._answered = now
        elif now - self._answered > read_timeout:
            # kazoo pings only after a pause in sending, so a client that keeps sending would never notice
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

    def _connect(self, *address: Any) -> Any:
        self._received = bytearray()
        self._answered = time.monotonic()
        self._frame: bytes | None = None
        return super()._connect(*address)

    def _read_socket(self, read_timeout: float) -> Any:
        # all that has come in one call, where kazoo makes four system calls for each answer
        try:
            chunk = self._socket.recv(_READ_SIZE)
        except BlockingIOError:
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

    def _read_header(self, timeout: float) -> Any:
        frame, self._frame = self._frame, None
        if frame is None:  # while connecting
            return super()._read_header(timeout)
        header, offset = serialization.ReplyHeader.deserialize(frame, 0)
        return header, frame, offset


class KazooSession(KazooClient):  # type: ignore[misc]
    """kazoo's session."""

    def __init__(self, lane: ReactorLane, hosts: str, timeout: float, auth: list[tuple[str, str]] | None) -> None:
        count = hosts.partition("/")[0].count(",") + 1
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.5)
        logger = logging.getLogger("kafkalite.zk.kazoo")
        logger.setLevel(logging.WARNING)
        super().__init__(
            hosts,
            timeout,
            handler=_Handler(lane, max(0.3, timeout / 3 / count)),
            auth_data=auth,
            connection_retry=retry,
            logger=logger,
        )
        self._connection = _Connection(self, self._conn_retry.copy(), logger=logger)
        self.awake = False
        self.negotiated_ms = int(timeout * 1000)

    def wake(self) -> None:
        """Make the connection's thread look at the queue."""
        if not self.awake:
            self.awake = True
            socket = self._connection._write_sock
            if socket is not None:
                socket.send(b"\0")

    def submit(self, request: object, answer: Answer) -> None:
        """Queue ``request``; it is sent while connected, or fails."""
        queue: deque[Any] = self._queue
        queue.append((request, answer))
        if self._state != KeeperState.CONNECTED or self._queue is not queue:
            # The connection went between the reactor's look at it and now, and its thread may have emptied the
            # queue before this came in. Whoever takes an entry answers it, so that it is answered once.
            while queue:
                try:
                    entry = queue.popleft()
                except IndexError:
                    return
                if entry[1] is not None:
                    entry[1].set_exception(exceptions.ConnectionLoss())
            return
        self.wake()
