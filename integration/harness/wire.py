"""The Kafka protocol over a plain socket, for requests that no client library sends, and for benchmarks without one."""

from __future__ import annotations

import struct
from typing import Any

from integration.harness.logins import open_socket
from kafkalite.network.blocking_client import BlockingConnection

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
CLIENT_ID = "wire"


class Wire(BlockingConnection):
    """One connection to the broker at ``address``; ``timeout`` in seconds for each wait."""

    def __init__(self, address: str, timeout: float = 10.0) -> None:
        host, _, port = address.rpartition(":")
        super().__init__(open_socket(host, int(port), timeout), CLIENT_ID)


def string(text: str) -> bytes:
    """A string of the protocol."""
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


class Cursor:
    """Reads the fields of an answer one after the other."""

    def __init__(self, data: memoryview) -> None:
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
        return str(self.data[self.position - length : self.position], "utf-8")

    def array(self, read: Any) -> list[Any]:
        """An array; ``read`` reads one element."""
        return [read() for _ in range(self.take("i"))]


def leaders(wire: Wire, topic: str) -> dict[int, int]:
    """Partition → leader in this broker's metadata (Metadata, version 1)."""
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
