"""The ZooKeeper client on a real ZooKeeper: order, sessions, fences, speed, chroot, ACLs, an outage."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from kafkalite.broker.guardian_process import close_session
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import gather
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.session_security import ZkSecurity
from kafkalite.zk.zk_client import (
    ConnectionLostError,
    Create,
    EventType,
    MultiError,
    NodeExistsError,
    NoNodeError,
    NotAuthorizedError,
    SessionExpiredError,
    SessionState,
    SetData,
    WatchEvent,
    ZkError,
)

ClientFactory = Callable[..., KazooZkClient]


@pytest.fixture
def connect(zookeeper: EmbeddedZooKeeper, loop: BlockingLoop) -> Iterator[ClientFactory]:
    clients: list[KazooZkClient] = []

    def make(chroot: str = "", timeout_ms: int = 4000, **options: object) -> KazooZkClient:
        client = KazooZkClient(
            loop.call_from_thread,
            zookeeper.connect_string + chroot,
            timeout_ms,
            10_000,
            create_chroot=True,
            **options,  # type: ignore[arg-type]
        )
        clients.append(client)
        loop.run(client.start())
        return client

    yield make
    for client in clients:
        loop.run(client.close())


def end_session(zookeeper: EmbeddedZooKeeper, session: int, password: bytes) -> None:
    """End a session by another client; repeat it if the session's client reconnects meanwhile."""
    wait_for(lambda: close_session(zookeeper.connect_string, session, password, 4000), "the session ends")


def test_a_client_does_not_create_a_mistyped_chroot(zookeeper: EmbeddedZooKeeper, loop: BlockingLoop) -> None:
    client = KazooZkClient(loop.call_from_thread, f"{zookeeper.connect_string}/mistyped/deep")
    with pytest.raises(StartupError, match=r"the chroot /mistyped/deep does not exist in 127\.0\.0\.1:\d+: correct"):
        loop.run(client.start())
    with Tree(zookeeper.connect_string) as tree:
        assert "mistyped" not in tree.names("/")


def test_a_missing_zookeeper_has_an_error_of_one_line(loop: BlockingLoop) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = KazooZkClient(loop.call_from_thread, f"127.0.0.1:{unused.getsockname()[1]}", 1000, 500)
        with pytest.raises(StartupError, match=r"cannot reach ZooKeeper at 127\.0\.0\.1:\d+ within 0\.5 s"):
            loop.run(client.start())


def test_operations_return_results_or_their_errors(connect: ClientFactory, loop: BlockingLoop) -> None:
    client = connect("/ops/deep")
    path, stat = loop.run(client.create("/a", b"1"))
    assert path == "/a" and stat.czxid == stat.mzxid > 0 and stat.version == 0 and stat.ctime_ms > 0
    assert loop.run(client.set("/a", b"2", 0)).version == 1
    assert loop.run(client.get("/a"))[0] == b"2"
    assert loop.run(client.create("/a/s-", sequence=True))[0] == "/a/s-0000000000"
    assert loop.run(client.get_children("/")) == ["a"]
    assert loop.run(client.exists("/none")) is None
    for work, error in (
        (client.get("/none"), NoNodeError),
        (client.create("/a"), NodeExistsError),
        (client.create("/b/c"), NoNodeError),
        (client.delete("/a"), ZkError),
    ):
        with pytest.raises(error):
            loop.run(work)
    results = loop.run(client.multi([Create("/m"), SetData("/a", b"3")]))
    assert results[0] == "/m" and getattr(results[1], "version", None) == 2
    with pytest.raises(MultiError) as caught:
        loop.run(client.multi([SetData("/a", b"4"), Create("/m"), Create("/n")]))
    assert caught.value.index == 1 and isinstance(caught.value.cause, NodeExistsError)
    assert loop.run(client.get("/a"))[0] == b"3", "all or nothing"


# trap: kafkalite/zk/kazoo_session.py: A completion overtakes the watch event that preceded it: completions and
# events come through one lane.
def test_a_watch_event_comes_before_a_later_answer(connect: ClientFactory, loop: BlockingLoop) -> None:
    reader, writer = connect("/order"), connect("/order")
    loop.run(writer.create("/n", b"0"))
    stale = 0
    for value in range(300):
        seen: list[WatchEvent] = []
        loop.run(reader.get("/n", seen.append))
        loop.run(writer.set("/n", b"%d" % (value + 1)))
        while loop.run(reader.get("/n"))[0] != b"%d" % (value + 1):
            pass
        stale += not seen
    assert stale == 0


