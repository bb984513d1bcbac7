"""Differences between the brokers and ZooKeeper."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.replication.partition import Role
from kafkalite.testing.simulation.convergence import differences, leftovers
from kafkalite.testing.znodes import Znode
from kafkalite.zk.znodes.groups import Generation, encode_generation, generation_path, members_path

TP = TopicPartition("t", 0)


def broker(state: LeaderAndIsr, role: Role, end: int = 5) -> Any:
    """A broker as the comparison sees it."""
    log = SimpleNamespace(log_end_offset=end, high_watermark=5)
    partition = SimpleNamespace(role=role, leader_epoch=state.leader_epoch, log=log)
    metadata = SimpleNamespace(controller_id=1, brokers={1: None, 2: None}, topics={"t": {0: state}})
    replicas = SimpleNamespace(replicas=SimpleNamespace(partitions={TP: partition}))
    return SimpleNamespace(metadata=metadata, replicas=replicas)


@pytest.mark.parametrize(
    ("replicas", "role", "expected"),
    [
        ((1, 2), Role.FOLLOWER, []),
        ((1, 2), Role.NONE, ["broker 2 is none of t-0, it should be follower"]),
        ((1,), Role.FOLLOWER, ["broker 2 is follower of t-0, of which it is no replica"]),
        ((1,), Role.NONE, []),
    ],
)
def test_only_replicas_serve(replicas: tuple[int, ...], role: Role, expected: list[str]) -> None:
    """A replica that was taken away may have left a log behind, which nothing is done with."""
    state = LeaderAndIsr("t", 0, ZERO_UUID, 1, 3, replicas, 1, 0, -1, PartitionAssignment(replicas))
    servers = {1: broker(state, Role.LEADER), 2: broker(state, role)}
    assert differences({TP: state}, 1, servers) == expected


@pytest.mark.parametrize(
    ("claimed", "members", "told"),
    [
        (True, ("a", "b"), ["/consumers/g has the members a, b"]),
        (True, (), []),
        (False, ("a",), []),
    ],
    ids=["members stayed", "empty", "no coordinator, so no sessions"],
)
def test_groups_whose_clients_have_ended(claimed: bool, members: tuple[str, ...], told: list[str]) -> None:
    nodes = {
        generation_path("g"): Znode(encode_generation(Generation(3)), 1, 1, 0),
        members_path("g", 2): Znode(b"", 1, 1, 0, children={"former": None}),
        members_path("g", 3): Znode(b"", 1, 1, 0, children=dict.fromkeys(members)),
    }
    if claimed:
        nodes["/consumers/g/coordinator"] = Znode(b"{}", 1, 1, 0)
    assert leftovers(nodes) == told
