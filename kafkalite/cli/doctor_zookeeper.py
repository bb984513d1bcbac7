"""What the doctor asks ZooKeeper: each server for its state, the limits of sessions, the time of a read, the tree.

Answers to: ``org.apache.zookeeper.client.FourLetterWordMain`` (``srvr``). Blocking sockets, and the client of
``zk/kazoo_client.py`` without a reactor. It writes nothing.
"""

from __future__ import annotations

import statistics
import struct
import time
from dataclasses import replace

from kafkalite.broker.guardian_process import addresses, connections, receive, show_identity
from kafkalite.cli.zk import read_tree
from kafkalite.common.errors import StartupError
from kafkalite.doctor.snapshot import ZooKeeperServer, ZooKeeperView
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.session_security import ZkSecurity
from kafkalite.zk.verify import Tree
from kafkalite.zk.zk_client import ZkError

_CONNECT = struct.Struct("!iiqiqi16sB")
_CONNECTED = struct.Struct("!ii")
_CLOSE = struct.pack("!iii", 8, 1, -11)
_LONGEST_MS = (1 << 31) - 1
_READS = 9
_TIMEOUT_MS = 10_000


def read_zookeeper(connect: str, security: ZkSecurity) -> tuple[ZooKeeperView, Tree]:
    """ZooKeeper and the whole tree of the cluster; the tree is empty where the view has an ``error``."""
    servers = tuple(_server(host, port, security) for host, port in addresses(connect))
    view = ZooKeeperView(servers)
    usable = [server.address for server in servers if server.accepts and server.serves]
    if not usable:
        return replace(view, error="no server serves"), {}
    _, slash, chroot = connect.partition("/")
    loop = BlockingLoop()
    hosts = ",".join(usable) + slash + chroot
    client = KazooZkClient(loop.call_from_thread, hosts, _TIMEOUT_MS, _TIMEOUT_MS, security)
    try:
        loop.run(client.start())
        try:
            times = []
            for _ in range(_READS):
                began = time.monotonic()
                loop.run(client.exists("/"))
                times.append((time.monotonic() - began) * 1000)
            tree = loop.run(read_tree(client), timeout=600)
        finally:
            loop.run(client.close())
    except (ZkError, StartupError, OSError) as error:
        return replace(view, error=str(error)), {}
    limits = _session_limits(",".join(usable), security)
    view = replace(view, latency_ms=statistics.median(times), session_limits_ms=limits)
    return view, tree


def _server(host: str, port: int, security: ZkSecurity) -> ZooKeeperServer:
    address = f"{host}:{port}"
    for connection in connections(f"[{host}]:{port}" if ":" in host else address, security):
        answer = b""
        try:
            connection.sendall(b"srvr")
            while part := connection.recv(65536):
                answer += part
        except OSError:
            pass  # It accepts connections; which requests it serves shows the session.
        text = answer.decode(errors="replace")
        mode = next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Mode:")), "")
        return ZooKeeperServer(address, serves="not currently serving" not in text, mode=mode)
    return ZooKeeperServer(address, accepts=False)


def _session_limits(hosts: str, security: ZkSecurity) -> tuple[int, int] | None:
    least, greatest = _granted(hosts, 1, security), _granted(hosts, _LONGEST_MS, security)
    return None if least is None or greatest is None else (least, greatest)


def _granted(hosts: str, timeout_ms: int, security: ZkSecurity) -> int | None:
    """The timeout of a session that asks for ``timeout_ms``; the session is closed."""
    for connection in connections(hosts, security):
        try:
            connection.sendall(_CONNECT.pack(_CONNECT.size - 4, 0, 0, timeout_ms, 0, 16, b"", 0))
            _, granted = _CONNECTED.unpack_from(receive(connection))
            show_identity(connection, security)
            connection.sendall(_CLOSE)
            receive(connection)
        except (OSError, struct.error):
            continue
        return int(granted) if granted > 0 else None
    return None
