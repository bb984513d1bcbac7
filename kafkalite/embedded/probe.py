"""One small request to a broker: which brokers are in the cluster? Needs no client library and no group.

Answers to: ``kafka.tools.BrokerApiVersionsCommand`` in purpose (does the broker answer?). A codec and one plain socket.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkalite.common.errors import StartupError

METADATA = 3
METADATA_VERSION = 1
"""The first version whose answer has the controller; every broker since 0.10 serves it."""

POLL_INTERVAL = 0.02
REQUEST_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster as one broker sees it. ``controller`` is -1 if there is none."""

    brokers: dict[int, tuple[str, int]]
    controller: int


def ask(host: str, port: int, timeout: float = REQUEST_TIMEOUT) -> ClusterView:
    """The cluster as the broker at ``host:port`` sees it. ``OSError`` if it does not answer in time."""
    client = b"probe"
    body = struct.pack(f">hhih{len(client)}si", METADATA, METADATA_VERSION, 1, len(client), client, 0)
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _read(connection, 4))
        return _decode(_read(connection, size))


def wait_for_brokers(
    addresses: Sequence[tuple[str, int]],
    expected: set[int],
    timeout: float,
    keep_waiting: Callable[[], bool] = lambda: True,
) -> None:
    """Wait until each of ``addresses`` answers with exactly the brokers ``expected`` and a live controller.

    Raises :class:`StartupError` with the last answer after ``timeout`` seconds, or once ``keep_waiting`` is false.
    """
    deadline = time.monotonic() + timeout
    for host, port in addresses:
        last = "no answer"
        while True:
            try:
                view = ask(host, port)
                if set(view.brokers) == expected and view.controller in expected:
                    break
                last = f"brokers {sorted(view.brokers)}, controller {view.controller}"
            except OSError as error:
                last = str(error)
            if time.monotonic() > deadline or not keep_waiting():
                raise StartupError(
                    f"{host}:{port} did not see brokers {sorted(expected)} within {timeout:.0f} s: {last}"
                )
            time.sleep(POLL_INTERVAL)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("connection closed by the broker")
        data += piece
    return bytes(data)


def _decode(frame: bytes) -> ClusterView:
    position = 4
    (count,) = struct.unpack_from(">i", frame, position)
    position += 4
    brokers: dict[int, tuple[str, int]] = {}
    for _ in range(count):
        broker_id, length = struct.unpack_from(">ih", frame, position)
        position += 6
        host = frame[position : position + length].decode()
        position += length
        (port, rack_length) = struct.unpack_from(">ih", frame, position)
        position += 6 + max(rack_length, 0)
        brokers[broker_id] = (host, port)
    (controller,) = struct.unpack_from(">i", frame, position)
    return ClusterView(brokers, controller)
