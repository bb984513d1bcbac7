"""Health check of a container: 0 where the broker answers a request for metadata, else 1 and the reason.

Answers to: ``kafka-broker-api-versions.sh``, as health checks use it, without the start of a JVM. A script of the
standard library alone, run without ``site``: some twenty milliseconds.
"""

from __future__ import annotations

import socket
import struct
import sys

PROPERTIES = "/run/kafkalite/server.properties"
METADATA, VERSION = 3, 1
TIMEOUT = 3.0
NO_TOPICS = struct.pack(">i", 0)


def main() -> int:
    """Ask the first listener."""
    try:
        with open(PROPERTIES) as lines:
            host, port = address(lines.read())
        brokers = ask(host, port)
    except (OSError, ValueError, struct.error) as error:
        print(f"not serving: {error}")
        return 1
    print(f"serving, one of {brokers} brokers" if brokers else "not serving: no broker is registered yet")
    return 0 if brokers else 1


def address(properties: str) -> tuple[str, int]:
    """Where the first of ``listeners`` can be reached from here. Raises :class:`ValueError`."""
    listeners = [line.partition("=")[2] for line in properties.splitlines() if line.partition("=")[0] == "listeners"]
    if not listeners:
        raise ValueError("no listeners")
    host, _, port = listeners[-1].split(",")[0].partition("://")[2].strip().rpartition(":")
    host = host.strip("[]")
    return ("127.0.0.1" if host in ("", "0.0.0.0", "::") else host), int(port)


def ask(host: str, port: int) -> int:
    """How many brokers the one at ``host`` knows of. Raises :class:`OSError`, :class:`ValueError`."""
    request = struct.pack(">hhi", METADATA, VERSION, 1) + struct.pack(">h", -1) + NO_TOPICS
    with socket.create_connection((host, port), TIMEOUT) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            (_correlation, brokers) = struct.unpack(">ii", answer.read(size)[:8])
    return int(brokers)


if __name__ == "__main__":
    sys.exit(main())