# trap: kafkalite/zk/kazoo_client.py: A request larger than `jute.maxbuffer` costs every other request the connection:
# the client refuses it before it is sent.
def test_an_oversized_request_does_not_cost_other_requests_the_connection(
    connect: ClientFactory, loop: BlockingLoop
) -> None:
    client = connect("/large")
    states: list[SessionState] = []
    client.add_listener(states.append)
    with pytest.raises(ZkError, match="1200000 bytes"):
        loop.run(client.create("/x", b"x" * 1_200_000))
    loop.run(client.create("/y", b"y" * 900_000))
    assert states == []


def test_thousands_of_pipelined_requests_are_answered_in_order(connect: ClientFactory, loop: BlockingLoop) -> None:
    client = connect("/many")
    paths = [f"/n{index}" for index in range(1000)]
    loop.run(gather(client.create(path) for path in paths))
    started = time.monotonic()
    loop.run(gather(client.set(path, b"x" * 100) for path in paths))
    assert loop.run(gather(client.get(path) for path in paths))[999][0] == b"x" * 100
    print(f"two thousand requests in {time.monotonic() - started:.3f} s")


def test_an_expired_session_is_reported_and_fenced(
    connect: ClientFactory, loop: BlockingLoop, zookeeper: EmbeddedZooKeeper
) -> None:
    client, other = connect("/expired"), connect("/expired")
    loop.run(client.create("/e", ephemeral=True))
    states: list[SessionState] = []
    events: list[WatchEvent] = []
    client.add_listener(states.append)
    loop.run(client.get("/e", events.append))
    old = client.session
    end_session(zookeeper, old, client.password)
    loop.wait(lambda: client.session != old and client.state is SessionState.CONNECTED, 30)
    assert states[0] is SessionState.SUSPENDED
    assert states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert client.session != 0
    assert events and events[0].path == "/e"
    assert loop.run(other.exists("/e")) is None
    with pytest.raises(SessionExpiredError):
        loop.run(client.create("/e", ephemeral=True, session=old))
    assert loop.run(other.exists("/e")) is None


# trap: kafkalite/zk/kazoo_session.py: A request queued while the connection is SUSPENDED would go out in the next
# session: fenced writes are bound to their session.
def test_requests_in_the_queue_of_a_lost_session_are_not_sent_in_the_next(
    connect: ClientFactory, loop: BlockingLoop, zookeeper: EmbeddedZooKeeper
) -> None:
    # The reactor has not processed the loss of the connection yet, and its next requests must not reach the next
    # session.
    client, other = connect("/queue"), connect("/queue")
    old = client.session
    end_session(zookeeper, old, client.password)
    deadline = time.monotonic() + 5
    works: list[Awaitable[object]] = []
    while time.monotonic() < deadline and len(works) < 200:
        works.append(client.create(f"/q{len(works)}", session=old))
        time.sleep(0.002)
    for work in works:
        with pytest.raises((SessionExpiredError, ConnectionLostError)):
            loop.run(work)
    assert loop.run(other.get_children("/")) == []
    loop.wait(lambda: client.session != old and client.state is SessionState.CONNECTED, 30)


def test_an_outage_longer_than_the_session_timeout_is_survived(tmp_path: Path, loop: BlockingLoop) -> None:
    server = EmbeddedZooKeeper(tmp_path).start()
    client = KazooZkClient(loop.call_from_thread, server.connect_string, 1000, 10_000)
    try:
        loop.run(client.start())
        assert client.session_timeout_ms == 1000
        states: list[SessionState] = []
        events: list[WatchEvent] = []
        client.add_listener(states.append)
        loop.run(client.create("/persistent", b"kept"))
        loop.run(client.create("/ephemeral", ephemeral=True))
        loop.run(client.exists("/persistent", events.append))
        old = client.session
        server.kill()
        loop.wait(lambda: client.state is SessionState.SUSPENDED, 30)
        loop.wait(lambda: bool(events), 10)
        assert events[0].type is EventType.LOST
        with pytest.raises(ConnectionLostError):
            loop.run(client.get("/persistent"))
        time.sleep(1.5)
        server.start()
        loop.wait(lambda: client.state is SessionState.CONNECTED, 30)
        assert loop.run(client.get("/persistent"))[0] == b"kept", "data survive a restart"
        if client.session == old:  # a restarted ZooKeeper starts the timeouts of its sessions again
            assert SessionState.EXPIRED not in states
        else:
            assert states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
    finally:
        loop.run(client.close())
        server.stop()


