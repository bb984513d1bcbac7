"""The simulated network: what of TCP a broker relies on, and every fault of it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import deferred
from kafkalite.network.client import BrokerConnection, ConnectionLost
from kafkalite.network.request import Request
from kafkalite.network.server import KafkaServer
from kafkalite.testing.simulation.reactor import SimReactor
from kafkalite.testing.simulation.wires import WINDOW, Network, SimSocket, SimSockets
from kafkalite.testing.simulation.world import Life, World


class SimulatedHost:
    """A host with a process on it."""

    def __init__(self, net: NetworkFixture, name: str) -> None:
        self.name = name
        self.life: Life = net.world.node(name).start()
        self.sockets = SimSockets(net.network, self.life)
        self.reactor = SimReactor(self.life, self.sockets)

    def listen(self, port: int) -> SimSocket:
        sock = self.sockets.bind("", port)
        self.sockets.listen(sock, 5)
        return sock


class NetworkFixture:
    """Two machines, ``a`` and ``b``."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = Network(world)
        self.a = SimulatedHost(self, "a")
        self.b = SimulatedHost(self, "b")

    def pass_time(self, seconds: float = 0.1) -> None:
        self.world.run_until(self.world.now + seconds)

    def pair(self, listening: SimSocket | None = None) -> tuple[SimSocket, SimSocket]:
        """A connection from ``a`` to ``b``: both ends."""
        listening = listening or self.b.listen(0)
        near, _ = self.a.sockets.connect("b", listening.getsockname()[1])
        self.pass_time()
        far, peer = listening.accept()
        assert peer == near.getsockname()
        return near, far


@pytest.fixture
def net() -> Iterator[NetworkFixture]:
    with World(1) as world:
        yield NetworkFixture(world)


def read(sock: SimSocket) -> bytes:
    """All that is there now."""
    found = b""
    while True:
        try:
            data = sock.recv(7)
        except BlockingIOError:
            return found
        if not data:
            return found + b"<end>"
        found += data


def takes_more(sock: SimSocket) -> bool:
    """Whether a write would not block."""
    return sock.writable


def error_of(sock: SimSocket) -> int | None:
    """The error number that the next read meets."""
    try:
        sock.recv(1)
    except BlockingIOError:
        return None
    except OSError as error:
        return error.errno
    return 0


def test_bytes_arrive_in_order_and_not_at_once(net: NetworkFixture) -> None:
    near, far = net.pair()
    net.network.set_delay("a", "b", (0.01, 0.5))
    for number in range(50):
        assert near.send(b"%d," % number) > 0
    assert read(far) == b""
    net.pass_time(1.0)
    assert read(far) == b"".join(b"%d," % number for number in range(50))


def test_connections_overtake_each_other(net: NetworkFixture) -> None:
    listening = net.b.listen(0)
    pairs = [net.pair(listening) for _ in range(20)]
    net.network.set_delay("a", "b", (0.0, 1.0))
    for near, _ in pairs:
        near.send(b"x")
    arrived: list[int] = []
    while len(arrived) < len(pairs):
        net.pass_time(0.001)
        arrived += [number for number, (_, far) in enumerate(pairs) if number not in arrived and read(far)]
    assert arrived != sorted(arrived)


def test_an_orderly_end_comes_after_the_last_byte(net: NetworkFixture) -> None:
    near, far = net.pair()
    near.send(b"last words")
    near.close()
    net.pass_time()
    assert read(far) == b"last words<end>"
    far.send(b"too late")
    net.pass_time()
    assert error_of(far) == errno.ECONNRESET


def test_a_close_with_unread_bytes_is_a_reset(net: NetworkFixture) -> None:
    near, far = net.pair()
    near.send(b"unread")
    net.pass_time()
    far.close()
    net.pass_time()
    assert error_of(near) == errno.ECONNRESET


