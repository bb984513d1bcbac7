"""A client's metadata, and its reconnects to unreachable brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.simulation.clients.cluster import NO_LEADER, ClusterClient, Leader
from kafkalite.testing.simulation.clients.host import Link
from tests.testing.simulation.clients.brokers import Brokers, Call, Wire

P0 = TopicPartition("t", 0)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    found.create(P0)
    yield found
    found.finish()


def cluster_of(brokers: Brokers) -> ClusterClient:
    cluster = ClusterClient(brokers.host, "c")
    cluster.want(("t",))
    brokers.run(1)
    return cluster


def test_leaders_come_with_their_epochs(brokers: Brokers) -> None:
    cluster = cluster_of(brokers)
    assert cluster.leader(P0) == Leader(1, 0)
    brokers.elect(2)
    assert cluster.leader(P0) == Leader(1, 0)
    cluster.request_update()
    brokers.run(1)
    assert cluster.leader(P0) == Leader(2, 1)


def test_an_older_epoch_does_not_come_back(brokers: Brokers) -> None:
    """A broker that has not heard of the election answers: as all did before."""
    answers: list[bytes] = []

    def edit(call: Call, body: bytes) -> bytes:
        if call.key is ApiKey.METADATA:
            answers.append(body)
        return body if stale is False else answers[0]

    def watch(wire: Wire, call: Call) -> bool:
        del call
        wire.edit = edit
        return False

    stale = False
    brokers.faults.append(watch)
    cluster = cluster_of(brokers)
    brokers.elect(2)
    cluster.request_update()
    brokers.run(1)
    assert cluster.leader(P0) == Leader(2, 1)
    stale = True
    seen = len(answers)
    cluster.request_update()
    brokers.run(1)
    assert len(answers) > seen
    assert cluster.leader(P0) == Leader(2, 1)


def test_a_hint_is_believed_where_it_is_newer(brokers: Brokers) -> None:
    cluster = cluster_of(brokers)
    cluster.hint(P0, (3, 5))
    assert cluster.leader(P0) == Leader(3, 5)
    cluster.hint(P0, (2, 4))
    cluster.hint(P0, (9, 6))
    cluster.hint(P0, None)
    assert cluster.leader(P0) == Leader(3, 5)


def test_a_missing_topic_is_not_known(brokers: Brokers) -> None:
    cluster = ClusterClient(brokers.host, "c")
    known: list[bool] = []

    class Waiter:
        async def run(self) -> None:
            known.append(await cluster.known(("none",), 1.0))

        def kill(self) -> None:
            cluster.close()

    brokers.start(Waiter())
    brokers.run(3)
    assert known == [False]
    assert cluster.leader(TopicPartition("none", 0)) == NO_LEADER
    # It is not asked for without an end.
    before = brokers.count(ApiKey.METADATA)
    brokers.run(5)
    assert brokers.count(ApiKey.METADATA) - before <= 2


def test_a_broker_that_cannot_be_reached_is_tried_at_growing_intervals(brokers: Brokers) -> None:
    tries: list[float] = []

    def counted(host: str, port: int, client_id: str) -> Link:
        if port == 9003:
            tries.append(brokers.clock.monotonic())
        return brokers.host.connect(host, port, client_id)

    cluster = ClusterClient(replace(brokers.host, connect=counted), "c")
    cluster.want(("t",))
    brokers.run(1)
    brokers.brokers[3].dead = True
    for _ in range(400):
        cluster.ready(3)
        brokers.run(0.02)
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps[0] < 0.15
    assert 0.4 <= max(gaps) <= 0.7
    assert len(tries) < 25
    brokers.brokers[3].dead = False
    brokers.run(1)
    cluster.ready(3)
    brokers.run(1)
    assert cluster.ready(3) is not None
