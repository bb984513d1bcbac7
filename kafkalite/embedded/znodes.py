"""Reads znodes from outside of a broker, in one short session, on the guardian's blocking socket.

Answers to: ``bin/zookeeper-shell.sh … get``. Plain blocking sockets, no reactor. Brokers use
``zk/kazoo_client``; this client serves programs that watch a cluster (the demo, tests) and must not disturb it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from types import TracebackType

from kafkalite.broker import guardian_process
from kafkalite.zk.session_security import ZkSecurity

GET_DATA, GET_CHILDREN, CLOSE = 4, 8, -11
NO_NODE = -101
_REFUSED = (-102, -115, -124)
"""The znode's list does not let the client, or the server lets no client in that has not logged in."""
_OWNER_IN_STAT = 4 * 8 + 3 * 4
"""The field after czxid, mzxid, ctime, mtime, version, cversion and aversion."""
SESSION_TIMEOUT_MS = 10000
SOCKET_TIMEOUT = 10.0


class ZnodeReader:
    """A session that only reads. ``security``: of the connection. Raises ``OSError`` if ZooKeeper does not answer."""

    def __init__(self, connect: str, security: ZkSecurity | None = None) -> None:
        _, slash, chroot = connect.partition("/")
        self._chroot = slash + chroot if chroot else ""
        self._xid = 0
        self._servers = guardian_process.connections(connect, security)
        for connection in self._servers:
            try:
                guardian_process.attach(connection, 0, b"", SESSION_TIMEOUT_MS)
                if security is not None:
                    guardian_process.show_identity(connection, security)
            except OSError:
                continue
            connection.settimeout(SOCKET_TIMEOUT)
            self._connection = connection
            return
        raise OSError(f"ZooKeeper does not answer at {connect}")

    def __enter__(self) -> ZnodeReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get(self, path: str) -> bytes | None:
        """The data of a znode; ``None`` if it does not exist."""
        answer = self._call(GET_DATA, path)
        if answer is None:
            return None
        (length,) = struct.unpack_from(">i", answer)
        return answer[4 : 4 + max(length, 0)]

    def owner(self, path: str) -> int:
        """The session that owns an ephemeral znode; 0 if the znode is not ephemeral, or does not exist."""
        answer = self._call(GET_DATA, path)
        if answer is None:
            return 0
        (length,) = struct.unpack_from(">i", answer)
        (owner,) = struct.unpack_from(">q", answer, 4 + max(length, 0) + _OWNER_IN_STAT)
        return int(owner)

    def children(self, path: str) -> list[str]:
        """The names of a znode's children, sorted; none if it does not exist."""
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
        self._servers.close()

    def _call(self, kind: int, path: str) -> bytes | None:
        self._xid += 1
        raw = (self._chroot + path).encode()
        self._send(struct.pack(f">iii{len(raw)}s?", self._xid, kind, len(raw), raw, False))
        answer = guardian_process.receive(self._connection)
        _, _, error = struct.unpack_from(">iqi", answer)
        if error == NO_NODE:
            return None
        if error in _REFUSED:
            raise OSError(f"ZooKeeper does not let this client read {path}")
        if error:
            raise OSError(f"ZooKeeper answered error {error} for {path}")
        return answer[16:]

    def _send(self, payload: bytes) -> None:
        self._connection.sendall(struct.pack(">i", len(payload)) + payload)


def read_znodes(connect: str, paths: Iterable[str], security: ZkSecurity | None = None) -> dict[str, bytes]:
    """The data of those of ``paths`` that exist."""
    with ZnodeReader(connect, security) as reader:
        return {path: data for path in paths if (data := reader.get(path)) is not None}