def test_a_port_without_a_listener_refuses(net: NetworkFixture) -> None:
    bound = net.b.sockets.bind("", 9092)
    for port in (9091, bound.getsockname()[1]):
        near, result = net.a.sockets.connect("b", port)
        assert result == errno.EINPROGRESS
        assert not takes_more(near)
        net.pass_time()
        assert takes_more(near)
        assert near.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def test_a_port_is_one_process_s(net: NetworkFixture) -> None:
    net.b.listen(9092)
    with pytest.raises(StartupError, match="9092"):
        net.b.sockets.bind("", 9092)
    net.b.life.kill()
    assert SimulatedHost(net, "b").listen(9092).getsockname()[1] == 9092


def test_a_silent_machine_answers_nothing(net: NetworkFixture) -> None:
    near, far = net.pair()
    net.b.life.lose_power()
    net.network.lose_power("b")
    near.send(b"hello?")
    late, _ = net.a.sockets.connect("b", 9092)
    net.pass_time(60.0)
    assert error_of(near) is None
    assert not takes_more(late)
    assert not far.reader


def test_a_machine_that_is_back_resets_what_it_forgot(net: NetworkFixture) -> None:
    near, _ = net.pair()
    net.b.life.lose_power()
    net.network.lose_power("b")
    SimulatedHost(net, "b")
    net.pass_time()
    assert error_of(near) is None
    near.send(b"still there?")
    net.pass_time()
    assert error_of(near) == errno.ECONNRESET


def test_a_killed_process_ends_its_connections() -> None:
    seen: set[object] = set()
    for seed in range(20):
        with World(seed) as world:
            net = NetworkFixture(world)
            near, far = net.pair()
            far.send(b"before")
            net.b.life.kill()
            net.pass_time()
            try:
                seen.add(read(near))
            except ConnectionResetError:
                seen.add("reset")
            refused, _ = net.a.sockets.connect("b", far.getsockname()[1])
            net.pass_time()
            assert refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    assert seen == {b"before<end>", "reset"}


def test_a_held_way_loses_nothing(net: NetworkFixture) -> None:
    near, far = net.pair()
    net.network.hold("a", "b")
    near.send(b"1")
    late, _ = net.a.sockets.connect("b", far.getsockname()[1])
    net.pass_time(5.0)
    near.send(b"2")
    near.close()
    net.pass_time(5.0)
    assert (read(far), takes_more(late)) == (b"", False)
    net.network.release("a", "b")
    net.pass_time()
    assert (read(far), takes_more(late)) == (b"12<end>", True)


def test_one_way_may_be_held_alone(net: NetworkFixture) -> None:
    near, far = net.pair()
    net.network.hold("a", "b", one_way=True)
    near.send(b"request")
    far.send(b"answer")
    net.pass_time()
    assert (read(far), read(near)) == (b"", b"answer")
    assert net.network.is_held("a", "b")
    assert not net.network.is_held("b", "a")
    net.network.heal()
    net.pass_time()
    assert read(far) == b"request"


def test_healing_lets_arrive_what_is_answered_on_a_new_way(net: NetworkFixture) -> None:
    arrived: list[str] = []
    net.network.hold("a", "b", one_way=True)
    net.network.travel("a", "b", lambda: net.network.travel("b", "c", lambda: arrived.append("c")))
    net.pass_time()
    net.network.heal()
    net.pass_time()
    assert arrived == ["c"]


def test_an_isolated_machine_reaches_no_host_not_even_a_new_one(net: NetworkFixture) -> None:
    near, far = net.pair()
    net.network.isolate("b")
    near.send(b"x")
    late, _ = SimulatedHost(net, "c").sockets.connect("b", far.getsockname()[1])
    net.pass_time()
    assert (read(far), takes_more(late)) == (b"", False)
    net.network.rejoin("b")
    net.pass_time()
    assert (read(far), takes_more(late)) == (b"x", True)


