"""Clients that never authenticate, in a process of their own: each sends bad bytes to a secured listener, or stalls.

``python -m integration.security.strangers '{"door": …, "seed": …, "count": …, "core": …}'`` prints one line of JSON:
``{"kinds": {…}, "unended": […]}``. ``unended`` are pieces after which the broker kept the connection. With
``"stays": true`` it opens connections that go no further, prints how many of each kind, and waits for the end of its
input.
"""

from __future__ import annotations

import json
import os
import random
import resource
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import encode_request
from kafkalite.protocol.frames import request_header

CORE = max(os.sched_getaffinity(0))
"""The core of all strangers, because those of a real broker have machines of their own."""
TIMEOUT = 60.0
"""Seconds within which the broker must end a connection whose client has sent all it has."""
AT_ONCE = 32
"""Connections of one sender at a time."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "")
SLOW = 0.01
"""Share of the pieces that are sent in single bytes."""
SLOW_BYTES = 30
LARGEST = 524_288
"""Of a frame before the login: `sasl.server.max.receive.size`."""


@dataclass(frozen=True)
class Door:
    """A secured listener: its port, its protocol, and files of the authority and of a key that another one signed."""

    port: int
    protocol: str
    authority: str
    forged: str
    asks_certificate: bool = False

    @property
    def is_encrypted(self) -> bool:
        """Whether clients speak TLS."""
        return self.protocol != "SASL_PLAINTEXT"

    @cached_property
    def context(self) -> ssl.SSLContext:
        """A client's context without a certificate."""
        return ssl.create_default_context(cafile=self.authority)

    @cached_property
    def forged_context(self) -> ssl.SSLContext:
        """A client's context with a certificate that no broker trusts."""
        found = ssl.create_default_context(cafile=self.authority)
        found.load_cert_chain(self.forged)
        return found

    def connect(self) -> socket.socket:
        """A new connection, in plain text. Raises ``OSError``."""
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT)


@dataclass(frozen=True)
class Piece:
    """What one stranger does: ``opening`` in plain text; ``rest`` after a reply to it, or over TLS if ``over`` is a
    context."""

    kind: str
    opening: bytes = b""
    rest: bytes = b""
    over: ssl.SSLContext | None = None
    slow: bool = False