def test_a_client_that_keeps_sending_notices_that_no_answer_comes(
    connect: ClientFactory, loop: BlockingLoop, zookeeper: EmbeddedZooKeeper
) -> None:
    client = connect("/silence", timeout_ms=3000)
    states: list[SessionState] = []
    client.add_listener(states.append)
    zookeeper.pause()
    try:
        deadline = time.monotonic() + 10
        while not states and time.monotonic() < deadline:
            client.exists("/").addErrback(lambda _: None)
            with contextlib.suppress(TimeoutError):
                loop.wait(lambda: bool(states), 0.3)
    finally:
        zookeeper.resume()
    assert states == [SessionState.SUSPENDED]
    loop.wait(lambda: client.state is SessionState.CONNECTED, 30)


def test_reconnecting_within_the_session_keeps_it(connect: ClientFactory, loop: BlockingLoop) -> None:
    client = connect("/resume")
    loop.run(client.create("/e", ephemeral=True))
    states: list[SessionState] = []
    client.add_listener(states.append)
    session = client.session
    client._kazoo._connection._socket.shutdown(socket.SHUT_RDWR)
    loop.wait(lambda: states == [SessionState.SUSPENDED, SessionState.CONNECTED], 30)
    assert client.session == session
    assert loop.run(client.exists("/e")) is not None


def test_digest_and_acl_keep_strangers_from_writing(connect: ClientFactory, loop: BlockingLoop) -> None:
    owner = connect("/acl", security=ZkSecurity(digest="broker:secret"), set_acl=True)
    loop.run(owner.create("/a", b"1"))
    loop.run(owner.create("/config"))
    loop.run(owner.create("/config/users", b"secret"))
    stranger = connect("/acl")
    assert loop.run(stranger.get("/a"))[0] == b"1"
    for work in (stranger.set("/a", b"2"), stranger.create("/a/b"), stranger.get("/config/users")):
        with pytest.raises(NotAuthorizedError):
            loop.run(work)
    assert loop.run(connect("/acl", security=ZkSecurity(digest="broker:secret")).set("/a", b"2")).version == 1


def test_the_client_tries_the_host_after_an_unreachable_one(zookeeper: EmbeddedZooKeeper, loop: BlockingLoop) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        hosts = f"127.0.0.1:{silent.getsockname()[1]},{zookeeper.connect_string}/hosts"
        client = KazooZkClient(loop.call_from_thread, hosts, 2000, 20_000, create_chroot=True)
        loop.run(client.start())
        loop.run(client.create("/here"))
        loop.run(client.close())


def test_the_client_asks_again_when_a_starting_server_loses_its_first_request(
    zookeeper: EmbeddedZooKeeper, loop: BlockingLoop
) -> None:
    """A starting ZooKeeper may take a connection and never answer on it; its next connection is answered."""
    host, port = zookeeper.connect_string.rsplit(":", 1)
    with socket.create_server(("127.0.0.1", 0)) as front:
        losing = threading.Thread(target=lose_the_first_request, args=(front, (host, int(port))), daemon=True)
        losing.start()
        client = KazooZkClient(loop.call_from_thread, f"127.0.0.1:{front.getsockname()[1]}", 10_000, 10_000)
        loop.run(client.start())
        loop.run(client.close())


def lose_the_first_request(front: socket.socket, server: tuple[str, int]) -> None:
    """Take two connections: keep the first without an answer, and connect the second one with the ``server``."""
    with front.accept()[0], front.accept()[0] as client, socket.create_connection(server) as behind:
        while True:
            for source in select.select([client, behind], [], [])[0]:
                received = source.recv(4096)
                if not received:
                    return
                (behind if source is client else client).sendall(received)


def test_closing_ends_the_session_at_once(connect: ClientFactory, loop: BlockingLoop) -> None:
    client, other = connect("/close"), connect("/close")
    loop.run(client.create("/e", ephemeral=True))
    loop.run(client.close())
    assert loop.run(other.exists("/e")) is None


def test_closing_a_session_needs_its_password(
    connect: ClientFactory, loop: BlockingLoop, zookeeper: EmbeddedZooKeeper
) -> None:
    client = connect("/password")
    loop.run(client.create("/e", ephemeral=True))
    close_session(zookeeper.connect_string, client.session, struct.pack(">16s", b"wrong"), 4000)
    assert loop.run(connect("/password").exists("/e")) is not None
