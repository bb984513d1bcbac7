"""Thousands of connections at once: what they cost, that work goes on, and that the idle ones are closed."""

from __future__ import annotations

import resource
import struct
import time

import psutil
import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import create_topic
from integration.harness.raw import RawClient, batch
from integration.harness.wait import wait_for
from integration.harness.wire import API_VERSIONS, Wire
from kafkalite.common.errors import ErrorCode

CONNECTIONS = 2000
IDLE_MS = 20_000
BYTES_EACH = 20_000
"""At most, of the broker's memory; a JVM's connection costs as much in buffers alone."""
MEGA = 1 << 20


@pytest.mark.kafkalite_only
def test_two_thousand(make_cluster: ClusterFactory) -> None:
    """All of them are answered, none costs much, each that falls silent is closed in time, and nobody else is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * CONNECTIONS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * CONNECTIONS, hard), hard))
    # Kafka's default of 50 makes a flood of newcomers try again after a second (KIP-764).
    cluster = make_cluster(1, {"connections.max.idle.ms": str(IDLE_MS), "socket.listen.backlog.size": "2000"})
    create_topic(cluster, "busy", 1)
    process = psutil.Process(cluster.pid(1))
    address = cluster.address(1)
    with RawClient(address) as busy:
        wait_for(lambda: busy.leads("busy", 1), "the topic is led")
        before = process.memory_info().rss
        wires: list[Wire] = []
        try:
            begun = time.monotonic()
            wires.extend(Wire(address) for _ in range(CONNECTIONS))
            print(f"\nconnected within {time.monotonic() - begun:.1f} s", flush=True)
            # All ask before one is heard: 2,000 requests at once.
            for wire in wires:
                wire.send(API_VERSIONS, 0, b"")
            for wire in wires:
                assert struct.unpack_from(">h", wire.receive(), 4) == (ErrorCode.NONE,)
            answered = time.monotonic() - begun
            during = process.memory_info().rss
            print(
                f"{CONNECTIONS} connections answered within {answered:.1f} s; broker: {before / MEGA:.1f} MB before, "
                f"{during / MEGA:.1f} MB with them",
                flush=True,
            )
            assert during - before < CONNECTIONS * BYTES_EACH
            assert len(process.net_connections("tcp")) > CONNECTIONS
            for wire in wires:
                wire.socket.setblocking(False)

            def all_closed() -> bool:
                assert busy.produce("busy", batch()).error == ErrorCode.NONE
                return all(closed(wire) for wire in wires)

            wait_for(all_closed, "idle connections are closed", 120, 0.2)
            assert time.monotonic() - begun >= IDLE_MS / 1000
            print(
                f"closed after {time.monotonic() - begun:.1f} s, {process.memory_info().rss / MEGA:.1f} MB", flush=True
            )
        finally:
            for wire in wires:
                wire.close()


def closed(wire: Wire) -> bool:
    """Whether the broker has closed it."""
    try:
        return wire.socket.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