class Pieces:
    """Seeded pieces for one door."""

    def __init__(self, seed: int, door: Door) -> None:
        self._rng = random.Random(seed)
        self._door = door
        self._hello = hello(door.context) if door.is_encrypted else b""

    def take(self, count: int) -> Iterator[Piece]:
        """``count`` pieces."""
        for _ in range(count):
            yield self._one()

    def _one(self) -> Piece:
        rng, door = self._rng, self._door
        slow = rng.random() < SLOW
        if not door.is_encrypted:
            kind, data = self._frames()
            return Piece(kind, data, slow=slow)
        choice = rng.random()
        if choice < 0.35 and door.protocol == "SASL_SSL" and not door.asks_certificate:
            kind, data = self._frames()
            return Piece(f"TLS, then {kind}", rest=data, over=door.context)
        if choice < 0.35 and door.asks_certificate:
            kind, data = self._frames()
            forged = rng.random() < 0.5
            name = "a forged certificate" if forged else "no certificate"
            return Piece(name, rest=data, over=door.forged_context if forged else door.context)
        if choice < 0.6:
            rest = rng.choice((b"", rng.randbytes(rng.randrange(1, 300)), self._record(), self._hello))
            return Piece("half a handshake", self._hello, rest)
        if choice < 0.8:
            return Piece("a damaged hello", self._damaged(self._hello), slow=slow)
        if choice < 0.9:
            return Piece("a hello cut short", self._hello[: rng.randrange(len(self._hello))], slow=slow)
        kind, data = rng.choice((self._frames, self._noise))()
        return Piece(f"no TLS: {kind}", data, slow=slow)

    def _noise(self) -> tuple[str, bytes]:
        return self._rng.choice(
            (("random bytes", self._rng.randbytes(self._rng.randrange(300))), ("a record", self._record()))
        )

    def _record(self) -> bytes:
        """A record of TLS with any content and any length."""
        rng = self._rng
        body = rng.randbytes(rng.randrange(200))
        size = rng.choice((len(body), 0, 1, 0x4000, 0x4001, 0xFFFF))
        return (
            bytes([rng.choice((20, 21, 22, 23, rng.randrange(256))), 3, rng.randrange(5)])
            + size.to_bytes(2, "big")
            + body
        )

    def _damaged(self, data: bytes) -> bytes:
        rng = self._rng
        result = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(result) + 1)
            match rng.randrange(3):
                case 0 if at < len(result):
                    result[at] = rng.randrange(256)
                case 1:
                    del result[at : at + rng.randrange(20)]
                case _:
                    result[at:at] = rng.randbytes(rng.randrange(20))
        return bytes(result)

    # Kafka's frames.

    def _frames(self) -> tuple[str, bytes]:
        """Some valid frames, then a bad one."""
        rng = self._rng
        valid = b"".join(framed(each) for each in self._exchange()[: rng.randrange(4)])
        kind, bad = rng.choice((self._random, self._absurd, self._cut, self._mutated, self._other, self._wrong))()
        return kind, valid + bad

    def _exchange(self) -> list[bytes]:
        rng = self._rng
        frames = [ask_versions(rng.randrange(6))] if rng.random() < 0.5 else []
        return [*frames, handshake(rng.choice(MECHANISMS), rng.randrange(2)), *(self._token() for _ in range(2))]

    def _token(self) -> bytes:
        rng = self._rng
        tokens = (
            b"\0alice\0" + rng.randbytes(8).hex().encode(),
            b"n,,n=alice,r=" + rng.randbytes(8).hex().encode(),
            b"c=biws,r=abc,p=" + rng.randbytes(16),
            b"n,,\x01auth=Bearer " + rng.randbytes(20).hex().encode() + b"\x01\x01",
            rng.randbytes(rng.randrange(100)),
        )
        token = rng.choice(tokens)
        return authenticate(token, rng.randrange(3)) if rng.random() < 0.7 else token

    def _random(self) -> tuple[str, bytes]:
        return "a random frame", framed(self._rng.randbytes(self._rng.randrange(200)))

    def _absurd(self) -> tuple[str, bytes]:
        rng = self._rng
        size = rng.choice((-1, -(1 << 31), (1 << 31) - 1, 524_289, 0x16030100, 0x47455420, 524_288))
        return "an absurd length", struct.pack(">i", size) + rng.randbytes(rng.choice((0, 20, 70_000)))

    def _cut(self) -> tuple[str, bytes]:
        whole = framed(self._rng.choice(self._exchange()))
        return "a frame cut short", whole[: self._rng.randrange(len(whole))]

    def _mutated(self) -> tuple[str, bytes]:
        return "a damaged frame", framed(self._damaged(self._rng.choice(self._exchange())))

    def _other(self) -> tuple[str, bytes]:
        rng = self._rng
        key, version = rng.choice(list(ApiKey)), rng.randrange(13)
        return "another request", framed(request_header(key, version, 1, "stranger") + bytes(rng.randrange(60)))

    def _wrong(self) -> tuple[str, bytes]:
        mechanism = self._rng.choice(MECHANISMS)
        return "a wrong login", framed(handshake(mechanism)) + framed(self._token()) + framed(self._token())


def framed(frame: bytes) -> bytes:
    """``frame`` with its length."""
    return struct.pack(">i", len(frame)) + frame


def ask_versions(version: int) -> bytes:
    """An ApiVersions request, or what looks like one."""
    return request_header(ApiKey.API_VERSIONS, version, 1, "stranger") + (b"\2a\2b\0" if version >= 3 else b"")


def handshake(mechanism: str, version: int = 1) -> bytes:
    """A SaslHandshake."""
    request = messages.SaslHandshakeRequest(version=version, mechanism=mechanism)
    return request_header(ApiKey.SASL_HANDSHAKE, version, 2, "stranger") + encode_request(
        ApiKey.SASL_HANDSHAKE, version, request
    )


def authenticate(token: bytes, version: int) -> bytes:
    """A SaslAuthenticate."""
    request = messages.SaslAuthenticateRequest(version=version, auth_bytes=token)
    return request_header(ApiKey.SASL_AUTHENTICATE, version, 3, "stranger") + encode_request(
        ApiKey.SASL_AUTHENTICATE, version, request
    )


