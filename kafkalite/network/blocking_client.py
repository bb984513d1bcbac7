"""A connection to a broker for programs without a reactor: Spark's tasks, commands, tests.

Answers to: ``org.apache.kafka.clients.NetworkClient``, without reconnects. Blocking shell: one socket, used by one
thread.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from types import TracebackType
from typing import Self

from kafkalite.common.types import Buffer
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import request_header, response_body_offset

_INT32 = struct.Struct(">i")
_SMALL = 1 << 16
"""Requests below this size are sent as one piece, because a copy costs less than another system call."""


class BlockingConnection:
    """Requests over a connected socket, whose timeout limits each wait for bytes.

    Several requests may be outstanding; brokers answer in the order of the requests. The methods raise ``OSError`` if
    the connection is lost, and :class:`ProtocolError` for bytes that do not answer the request; it is of no use
    afterwards.
    """

    def __init__(self, connected: socket.socket, client_id: str) -> None:
        self.socket = connected
        self.client_id = client_id
        self._correlation = 0
        self._outstanding: deque[tuple[int, int, int]] = deque()
        self._buffer = bytearray()
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @classmethod
    def open(cls, host: str, port: int, client_id: str, timeout: float) -> Self:
        """Connect. ``timeout`` in seconds: for this, and for each wait afterwards. Raises ``OSError``."""
        return cls(socket.create_connection((host, port), timeout), client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def call(self, api_key: int, version: int, body: Buffer, *, reuse: bool = False) -> memoryview:
        """Send a request and return the body of its answer; for ``reuse`` see :meth:`receive`."""
        self.post(api_key, version, body)
        return self.receive(reuse=reuse)

    def post(self, api_key: int, version: int, *parts: Buffer) -> None:
        """Send a request whose answer :meth:`receive` will return; ``parts`` are its body."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        head = request_header(api_key, version, self._correlation, self.client_id)
        size = len(head) + sum(map(len, parts))
        if size < _SMALL:
            self.socket.sendall(b"".join((_INT32.pack(size), head, *parts)))
        else:
            self.socket.sendall(_INT32.pack(size) + head)
            for part in parts:
                self.socket.sendall(part)
        self._outstanding.append((api_key, version, self._correlation))

    def receive(self, *, reuse: bool = False) -> memoryview:
        """The body of the answer to the oldest outstanding request.

        With ``reuse`` it lies in memory that the next such call overwrites.
        """
        api_key, version, correlation = self._outstanding.popleft()
        frame = self.receive_frame(reuse=reuse)
        if _INT32.unpack_from(frame)[0] != correlation:
            raise ProtocolError("an answer to another request")
        return frame[response_body_offset(api_key, version, frame) :]

    def receive_frame(self, *, reuse: bool = False) -> memoryview:
        """The next frame, without its length; at least four bytes."""
        head = bytearray(4)
        self._fill(memoryview(head))
        (size,) = _INT32.unpack(head)
        if size < 4:
            raise ProtocolError(f"an answer of {size} bytes")
        frame = memoryview(self._reused(size) if reuse else bytearray(size))[:size]
        self._fill(frame)
        return frame

    def _reused(self, size: int) -> bytearray:
        if len(self._buffer) < size:
            self._buffer = bytearray(size + size // 8)
        return self._buffer

    def _fill(self, view: memoryview) -> None:
        position = 0
        while position < len(view):
            count = self.socket.recv_into(view[position:])
            if not count:
                raise ConnectionError("closed by the broker")
            position += count
