"""The ZooKeeper twins and a real ZooKeeper give the same answers, errors and watch events for random scripts.

`make test` runs few scripts, KAFKALITE_SOAK=1 a thousand more. KAFKALITE_SEED runs only the script of one seed.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterator, Sequence

import pytest

from integration.conftest import SOAK
from integration.harness.wait import wait_for
from kafkalite.broker.guardian_process import close_session
from kafkalite.common.tasks import deferred
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.testing.ensemble.scripts import Target, make_script, transcript
from kafkalite.testing.ensemble.targets import EnsembleTarget, MemoryTarget
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.zk_client import SessionState, ZkClient

SHORT, LONG = range(100), range(100, 1100)
ONE = os.environ.get("KAFKALITE_SEED")


class RealTarget:
    """A real server. The clients of a script are used again by the next one."""

    def __init__(self, server: EmbeddedZooKeeper, loop: BlockingLoop) -> None:
        self._server = server
        self._loop = loop
        self._idle: list[KazooZkClient] = []
        self._busy: list[KazooZkClient] = []

    def connect(self) -> KazooZkClient:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        if self._idle:
            client = self._idle.pop()
        else:
            client = KazooZkClient(self._loop.call_from_thread, self._server.connect_string, 10_000, 10_000)
            self._loop.run(client.start())
        self._busy.append(client)
        return client

    def run(self, works: Sequence[Awaitable[object]]) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        outcomes: list[object] = []
        for work in works:
            deferred(work).addBoth(outcomes.append)
        self._loop.wait(lambda: len(outcomes) == len(works))

    def expire(self, client: ZkClient) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        assert isinstance(client, KazooZkClient)
        session, password = client.session, client.password
        wait_for(lambda: close_session(self._server.connect_string, session, password, 10_000), "the session ends")
        self._loop.wait(lambda: client.session != session and client.state is SessionState.CONNECTED)

    def close(self, client: ZkClient) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        assert isinstance(client, KazooZkClient)
        self._loop.run(client.close())
        self._busy.remove(client)

    def end_script(self) -> None:
        """Make the clients of a script available to the next."""
        self._idle += self._busy
        self._busy.clear()

    def end(self) -> None:
        """Close all clients."""
        self.end_script()
        for client in self._idle:
            self._loop.run(client.close())


@pytest.fixture
def target(zookeeper: EmbeddedZooKeeper, loop: BlockingLoop) -> Iterator[RealTarget]:
    target = RealTarget(zookeeper, loop)
    yield target
    target.end()


def compare(target: RealTarget, seeds: Sequence[int]) -> None:
    """Run the scripts of ``seeds`` on the real server and on the twins; fail at the first difference."""
    lines = 0
    for seed in seeds:
        script = make_script(seed)
        expected = transcript(script, target)
        target.end_script()
        lines += len(expected)
        twins: dict[str, Target] = {
            "one server": EnsembleTarget(seed, servers=1),
            "three servers": EnsembleTarget(seed, servers=3),
            "the simple twin": MemoryTarget(),
        }
        for name, twin in twins.items():
            assert transcript(script, twin) == expected, f"KAFKALITE_SEED={seed}: {name} differs"
    print(f"{len(seeds)} scripts, {lines} answers and events alike")


def test_the_twins_answer_random_scripts_as_a_real_server_does(target: RealTarget) -> None:
    compare(target, [int(ONE)] if ONE else SHORT)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
def test_the_twins_answer_a_thousand_random_scripts_as_a_real_server_does(target: RealTarget) -> None:
    compare(target, LONG)
