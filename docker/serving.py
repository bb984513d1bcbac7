"""Health check of a container: 0 where the broker answers a request for metadata, else 1 and the reason.

Answers to: ``kafka-broker-api-versions.sh``, as health checks use it, without the start of a JVM. A script of the
standard library alone, run without ``site``: some twenty milliseconds.

A broker whose listeners all ask for a login is asked for the versions of its API instead, which it tells every client.
"""

from __future__ import annotations

import socket
import struct
import sys

PROPERTIES = "/run/kafkalite/server.properties"
METADATA, VERSION = 3, 1
API_VERSIONS = 18
TIMEOUT = 3.0
NO_TOPICS = struct.pack(">i", 0)
OPEN = "PLAINTEXT"
PROTOCOLS = "listener.security.protocol.map"


def main() -> int:
    """Ask the first listener that is open to all, or else one for logins, or else the first one."""
    try:
        with open(PROPERTIES) as lines:
            host, port, protocol = address(lines.read())
        if protocol != OPEN:
            ask_versions(host, port, protocol)
            print("serving")
            return 0
        brokers = ask(host, port)
    except (OSError, ValueError, struct.error) as error:
        print(f"not serving: {error}")
        return 1
    print(f"serving, one of {brokers} brokers" if brokers else "not serving: no broker is registered yet")
    return 0 if brokers else 1


def address(properties: str) -> tuple[str, int, str]:
    """Where the listener to be asked can be reached from here, and its protocol. Raises :class:`ValueError`."""
    values = {
        name.strip(): value.strip() for name, _, value in (line.partition("=") for line in properties.splitlines())
    }
    protocols = dict(pair.strip().split(":") for pair in values.get(PROTOCOLS, "").split(",") if pair.strip())
    listeners = [each.strip().partition("://") for each in values.get("listeners", "").split(",") if each.strip()]
    if not listeners:
        raise ValueError("no listeners")
    found = [(place, protocols.get(name, name).upper()) for name, _, place in listeners]
    # SSL last: it may ask for a certificate, and then the broker's log has a warning for each check.
    place, protocol = min(found, key=lambda each: (each[1] != OPEN, each[1] == "SSL"))
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    return ("127.0.0.1" if host in ("", "0.0.0.0", "::") else host), int(port), protocol


def ask(host: str, port: int) -> int:
    """How many brokers the one at ``host`` knows of. Raises :class:`OSError`, :class:`ValueError`."""
    with socket.create_connection((host, port), TIMEOUT) as connection:
        (_correlation, brokers) = struct.unpack(">ii", answer(connection, METADATA, VERSION, NO_TOPICS)[:8])
    return int(brokers)


def ask_versions(host: str, port: int, protocol: str) -> None:
    """Get an answer to ApiVersions. Raises :class:`OSError`, :class:`ValueError`."""
    with socket.create_connection((host, port), TIMEOUT) as connection:
        if not protocol.endswith("SSL"):
            answer(connection, API_VERSIONS, 0)
            return
        import ssl  # here, because most brokers' checks need none of it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The broker is asked by itself, and told nothing.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            with context.wrap_socket(connection) as encrypted:
                try:
                    answer(encrypted, API_VERSIONS, 0)
                except (OSError, struct.error):
                    # A listener SSL that asks for a certificate closes, because this script has none; but it serves.
                    if protocol != "SSL":
                        raise
        except ssl.SSLError as error:
            # With TLS 1.2 it says so already in the handshake.
            if protocol != "SSL" or "ALERT" not in (error.reason or ""):
                raise


def answer(connection: socket.socket, key: int, version: int, body: bytes = b"") -> bytes:
    """The answer to one request. Raises :class:`OSError`, :class:`ValueError`, ``struct.error``."""
    request = struct.pack(">hhi", key, version, 1) + struct.pack(">h", -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        data = stream.read(size)
    if len(data) < size:
        raise ConnectionError("the answer is cut short")
    return data


if __name__ == "__main__":
    sys.exit(main())
