"""Thousands of connections: their memory, the service meanwhile, and the close of idle ones."""

from __future__ import annotations

import resource
import struct
import time
from pathlib import Path

import psutil
import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import create_topic
from integration.harness.raw import RawClient, batch
from integration.harness.wait import wait_for
from integration.harness.wire import API_VERSIONS, Wire
from kafkalite.common.errors import ErrorCode

BYTES_EACH = 20_000
"""Greatest memory of the broker for a connection; a JVM needs as much for its buffers alone."""
MEGA = 1 << 20


@pytest.mark.kafkalite_only
@pytest.mark.parametrize(
    ("connections", "idle_ms"), [(1000, 10_000), pytest.param(2000, 20_000, marks=pytest.mark.full)]
)
def test_all_connections_are_served_and_the_idle_ones_closed(
    make_cluster: ClusterFactory, connections: int, idle_ms: int
) -> None:
    """All get answers, each costs little memory, and only idle connections are closed, in time.

    The kernel's table of the broker's descriptors has room for all from the start, because the broker stops while the
    table grows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * connections:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * connections, hard), hard))
    # A large backlog, because with Kafka's default of 50 many of the new connections are retried after a second
    # (KIP-764).
    cluster = make_cluster(1, {"connections.max.idle.ms": str(idle_ms), "socket.listen.backlog.size": "2000"})
    create_topic(cluster, "busy", 1)
    process = psutil.Process(cluster.pid(1))
    address = cluster.address(1)
    with RawClient(address) as busy:
        wait_for(lambda: busy.leads("busy", 1), "the topic is led")
        before = process.memory_info().rss
        room = descriptor_table(process.pid)
        wires: list[Wire] = []
        try:
            begun = time.monotonic()
            wires.extend(Wire(address) for _ in range(connections))
            print(f"\nconnected within {time.monotonic() - begun:.1f} s", flush=True)
            # All send before one is read, so that all requests are outstanding.
            for wire in wires:
                wire.post(API_VERSIONS, 0, b"")
            for wire in wires:
                assert struct.unpack_from(">h", wire.receive()) == (ErrorCode.NONE,)
            answered = time.monotonic() - begun
            during = process.memory_info().rss
            print(
                f"{connections} connections answered within {answered:.1f} s; broker: {before / MEGA:.1f} MB before, "
                f"{during / MEGA:.1f} MB with them",
                flush=True,
            )
            assert during - before < connections * BYTES_EACH
            assert len(process.net_connections("tcp")) > connections
            assert descriptor_table(process.pid) == room
            for wire in wires:
                wire.socket.setblocking(False)

            def all_closed() -> bool:
                assert busy.produce("busy", batch()).error == ErrorCode.NONE
                return all(closed(wire) for wire in wires)

            wait_for(all_closed, "idle connections are closed", 120, 0.2)
            assert time.monotonic() - begun >= idle_ms / 1000
            print(
                f"closed after {time.monotonic() - begun:.1f} s, {process.memory_info().rss / MEGA:.1f} MB", flush=True
            )
        finally:
            for wire in wires:
                wire.close()


def descriptor_table(pid: int) -> int:
    """For how many descriptors of the process the kernel has room; ``man 5 proc``."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("FDSize:"))


def closed(wire: Wire) -> bool:
    """Whether the broker has closed the connection."""
    try:
        return wire.socket.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
