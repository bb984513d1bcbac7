"""The blocking connection: outstanding requests, and answers that no broker sends."""

from __future__ import annotations

import struct
from typing import Any, cast

import pytest

from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolError

FLEXIBLE_METADATA = 9


class OneSidedSocket:
    """A socket whose peer has sent ``incoming`` already, and closes the connection after it."""

    def __init__(self, incoming: bytes) -> None:
        self.incoming = bytearray(incoming)
        self.sent: list[bytes] = []

    def setsockopt(self, *_: int) -> None:
        pass

    def close(self) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        self.sent.append(bytes(data))

    def recv_into(self, view: memoryview) -> int:
        # In pieces of three bytes, so that no answer comes as a whole.
        piece = self.incoming[: min(len(view), 3)]
        view[: len(piece)] = piece
        del self.incoming[: len(piece)]
        return len(piece)


def connection_to(incoming: bytes) -> tuple[BlockingConnection, OneSidedSocket]:
    sock = OneSidedSocket(incoming)
    return BlockingConnection(cast(Any, sock), "me"), sock


def answer(correlation: int, body: bytes, tags: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(tags) + len(body), correlation) + tags + body


def test_answers_come_in_the_order_of_the_requests() -> None:
    connection, sock = connection_to(answer(1, b"first") + answer(2, b"second", b"\0") + answer(3, b"third"))
    connection.post(ApiKey.METADATA, 1, b"a", b"bc")
    connection.post(ApiKey.METADATA, FLEXIBLE_METADATA, b"")
    header = struct.pack(">hhih2s", ApiKey.METADATA, 1, 1, 2, b"me")
    assert sock.sent[0] == struct.pack(">i", len(header) + 3) + header + b"abc"
    assert [bytes(connection.receive()), bytes(connection.receive())] == [b"first", b"second"]
    assert bytes(connection.call(ApiKey.METADATA, 1, b"")) == b"third"


def test_an_answer_has_memory_of_its_own_unless_it_is_reused() -> None:
    connection, _ = connection_to(b"".join(answer(number, b"%d" % number) for number in (1, 2, 3, 4)))
    own, other = (connection.call(ApiKey.METADATA, 1, b"") for _ in range(2))
    assert (bytes(own), bytes(other)) == (b"1", b"2")
    reused = connection.call(ApiKey.METADATA, 1, b"", reuse=True)
    assert bytes(reused) == b"3"
    assert bytes(connection.call(ApiKey.METADATA, 1, b"", reuse=True)) == b"4" == bytes(reused)


def test_large_parts_are_sent_without_a_copy() -> None:
    connection, sock = connection_to(b"")
    large = bytes(1 << 17)
    connection.post(ApiKey.PRODUCE, 8, b"head", large)
    assert sock.sent[1:] == [b"head", large]
    (size,) = struct.unpack_from(">i", sock.sent[0])
    assert size == sum(map(len, sock.sent)) - 4


@pytest.mark.parametrize(
    ("incoming", "version", "error", "text"),
    [
        (b"", 1, ConnectionError, "closed by the broker"),
        (answer(1, b"cut")[:-1], 1, ConnectionError, "closed by the broker"),
        (answer(7, b"body"), 1, ProtocolError, "an answer to another request"),
        (struct.pack(">ih", 2, 0), 1, ProtocolError, "an answer of 2 bytes"),
        (struct.pack(">i", -5), 1, ProtocolError, "an answer of -5 bytes"),
        (answer(1, b""), FLEXIBLE_METADATA, ProtocolError, "ends inside its header"),
    ],
)
def test_broken_answers_are_refused(incoming: bytes, version: int, error: type[Exception], text: str) -> None:
    connection, _ = connection_to(incoming)
    with pytest.raises(error, match=text):
        connection.call(ApiKey.METADATA, version, b"")
