"""The events of simulated brokers whose clocks differ by two seconds, merged after the controller was killed."""

from __future__ import annotations

import pytest

from kafkalite.cluster.timeline import merge
from kafkalite.common.events import BrokerEvent, EventKind, decode_frames
from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.world import World
from tests.testing.simulation.slice import TOPIC, Workload


def collected(cluster: SimCluster) -> tuple[list[BrokerEvent], dict[int, int]]:
    """The events of the live brokers, and by how many ms their clocks are ahead, as a client finds out."""
    events: list[BrokerEvent] = []
    ahead: dict[int, int] = {}
    for number, broker in cluster.brokers.items():
        if broker.is_alive and broker.server is not None:
            found = decode_frames(broker.server.events.snapshot().encode(0))
            events += found.events
            ahead[number] = found.now_ms - cluster.world.time_ms()
    return events, ahead


def places(merged: list[BrokerEvent], killed: int) -> list[int]:
    """Where the story's steps stand: session closed, controller, election of a leader, it leads, its first produce."""

    def first(kind: EventKind, text: str, like: BrokerEvent | None = None) -> int:
        return next(
            number
            for number, event in enumerate(merged)
            if event.kind == kind
            and text in event.text
            and (like is None or (event.partition, event.leader_epoch) == (like.partition, like.leader_epoch))
        )

    elected = first(EventKind.LEADERSHIP, f"instead of {killed}")
    return [
        first(EventKind.SESSION, f"/controller of broker {killed} is gone"),
        first(EventKind.CONTROLLER, "is the controller"),
        elected,
        first(EventKind.LEADERSHIP, " leads ", merged[elected]),
        first(EventKind.PRODUCE, "first produce", merged[elected]),
    ]


@pytest.mark.parametrize("skew", [(0, 2000, -2000), (2000, 0, -2000), (-2000, 2000, 0)])
def test_a_failover_reads_as_a_story_from_clocks_that_differ(skew: tuple[int, ...]) -> None:
    with World(1) as world, SimCluster(world) as cluster:
        for number, offset in zip(cluster.brokers, skew, strict=True):
            world.node(f"broker-{number}").clock_offset_ms = offset
        cluster.start_all()
        workload = Workload(cluster)
        node = cluster.client_node("client")
        node.spawn(lambda: workload.create_topic(node), "creating the topic")
        partitions = [TopicPartition(TOPIC, number) for number in range(3)]
        assert world.run_until(lambda: all(workload.leader(tp) > 0 for tp in partitions), world.now + 10.0)
        node.spawn(lambda: workload.produce(node, "p", 0.05), "producing")
        assert world.run_until(lambda: workload.acked > 20, world.now + 20.0)
        (killed,) = (
            number
            for number, broker in cluster.brokers.items()
            if broker.services is not None and broker.services.controller.is_active
        )
        cluster.kill(killed)
        before = workload.acked
        assert world.run_until(lambda: workload.acked > before + 40, world.now + 40.0)
        events, ahead = collected(cluster)
        assert sorted(ahead.values()) == sorted(offset for at, offset in enumerate(skew, 1) if at != killed)
        assert world.failures == []
    story = places(merge(events, ahead), killed)
    assert story == sorted(story)
    by_causes_alone = places(merge(events), killed)
    # No epoch and no zxid says when the session closed, so without the clocks it is known for the new controller only.
    assert by_causes_alone[1:] == sorted(by_causes_alone[1:])
