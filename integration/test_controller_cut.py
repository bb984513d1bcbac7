"""The controller's requests to one broker are lost: what the broker knows is right all the same, from ZooKeeper."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from integration.conftest import ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.history import partition_states, wait_in_sync
from integration.harness.wait import wait_for
from integration.harness.wire import Wire, leaders
from kafkalite.cluster.model import CONTROL_PLANE_LISTENER
from kafkalite.embedded.znodes import ZnodeReader

CHANGES = 20
LIMIT = 1.0


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port that accepts everything and answers nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            taken.append(connection)

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()
    for connection in taken:
        connection.close()


@pytest.mark.kafkalite_only
def test_metadata_of_a_cut_off_broker(make_cluster: ClusterFactory, black_hole: int) -> None:
    """Over 20 leader changes, broker 3 knows each new leader within a second of its standing in ZooKeeper."""
    cluster = make_cluster(3, start=False)
    advertised = f"PLAINTEXT://{cluster.address(3)},{CONTROL_PLANE_LISTENER}://127.0.0.1:{black_hole}"
    cluster.override_broker(3, {"advertised.listeners": advertised})
    cluster.start()
    topic = fresh_topic("cut")
    partition = TopicPartition(topic, 0)
    slow: list[float] = []
    with KafkaAdminClient(bootstrap_servers=cluster.address(1)) as admin, Wire(cluster.address(3)) as wire:
        admin.create_topics({topic: {"assignments": {0: [1, 2]}}})
        wait_in_sync(cluster.zookeeper, topic, 1, 2)
        for number in range(CHANGES):
            order = [2, 1] if number % 2 == 0 else [1, 2]
            admin.alter_partition_reassignments({partition: order})
            wait_for(lambda: not admin.list_partition_reassignments(), "the order has changed")
            admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
            with ZnodeReader(cluster.zookeeper) as reader:
                wait_for(
                    lambda order=order: partition_states(reader, topic, 1)[0]["leader"] == order[0],  # type: ignore[misc]
                    "the leader has changed",
                    interval=0.01,
                )
            began = time.monotonic()
            wait_for(lambda order=order: leaders(wire, topic)[0] == order[0], "broker 3 knows", interval=0.01)  # type: ignore[misc]
            slow.append(time.monotonic() - began)
    print(f"broker 3 knew after {max(slow):.3f} s at most, {sorted(slow)[len(slow) // 2]:.3f} s in the middle")
    assert max(slow) < LIMIT
