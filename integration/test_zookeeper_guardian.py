"""The guardian ends a killed broker's session, with a real ZooKeeper and a real ``kill -9``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psutil
import pytest

from integration.harness.wait import has_ended, wait_for
from kafkalite.broker.watchdog import Watchdog
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.zk_client import EventType, SessionState, WatchEvent

# The part of a broker that handles its session; it takes commands from standard input.
BROKER = """
import subprocess, sys, threading
from kafkalite.broker.guardian import Guardian
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
loop = BlockingLoop()
client = KazooZkClient(loop.call_from_thread, sys.argv[1], int(sys.argv[2]))
loop.run(client.start())
guardian = Guardian(sys.argv[1], ManualClock())
guardian.watch(client.session, client.password, client.session_timeout_ms)
child = subprocess.Popen(["sleep", "60"])
loop.run(client.create(sys.argv[3], ephemeral=True))
print(guardian.pid, child.pid, flush=True)
sys.stdin.readline()
guardian.release()
loop.run(client.close())
"""


_numbers = count()


class FakeBroker:
    """A process with a session, a guardian and another child."""

    def __init__(self, connect: str, timeout_ms: int) -> None:
        self.path = f"/broker-{next(_numbers)}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", BROKER, connect, str(timeout_ms), self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd=Path(__file__).parents[1],
        )
        assert self.process.stdout is not None
        self.guardian, self.child = map(int, self.process.stdout.readline().split())

    def close(self) -> None:
        for pid in (self.process.pid, self.guardian, self.child):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.communicate()


@pytest.fixture
def client(zookeeper: EmbeddedZooKeeper, loop: BlockingLoop) -> Iterator[KazooZkClient]:
    client = KazooZkClient(loop.call_from_thread, zookeeper.connect_string, 4000)
    loop.run(client.start())
    yield client
    loop.run(client.close())


@pytest.fixture
def broker(zookeeper: EmbeddedZooKeeper) -> Iterator[FakeBroker]:
    # A session timeout longer than the test's.
    broker = FakeBroker(zookeeper.connect_string, 120_000)
    yield broker
    broker.close()


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether a process ignores a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def gone_after(client: KazooZkClient, loop: BlockingLoop, path: str, act: Callable[[], object]) -> float:
    """Seconds from ``act`` until ``path`` does not exist."""
    events: list[WatchEvent] = []
    assert loop.run(client.exists(path, events.append)) is not None
    started = time.monotonic()
    act()
    loop.wait(lambda: bool(events), 30)
    assert events[0].type is EventType.DELETED
    return time.monotonic() - started


def test_a_killed_brokers_registration_ends_at_once(
    broker: FakeBroker, client: KazooZkClient, loop: BlockingLoop
) -> None:
    assert psutil.Process(broker.guardian).memory_info().rss < 14 << 20
    print(f"gone after {gone_after(client, loop, broker.path, broker.process.kill):.3f} s")
    wait_for(lambda: has_ended(broker.guardian), "the guardian ends")


def test_signals_to_the_group_do_not_disarm_the_guardian(
    broker: FakeBroker, client: KazooZkClient, loop: BlockingLoop
) -> None:
    wait_for(lambda: ignores(broker.guardian, signal.SIGTERM), "the guardian to be ready", interval=0.01)
    os.kill(broker.guardian, signal.SIGTERM)
    os.kill(broker.guardian, signal.SIGINT)
    gone_after(client, loop, broker.path, lambda: os.killpg(broker.process.pid, signal.SIGKILL))


def test_a_stopped_broker_keeps_its_session(broker: FakeBroker, client: KazooZkClient, loop: BlockingLoop) -> None:
    os.kill(broker.process.pid, signal.SIGSTOP)
    time.sleep(0.5)
    assert loop.run(client.exists(broker.path)) is not None
    os.kill(broker.process.pid, signal.SIGCONT)
    time.sleep(0.2)
    assert loop.run(client.exists(broker.path)) is not None


# trap: kafkalite/broker/guardian.py: The guardian dies together with its broker; the session expires by its timeout.
def test_without_its_guardian_a_brokers_session_expires_by_its_timeout(
    zookeeper: EmbeddedZooKeeper, client: KazooZkClient, loop: BlockingLoop
) -> None:
    # Longer than a machine stalls, because the session may not end before the kill.
    broker = FakeBroker(zookeeper.connect_string, 6000)
    try:
        os.kill(broker.guardian, signal.SIGKILL)
        # The session outlives the kill: the last heartbeat was at most a third of the timeout and a stall before.
        assert gone_after(client, loop, broker.path, broker.process.kill) > 0.3
    finally:
        broker.close()


def test_the_guardian_of_a_closed_session_ends(broker: FakeBroker, client: KazooZkClient, loop: BlockingLoop) -> None:
    assert broker.process.stdin is not None
    broker.process.stdin.write(b"\n")
    broker.process.stdin.flush()
    assert broker.process.wait(30) == 0
    wait_for(lambda: has_ended(broker.guardian), "the guardian ends")
    assert loop.run(client.exists(broker.path)) is None


def test_the_watchdog_ends_the_session_of_a_hung_reactor(zookeeper: EmbeddedZooKeeper, client: KazooZkClient) -> None:
    loop = BlockingLoop()
    hung = KazooZkClient(loop.call_from_thread, zookeeper.connect_string, 1000)
    loop.run(hung.start())
    states: list[SessionState] = []
    hung.add_listener(states.append)
    session = hung.session
    # A clock that does not advance stands for a reactor that hangs.
    watchdog = Watchdog(zookeeper.connect_string, ManualClock())
    watchdog.watch(session, hung.password, hung.session_timeout_ms)
    try:
        loop.wait(lambda: SessionState.EXPIRED in states, 30)
        loop.wait(lambda: hung.state is SessionState.CONNECTED, 30)
        assert hung.session != session
    finally:
        watchdog.stop()
        loop.run(hung.close())
    assert client.state is SessionState.CONNECTED