def test_released_bytes_arrive_in_order(net: NetworkFixture) -> None:
    near, far = net.pair()
    for number in range(30):
        net.network.hold("a", "b", one_way=True)
        near.send(b"%d," % number)
        net.pass_time(0.0004)
        net.network.release("a", "b", one_way=True)
        near.send(b"%d;" % number)
    net.pass_time()
    assert read(far) == b"".join(b"%d,%d;" % (number, number) for number in range(30))


def test_a_reset_leaves_no_hole(net: NetworkFixture) -> None:
    """Bytes in flight at a connection's failure do not arrive after lost ones."""
    near, far = net.pair()
    near.send(b"lost")
    net.pass_time()
    near.send(b"on its way")
    assert net.network.reset("a", "b") == 1
    net.pass_time()
    assert (error_of(far), error_of(near)) == (errno.ECONNRESET, errno.ECONNRESET)
    assert read(far) == b"<end>"
    with pytest.raises(OSError, match="pipe"):
        near.send(b"more")


def test_a_slow_reader_holds_the_sender_back(net: NetworkFixture) -> None:
    near, far = net.pair()
    assert near.send(bytes(WINDOW + 5)) == WINDOW
    with pytest.raises(BlockingIOError):
        near.send(b"x")
    assert not takes_more(near)
    net.pass_time()
    assert not takes_more(near)
    assert len(far.recv(10)) == 10
    assert takes_more(near)
    assert near.send(bytes(20)) == 10
    net.network.set_window("a", "b", 100)
    net.pass_time()
    read(far)
    assert near.sendmsg([bytes(60), bytes(60)]) == 100


def test_files_are_sent_up_to_the_window(net: NetworkFixture, tmp_path: object) -> None:
    near, far = net.pair()
    net.network.set_window("a", "b", 4)
    with open(f"{tmp_path}/segment", "w+b") as file:
        file.write(b"0123456789")
        file.flush()
        assert near.send_file(file.fileno(), 3, 7) == 4
        assert near.send_file(file.fileno(), 10, 5) == 0
        net.pass_time()
        assert read(far) == b"3456"
        assert os.fstat(file.fileno()).st_size == 10


class Echo:
    """Answers with what it was asked."""

    def handle(self, request: Request) -> None:
        request.respond([bytes(request.body)])


def test_the_broker_s_server_and_client_run_on_it(net: NetworkFixture) -> None:
    server = KafkaServer(net.b.reactor, Echo(), now=net.b.life.clock.monotonic, sockets=net.b.sockets)
    port = server.listen("b", 9092)
    link = BrokerConnection(net.a.reactor, "b", port, "client", sockets=net.a.sockets)
    answers: list[bytes] = []
    lost: list[Exception] = []

    async def talk() -> None:
        await link.connect(5.0)
        for size in (10, 100_000, 1_000_000):
            answers.append(bytes(await link.send(10, 0, bytes(size))))
        try:
            await link.send(10, 0, b"never answered")
        except ConnectionLost as error:
            lost.append(error)

    net.a.life.run(lambda: deferred(talk()))
    assert net.world.run_until(lambda: len(answers) == 3, 5.0)
    assert [len(answer) for answer in answers] == [10, 100_000, 1_000_000]
    net.b.life.kill()
    assert net.world.run_until(lambda: bool(lost), net.world.now + 5.0)
    assert net.world.failures == []


def test_a_paused_server_answers_after_the_pause(net: NetworkFixture) -> None:
    server = KafkaServer(net.b.reactor, Echo(), now=net.b.life.clock.monotonic, sockets=net.b.sockets)
    port = server.listen("b", 9092)
    link = BrokerConnection(net.a.reactor, "b", port, "client", sockets=net.a.sockets)
    answers: list[float] = []

    async def talk() -> None:
        await link.connect(5.0)
        await link.send(10, 0, b"question", 30.0)
        answers.append(net.world.now)

    net.b.life.pause()
    net.a.life.run(lambda: deferred(talk()))
    net.world.run_until(7.0)
    assert link.connected
    assert answers == []
    net.b.life.resume()
    assert net.world.run_until(lambda: bool(answers), 8.0)