def hello(context: ssl.SSLContext) -> bytes:
    """The first message of a client's TLS handshake."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def knock(door: Door, piece: Piece) -> str:
    """Do what ``piece`` says and end the own side; empty once the broker has ended its own, or else what happened."""
    with door.connect() as connection:
        try:
            for data in (bytes([byte]) for byte in piece.opening[:SLOW_BYTES]) if piece.slow else (piece.opening,):
                connection.sendall(data)
                if piece.slow:
                    time.sleep(0.01)
            if piece.over is not None:
                connection = piece.over.wrap_socket(connection, server_hostname="127.0.0.1")
                connection.sendall(piece.rest)
            elif piece.rest:
                connection.recv(1 << 16)
                connection.sendall(piece.rest)
            connection.shutdown(socket.SHUT_WR)
        except TimeoutError:
            return f"{piece.kind}: no reply"
        except OSError:
            pass  # The broker has ended the connection already.
        try:
            while connection.recv(1 << 16):
                pass
        except TimeoutError:
            return f"{piece.kind}: the connection is kept"
        except OSError:
            pass
        finally:
            connection.close()
        return ""


class Loiterer:
    """Opens connections that stop in some state on the way to a login, and keeps them."""

    def __init__(self, door: Door, seed: int) -> None:
        self._door = door
        self._hello = hello(door.context) if door.is_encrypted else b""
        self._rng = random.Random(seed)
        self.kept: list[socket.socket] = []

    def open(self, number: int) -> str:
        """Open one; its kind. A broker that ends it at once is in its right."""
        kinds = {"silent": b""}
        if self._door.is_encrypted:
            kinds |= {"a byte": self._hello[:1], "almost a hello": self._hello[:-1], "a hello": self._hello}
            if not self._door.asks_certificate and self._door.protocol == "SASL_SSL":
                kinds |= {f"TLS, {kind}": data for kind, data in self._logins().items()}
        else:
            kinds |= self._logins()
        kind = list(kinds)[number % len(kinds)]
        connection = self._door.connect()
        self.kept.append(connection)
        try:
            if kind.startswith("TLS"):
                self.kept[-1] = connection = self._door.context.wrap_socket(connection, server_hostname="127.0.0.1")
            connection.settimeout(0.5)
            connection.sendall(kinds[kind])
        except OSError:
            pass
        return kind

    def _logins(self) -> dict[str, bytes]:
        """Every state of a login that stops."""
        begun = framed(ask_versions(2)) + framed(handshake("SCRAM-SHA-256"))
        first = b"n,,n=alice,r=" + self._rng.randbytes(8).hex().encode()
        return {
            "no frame": b"",
            "the versions": framed(ask_versions(2)),
            "the mechanism": begun,
            "the first message": begun + framed(authenticate(first, 2)),
            "half a frame": struct.pack(">i", LARGEST) + bytes(LARGEST // 2),
        }


def start_strangers(door: Door, seed: int, count: int) -> subprocess.Popen[str]:
    """Start a process that sends ``count`` pieces."""
    return _start({"door": asdict(door), "seed": seed, "count": count})


def start_loiterers(door: Door, seed: int, count: int) -> subprocess.Popen[str]:
    """Start a process that opens ``count`` connections and keeps them until its input ends."""
    return _start({"door": asdict(door), "seed": seed, "count": count, "stays": True})


def _start(task: dict[str, object]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "integration.security.strangers", json.dumps({**task, "core": CORE})]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def main(text: str) -> None:
    """Do the task and print its result."""
    task: dict[str, Any] = json.loads(text)
    os.sched_setaffinity(0, {task["core"]})
    # A healthy client on the same core need not wait for the end of a stranger's turn.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    door, count = Door(**task["door"]), task["count"]
    if task.get("stays"):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        loiterer = Loiterer(door, task["seed"])
        print(json.dumps(Counter(loiterer.open(number) for number in range(count))), flush=True)
        sys.stdin.read()
        return
    kinds: Counter[str] = Counter()

    def send(piece: Piece) -> str:
        kinds[piece.kind] += 1
        return knock(door, piece)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = pool.map(send, Pieces(task["seed"], door).take(count))
        unended = [each for each in said if each]
    print(json.dumps({"kinds": kinds, "unended": unended[:20]}))


if __name__ == "__main__":
    main(sys.argv[1])
