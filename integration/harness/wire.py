"""The Kafka protocol over a plain socket: for what no client library lets one say, and for measuring without one."""

from __future__ import annotations

import socket
import struct
from typing import Any

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
CLIENT_ID = b"wire"


class Wire:
    """One connection. Headers are version 1 (client id, no tagged fields): for versions before the flexible ones."""

    def __init__(self, address: str, timeout: float = 10.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def call(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send a request; the body of its answer. Raises ``OSError`` where the broker closes the connection."""
        self.send(api_key, version, body)
        answer = self.receive()
        (correlation,) = struct.unpack_from(">i", answer)
        assert correlation == self._correlation, f"answer {correlation} to request {self._correlation}"
        return answer[4:]

    def send(self, api_key: int, version: int, body: bytes) -> None:
        """Send a request."""
        self._correlation += 1
        header = struct.pack(">hhih", api_key, version, self._correlation, len(CLIENT_ID)) + CLIENT_ID
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def receive(self) -> bytes:
        """One frame, without its length."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        position = 0
        while position < size:
            count = self.socket.recv_into(view[position:])
            if not count:
                raise ConnectionError("connection closed by the broker")
            position += count
        return bytes(buffer)


def string(text: str) -> bytes:
    """A string of the protocol."""
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


class Cursor:
    """Reads the fields of an answer one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, layout: str) -> Any:
        """The next field, or a tuple of them, by :mod:`struct` layout."""
        values = struct.unpack_from(">" + layout, self.data, self.position)
        self.position += struct.calcsize(">" + layout)
        return values[0] if len(values) == 1 else values

    def text(self) -> str | None:
        """A nullable string."""
        length = self.take("h")
        if length < 0:
            return None
        self.position += length
        return self.data[self.position - length : self.position].decode()

    def array(self, read: Any) -> list[Any]:
        """An array of what ``read`` reads."""
        return [read() for _ in range(self.take("i"))]


def leaders(wire: Wire, topic: str) -> dict[int, int]:
    """Partition → leader, as this very broker knows it (Metadata, version 1)."""
    cursor = Cursor(wire.call(METADATA, 1, struct.pack(">i", 1) + string(topic)))
    cursor.array(lambda: (cursor.take("i"), cursor.text(), cursor.take("i"), cursor.text()))
    cursor.take("i")
    found: dict[int, int] = {}
    for _ in range(cursor.take("i")):
        cursor.take("h")
        cursor.text()
        cursor.take("b")
        for _ in range(cursor.take("i")):
            _, partition, leader = cursor.take("hii")
            cursor.array(lambda: cursor.take("i"))
            cursor.array(lambda: cursor.take("i"))
            found[partition] = leader
    return found
