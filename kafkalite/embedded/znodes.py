"""A look into ZooKeeper from outside: read some znodes, in one short session, with nothing but a socket.

Answers to: ``bin/zookeeper-shell.sh … get``. Pure codec and one plain socket. Brokers use ``zk/client``; this is for
those who watch a cluster (the demo, tests) and must not stand in anybody's way.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from types import TracebackType

GET_DATA, GET_CHILDREN, CLOSE = 4, 8, -11
NO_NODE = -101
SESSION_TIMEOUT_MS = 10000
SOCKET_TIMEOUT = 10.0


class ZnodeReader:
    """A session that only reads. Raises ``OSError`` where ZooKeeper does not answer."""

    def __init__(self, connect: str) -> None:
        hosts, slash, chroot = connect.partition("/")
        self._chroot = slash + chroot if chroot else ""
        host, _, port = hosts.split(",")[0].rpartition(":")
        self._xid = 0
        self._socket = socket.create_connection((host, int(port)), timeout=SOCKET_TIMEOUT)
        self._socket.settimeout(SOCKET_TIMEOUT)
        try:
            self._send(struct.pack(">iqiqi16s?", 0, 0, SESSION_TIMEOUT_MS, 0, 16, b"", False))
            self._receive()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> ZnodeReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get(self, path: str) -> bytes | None:
        """The data of a znode; ``None`` where there is none."""
        answer = self._call(GET_DATA, path)
        if answer is None:
            return None
        (length,) = struct.unpack_from(">i", answer)
        return answer[4 : 4 + max(length, 0)]

    def children(self, path: str) -> list[str]:
        """The names of a znode's children, sorted; none where it does not exist."""
        answer = self._call(GET_CHILDREN, path)
        if answer is None:
            return []
        (count,) = struct.unpack_from(">i", answer)
        names, position = [], 4
        for _ in range(count):
            (length,) = struct.unpack_from(">i", answer, position)
            names.append(answer[position + 4 : position + 4 + length].decode())
            position += 4 + length
        return sorted(names)

    def close(self) -> None:
        """End the session."""
        try:
            self._send(struct.pack(">ii", self._xid + 1, CLOSE))
        except OSError:
            pass  # it ends by itself
        self._socket.close()

    def _call(self, kind: int, path: str) -> bytes | None:
        self._xid += 1
        raw = (self._chroot + path).encode()
        self._send(struct.pack(f">iii{len(raw)}s?", self._xid, kind, len(raw), raw, False))
        answer = self._receive()
        _, _, error = struct.unpack_from(">iqi", answer)
        if error == NO_NODE:
            return None
        if error:
            raise OSError(f"ZooKeeper answered error {error} for {path}")
        return answer[16:]

    def _send(self, payload: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(payload)) + payload)

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("connection closed by ZooKeeper")
            data += piece
        return bytes(data)


def read_znodes(connect: str, paths: Iterable[str]) -> dict[str, bytes]:
    """The data of those of ``paths`` that exist."""
    with ZnodeReader(connect) as reader:
        return {path: data for path in paths if (data := reader.get(path)) is not None}
