"""TLS over a wire in memory: handshakes, pieces that a full socket interrupts, bytes that wait in memory."""

from __future__ import annotations

import random
import ssl
from pathlib import Path

import pytest

from kafkalite.common.types import FileRegion
from kafkalite.network.output_queue import MSG_MORE, OutputQueue, WriteResult
from kafkalite.network.tls_socket import CHUNK, PIECE, HandshakeError
from tests.network.tls_peers import (
    attempts,
    client_context,
    established,
    handshake,
    pair,
    random_bytes,
    read_all,
    send_all,
    server_context,
    shake_hands,
    wire,
)

RECORD = 1 << 14


def test_both_ends_agree_and_bytes_are_not_seen_on_the_wire() -> None:
    server, client = established()
    client.send(b"a secret request")
    assert b"secret" not in wire(server).incoming
    assert read_all(server) == b"a secret request"
    send_all(server, b"the answer")
    assert read_all(client) == b"the answer"
    assert server.peer_certificate is None
    assert client.peer_certificate is not None


def test_a_handshake_goes_on_with_every_byte() -> None:
    server, client = pair()
    assert not handshake(client)
    hello = bytes(wire(server).incoming)
    wire(server).incoming.clear()
    steps = []
    for byte in hello:
        steps.append(handshake(server))
        wire(server).incoming.append(byte)
    assert not any(steps)
    shake_hands(server, client)
    assert read_all(server) == b""
    assert server.is_established


def test_a_handshake_waits_for_a_wire_that_takes_nothing() -> None:
    server, client = pair()
    handshake(client)
    wire(server).room = 100
    assert not handshake(server)
    assert server.has_unsent
    wire(server).room = 1 << 20
    server.flush()
    shake_hands(server, client)
    assert wire(server).sends[0] == 100


def test_a_request_may_come_with_the_last_message_of_the_handshake() -> None:
    server, client = pair()
    handshake(client)
    handshake(server)
    assert handshake(client)
    client.send(b"early")
    assert handshake(server)
    assert server.has_pending
    assert read_all(server) == b"early"
    assert not server.has_pending


@pytest.mark.parametrize(
    ("server", "client", "server_says", "client_says"),
    [
        (server_context(), client_context(trusts=False), "unknown ca", "certificate verify failed"),
        (server_context(asks=True), client_context(), "peer did not return a certificate", ""),
    ],
)
def test_a_handshake_fails_with_a_reason_at_both_ends(
    server: ssl.SSLContext, client: ssl.SSLContext, server_says: str, client_says: str
) -> None:
    ends = pair(server, client)
    said = ["", ""]
    for _ in range(3):
        for index in (1, 0):
            try:
                handshake(ends[index])
            except HandshakeError as error:
                said[index] = said[index] or str(error)
    assert server_says in said[0]
    assert client_says in said[1]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """``data`` with bytes changed, cut out, doubled or added."""
    result = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(result) + 1)
        match rng.randrange(4):
            case 0 if at < len(result):
                result[at] = rng.randrange(256)
            case 1:
                del result[at : at + rng.randrange(50)]
            case 2:
                result[at:at] = result[at : at + rng.randrange(50)]
            case _:
                result[at:at] = rng.randbytes(rng.randrange(20))
    return bytes(result)


def test_no_bytes_raise_anything_but_an_error_of_the_connection() -> None:
    """Damaged first messages, damaged messages of a handshake that goes on, and damaged records after it."""
    rng = random.Random(13)
    _, client = pair()
    handshake(client)
    hello = bytes(wire(client).peer.incoming)
    refused = 0
    for number in range(600):
        server, client = pair() if number % 10 else established()
        if server.is_established:
            client.send(rng.randbytes(rng.randrange(1, 2000)))
        elif number % 10 < 5:
            wire(server).incoming += hello
        else:
            handshake(client)
            handshake(server)
            handshake(client)
        wire(server).incoming[:] = damaged(rng, bytes(wire(server).incoming))
        try:
            if handshake(server):
                read_all(server)
        except OSError as error:
            assert isinstance(error, (HandshakeError, ConnectionError))
            assert "\n" not in str(error)
            refused += 1
    assert refused > 200


def test_a_client_certificate_is_seen() -> None:
    server, _ = established(server=server_context(asks=True), client=client_context(identified=True))
    assert server.peer_certificate is not None


@pytest.mark.parametrize("garbage", [b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70000])
def test_bytes_that_are_no_tls_are_refused(garbage: bytes) -> None:
    server, _ = pair()
    wire(server).incoming += garbage
    with pytest.raises(HandshakeError):
        handshake(server)


# trap: kafkalite/network/tls_socket.py: OpenSSL takes 40 KB for a client that has sent one byte.
def test_a_client_that_stalls_in_its_first_record_takes_no_memory_of_openssl() -> None:
    server, client = pair()
    handshake(client)
    hello = bytes(wire(server).incoming)
    wire(server).incoming[:] = hello[:-1]
    assert not handshake(server)
    assert not server.has_begun
    wire(server).incoming += hello[-1:]
    assert not handshake(server)
    assert server.has_begun


@pytest.mark.parametrize("sent", [0, 1, 50])
def test_the_end_of_the_wire_in_the_first_record_is_an_error_of_the_connection(sent: int) -> None:
    server, client = pair()
    handshake(client)
    del wire(server).incoming[sent:]
    wire(client).close()
    with pytest.raises(HandshakeError if sent else ConnectionAbortedError, match="closed by the peer"):
        handshake(server)


