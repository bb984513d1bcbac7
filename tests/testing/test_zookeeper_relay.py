"""The relay between brokers and ZooKeeper: which broker a connection is of, and what a cut stops."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.embedded.state import cut_brokers, heal_all
from kafkalite.embedded.zookeeper_relay import ZooKeeperRelay, cut_off, heal

# A process that looks like broker 2: it sends what it is given to the address, and says what comes back.
CLIENT = """
import socket, sys
host, _, port = sys.argv[1].partition("/")[0].rpartition(":")
with socket.create_connection((host, int(port))) as way:
    for line in sys.stdin:
        way.sendall(line.encode())
        print(way.recv(100).decode(), end="", flush=True)
"""


class Echo:
    """A server that answers on one connection with what it gets."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.connect = f"127.0.0.1:{self._listening.getsockname()[1]}/kafka"

    def accept(self) -> socket.socket:
        self._listening.settimeout(60)
        return self._listening.accept()[0]

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def relay(tmp_path: Path, echo: Echo) -> Iterator[ZooKeeperRelay]:
    config = tmp_path / "broker-2" / "server.properties"
    config.parent.mkdir()
    config.touch()
    made = ZooKeeperRelay.start(tmp_path, echo.connect)
    yield made
    made.stop()


@pytest.fixture
def broker(tmp_path: Path, relay: ZooKeeperRelay) -> Iterator[subprocess.Popen[str]]:
    words = [relay.connect, "broker", "start", "--config", str(tmp_path / "broker-2" / "server.properties")]
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, *words], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as made:
        yield made
        made.kill()


def say(broker: subprocess.Popen[str], text: str) -> None:
    assert broker.stdin is not None
    broker.stdin.write(f"{text}\n")
    broker.stdin.flush()


def test_a_cut_holds_back_the_bytes_of_that_broker_until_it_is_healed(
    tmp_path: Path, echo: Echo, relay: ZooKeeperRelay, broker: subprocess.Popen[str]
) -> None:
    assert relay.connect.endswith("/kafka")
    assert broker.stdout is not None
    say(broker, "one")
    with echo.accept() as server, socket.create_connection(address(relay)) as command, echo.accept() as other:
        assert server.recv(100) == b"one\n"
        server.sendall(b"1\n")
        assert broker.stdout.readline() == "1\n"
        cut_off(tmp_path, 2)
        # The cut is in force once the broker is silent; another process passes.
        server.settimeout(1.0)
        with pytest.raises(TimeoutError):
            for number in range(1000):
                say(broker, str(number))
                server.recv(100)
                server.sendall(b".\n")
        command.sendall(b"srvr")
        assert other.recv(100) == b"srvr"
        heal(tmp_path, 2)
        server.settimeout(60)
        assert server.recv(100).strip().isdigit()


def address(relay: ZooKeeperRelay) -> tuple[str, int]:
    host, _, port = relay.connect.partition("/")[0].rpartition(":")
    return host, int(port)


def test_without_a_relay_no_broker_is_cut_off(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="broker 1 reaches ZooKeeper directly"):
        cut_off(tmp_path, 1)
    assert cut_brokers(tmp_path) == set()


def test_a_start_and_a_stop_heal_all(tmp_path: Path, relay: ZooKeeperRelay) -> None:
    cut_off(tmp_path, 1)
    cut_off(tmp_path, 2)
    assert cut_brokers(tmp_path) == {1, 2}
    heal(tmp_path, 2)
    assert cut_brokers(tmp_path) == {1}
    heal_all(tmp_path)
    assert cut_brokers(tmp_path) == set()
    relay.stop()
    with pytest.raises(StartupError, match="directly"):
        cut_off(tmp_path, 1)
