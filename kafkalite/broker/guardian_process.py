"""The guardian's own process, and how another process ends a ZooKeeper session by its id and password.

Answers to: nothing in Kafka, whose dead brokers are waited for. Kind: plain blocking sockets, no reactor.

``broker/guardian.py`` runs it as a script. It reads credentials from standard input. When that ends (the kernel closes
it in any death of the broker), it closes the session that was named last. It imports only modules that are built into
the interpreter, to stay small: one such process runs beside each broker. Where ZooKeeper is secured it imports
``zk/session_security.py``, too, and with it OpenSSL.
"""

from __future__ import annotations

import _socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalite.zk.session_security import ZkSecurity

MESSAGE = struct.Struct("!qI16s")
"""Session id (0: nothing to guard), session timeout in ms, password."""

_CONNECT = struct.Struct("!iiqiqi16sB")
_CONNECTED = struct.Struct("!iiq")
_CLOSE = struct.pack("!iii", 8, 1, -11)
_ATTEMPT_TIMEOUT = 2.0


def addresses(hosts: str) -> list[tuple[str, int]]:
    """Host and port of each server in a connection string; a chroot is left out."""
    found = []
    for entry in hosts.partition("/")[0].split(","):
        host, colon, port = entry.strip().rpartition(":")
        if not colon or not port.isdigit():
            host, port = entry.strip(), "2181"
        found.append((host.strip("[]"), int(port)))
    return found


def connections(hosts: str, security: ZkSecurity | None = None) -> Generator[_socket.socket, None, None]:
    """A connection to each server that can be reached, one after the other; each closes the one before."""
    for host, port in addresses(hosts):
        try:
            resolved = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)
        except OSError:
            continue
        for family, kind, protocol, _, address in resolved:
            try:
                connection = _socket.socket(family, kind, protocol)
            except OSError:
                continue
            try:
                connection.settimeout(_ATTEMPT_TIMEOUT)
                connection.connect(address)
                if security is not None and security.tls is not None:
                    from kafkalite.zk.session_security import secured

                    connection = secured(connection, host, security.tls)
                yield connection
            except OSError:
                continue
            finally:
                connection.close()


def attach(connection: _socket.socket, session: int, password: bytes, timeout_ms: int, requests: bytes = b"") -> int:
    """Take a session over (0: begin a new one); returns its id, or 0 if it has ended. Raises ``OSError``.

    ``requests`` are sent at once, without waiting for the answer, which leaves the session's own client the least time
    to take it back.
    """
    connect = _CONNECT.pack(_CONNECT.size - 4, 0, 0, timeout_ms, session, 16, password, 0)
    connection.sendall(connect + requests)
    _, granted, attached = _CONNECTED.unpack_from(receive(connection))
    return int(attached) if granted > 0 else 0


def receive(connection: _socket.socket) -> bytes:
    """One frame, without its length. Raises ``OSError``."""
    (length,) = struct.unpack("!i", _read(connection, 4))
    return _read(connection, length)


def close_session(
    hosts: str, session: int, password: bytes, timeout_ms: int, security: ZkSecurity | None = None
) -> bool:
    """End a session from outside: attach to it, show the credentials, close it; every server is tried once.

    Returns ``True`` if the session has ended. ``False`` (try again): no server answered, or the session's own client,
    which loses its connection by this, took the session back before the request counted.
    """
    for connection in connections(hosts, security):
        try:
            if _close(connection, session, password, timeout_ms, security):
                return True
        except (OSError, struct.error):
            continue
    return False


def _close(
    connection: _socket.socket, session: int, password: bytes, timeout_ms: int, security: ZkSecurity | None
) -> bool:
    """Whether the session has ended."""
    if security is None or (not security.digest and security.sasl is None):
        if attach(connection, session, password, timeout_ms, _CLOSE) == session:
            receive(connection)
        return True
    # An ensemble may refuse any request, the closing one as well, of a client that has shown no identity.
    if security.sasl is None:
        from kafkalite.zk.session_security import digest_request

        if attach(connection, session, password, timeout_ms, digest_request(security.digest) + _CLOSE) == session:
            receive(connection)
            receive(connection)
        return True
    if attach(connection, session, password, timeout_ms) == session:
        show_identity(connection, security)
        connection.sendall(_CLOSE)
        receive(connection)
    return True


def show_identity(connection: _socket.socket, security: ZkSecurity) -> None:
    """Log in by SASL and by digest, as ``security`` says, in a session that was just attached. Raises ``OSError``."""
    if security.sasl is None and not security.digest:
        return
    from kafkalite.zk.session_security import LoginRefusedError, digest_request, log_in

    if security.sasl is not None:
        try:
            log_in(security.sasl, connection.sendall, lambda: receive(connection))
        except LoginRefusedError as error:
            raise OSError(f"the SASL login failed: {error}") from None
    if security.digest:
        connection.sendall(digest_request(security.digest))
        receive(connection)


def _read(connection: _socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise OSError("the connection ended")
        data += part
    return data


def main(hosts: str, root: str = "", security_fd: str = "") -> None:
    """Read credentials until standard input ends, then end the session that was named last.

    ``root``: folder of the package, and ``security_fd``: a file with the encoded security; empty for none.
    """
    import signal
    import time

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    security = _security(root, int(security_fd)) if root else None
    session, timeout_ms, password = 0, 0, b""
    pipe = open(0, "rb", buffering=0)  # noqa: SIM115
    while len(message := pipe.read(MESSAGE.size) or b"") == MESSAGE.size:
        session, timeout_ms, password = MESSAGE.unpack(message)
    if session:
        # Stop at the session timeout, because ZooKeeper itself ends the session then.
        deadline = time.monotonic() + timeout_ms / 1000
        while not close_session(hosts, session, password, timeout_ms, security) and time.monotonic() < deadline:
            time.sleep(0.1)


def _security(root: str, fd: int) -> ZkSecurity:
    """The security in the file ``fd``. Made ready at once, because a dead broker's session shall end quickly."""
    import os

    sys.path.append(root)
    from kafkalite.zk.session_security import ZkSecurity, tls_context

    security = ZkSecurity.decode(os.pread(fd, os.fstat(fd).st_size, 0))
    os.close(fd)
    if security.tls is not None:
        tls_context(security.tls)
    return security


if __name__ == "__main__":
    main(*sys.argv[1:])