def test_the_end_of_the_wire_ends_a_handshake() -> None:
    server, client = pair()
    handshake(client)
    handshake(server)
    wire(client).close()
    with pytest.raises(HandshakeError, match="closed by the peer"):
        handshake(server)


@pytest.mark.parametrize("size", [1, RECORD, RECORD + 1, PIECE, PIECE + 1, 3 * PIECE + 7])
@pytest.mark.parametrize("target", [100, RECORD, 1 << 18])
def test_bytes_arrive_in_order_for_all_sizes_of_reads_and_writes(size: int, target: int) -> None:
    server, client = established()
    data = random_bytes(size)
    send_all(client, data)
    assert read_all(server, target) == data


def test_a_piece_is_sent_in_one_call_and_not_in_one_for_each_record() -> None:
    server, client = established()
    wire(client).sends.clear()
    assert client.send(bytes(PIECE)) == PIECE
    assert len(wire(client).sends) == 1
    wire(server).reads = 0
    assert len(read_all(server, PIECE)) == PIECE
    assert wire(server).reads <= 4


def test_one_read_takes_all_that_has_come() -> None:
    server, client = established()
    send_all(client, bytes(5 * CHUNK))
    wire(server).reads = 0
    assert server.recv_into(memoryview(bytearray(1 << 20))) == 5 * CHUNK
    # The encrypted bytes are more than five chunks, and a chunk that is not filled is the last one.
    assert wire(server).reads == 6


def test_bytes_before_a_failure_are_read_before_it() -> None:
    server, client = established()
    send_all(client, bytes(CHUNK))
    del wire(server).incoming[CHUNK:]
    wire(server).failure = ConnectionResetError("reset")
    target = memoryview(bytearray(1 << 20))
    assert 0 < server.recv_into(target) < CHUNK
    with pytest.raises(ConnectionResetError, match="reset"):
        server.recv_into(target)


def test_bytes_that_wait_in_memory_are_known() -> None:
    server, client = established()
    client.send(bytes(1000))
    target = memoryview(bytearray(300))
    seen = []
    while True:
        try:
            server.recv_into(target)
        except BlockingIOError:
            break
        seen.append(server.has_pending)
    assert seen == [True, True, True, False]
    assert not server.has_pending


@pytest.mark.parametrize("room", [1, 1000, 100_000])
def test_a_piece_that_a_full_wire_interrupts_is_taken_as_a_whole(room: int) -> None:
    server, client = established()
    data = random_bytes(700 if room == 1 else PIECE)
    taken, calls = attempts(lambda: client.send(data), wire(client), room)
    assert taken == len(data)
    assert calls > 1
    assert read_all(server) == data


def test_more_that_follows_is_sent_with_what_it_follows() -> None:
    server, client = established()
    wire(client).sends.clear()
    assert client.send(b"head", MSG_MORE) == 4
    assert wire(client).sends == []
    assert client.send(b"body") == 4
    assert len(wire(client).sends) == 1
    assert read_all(server) == b"headbody"


def queue(*parts: bytes | FileRegion) -> OutputQueue:
    output = OutputQueue()
    output.extend(parts)
    return output


def test_an_output_queue_is_written_as_on_a_plain_socket(tmp_path: Path) -> None:
    server, client = established()
    content = random_bytes(3 * PIECE + 5000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    with path.open("rb") as file:
        small = [random_bytes(200) for _ in range(600)]
        parts: list[bytes | FileRegion] = [b"head", FileRegion(file.fileno(), 100, len(content) - 100, file)]
        output = queue(*parts, *small, b"end")
        expected = b"head" + content[100:] + b"".join(small) + b"end"
        below = wire(client)
        found = bytearray()
        rounds = 0
        while output.size:
            below.room = 70_000 + 13 * rounds
            rounds += 1
            assert output.write(client) in (WriteResult.BLOCKED, WriteResult.ALL)
            found += read_all(server)
    assert bytes(found) == expected
    assert rounds > 5
    assert (output.size, output.memory) == (0, 0)


def test_what_is_added_behind_a_blocked_piece_follows_it() -> None:
    server, client = established()
    output = queue(b"a" * 50_000)
    wire(client).room = 10
    assert output.write(client) == WriteResult.BLOCKED
    output.extend([b"b" * 50_000])
    wire(client).room = 1 << 20
    assert output.write(client) == WriteResult.ALL
    assert read_all(server) == b"a" * 50_000 + b"b" * 50_000


def test_a_file_that_is_cut_short_is_told(tmp_path: Path) -> None:
    _, client = established()
    path = tmp_path / "segment"
    path.write_bytes(b"x" * 10)
    with path.open("rb") as file:
        assert client.send_file(file.fileno(), 5, 100) == 5
        assert client.send_file(file.fileno(), 10, 95) == 0


def test_the_end_is_told_to_the_peer() -> None:
    server, client = established()
    send_all(client, b"last")
    client.close()
    assert wire(client).closed
    assert read_all(server) == b"last"
    assert server.recv_into(memoryview(bytearray(10))) == 0


def test_a_damaged_record_is_an_error_of_the_connection() -> None:
    server, client = established()
    client.send(b"record")
    wire(server).incoming[-1] ^= 1
    with pytest.raises(ConnectionResetError, match="TLS: "):
        server.recv_into(memoryview(bytearray(100)))
