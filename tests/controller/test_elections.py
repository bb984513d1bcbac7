"""The rules of election, and the tables of legal transitions."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.controller import elections, partition_states, replica_states
from kafkalite.controller.elections import Plan, Refused
from kafkalite.controller.partition_states import IllegalPartitionTransitionError, PartitionState
from kafkalite.controller.replica_states import ReplicaState

TP = TopicPartition("t", 0)


def state(
    leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3), **kind: tuple[int, ...]
) -> LeaderAndIsr:
    return LeaderAndIsr(
        "t",
        0,
        leader=leader,
        leader_epoch=7,
        isr=isr,
        zk_version=4,
        controller_epoch=2,
        assignment=PartitionAssignment(replicas, **kind),
    )


class Registered:
    """Brokers that are registered with an epoch, those in ``restarted`` after an unclean start with that epoch."""

    def __init__(self, ids: Collection[int], stopping: Collection[int] = (), restarted: Collection[int] = ()) -> None:
        self._ids = ids
        self._stopping = stopping
        self._restarted = restarted

    def is_online(self, broker_id: int, topic_partition: TopicPartition) -> bool:
        return self.is_reachable(broker_id, topic_partition) and broker_id not in self._stopping

    def is_reachable(self, broker_id: int, _: TopicPartition) -> bool:
        return broker_id in self._ids

    def broker_epoch(self, broker_id: int) -> int:
        return -1 if broker_id not in self._ids else 200 + broker_id

    def unclean_start_epoch(self, broker_id: int) -> int:
        if broker_id not in self._ids:
            return -1
        return 200 + broker_id if broker_id in self._restarted else 100 + broker_id


def online(*ids: int) -> Registered:
    return Registered(ids)


def show(plan: Plan) -> str:
    if plan is None:
        return "stays"
    if isinstance(plan, Refused):
        return plan.code.name
    assert (plan.leader_epoch, plan.zk_version, plan.controller_epoch) == (8, 4, 5)
    return f"{plan.leader} {list(plan.isr)}"


NOBODY = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE.name


@pytest.mark.parametrize(
    ("before", "alive", "unclean", "expected"),
    [
        (state(1, (1, 2, 3)), (1, 2, 3), False, "stays"),
        (state(1, (1, 2, 3)), (2, 3), False, "2 [2, 3]"),
        (state(1, (3, 1)), (2, 3), False, "3 [3, 1]"),
        (state(1, (1,)), (2, 3), False, NOBODY),
        (state(1, (1,)), (2, 3), True, "2 [2]"),
        (state(1, (1, 3)), (2, 3), True, "3 [1, 3]"),
        (state(1, (1,)), (), True, NOBODY),
        (state(-1, (2,)), (2,), False, "2 [2]"),
    ],
)
def test_offline(before: LeaderAndIsr, alive: tuple[int, ...], unclean: bool, expected: str) -> None:
    assert show(elections.elect_offline(online(*alive), 5, unclean)(before)) == expected


@pytest.mark.parametrize(
    ("before", "alive", "expected"),
    [
        (state(2, (2, 1)), (1, 2, 3), "1 [2, 1]"),
        (state(1, (2, 1)), (1, 2, 3), "stays"),
        (state(2, (2, 3)), (1, 2, 3), "PREFERRED_LEADER_NOT_AVAILABLE"),
        (state(2, (2, 1)), (2, 3), "PREFERRED_LEADER_NOT_AVAILABLE"),
    ],
)
def test_preferred(before: LeaderAndIsr, alive: tuple[int, ...], expected: str) -> None:
    assert show(elections.elect_preferred(online(*alive), 5)(before)) == expected


@pytest.mark.parametrize(
    ("before", "alive", "expected"),
    [
        (state(1, (1, 2, 3), (2, 3)), (1, 2, 3), "2 [2, 3]"),
        (state(3, (1, 2, 3), (2, 3)), (1, 2, 3), "3 [2, 3]"),
        (state(2, (1, 2, 3), (2, 3)), (1, 3), "3 [2, 3]"),
        (state(1, (1, 2), (3,)), (1, 2, 3), NOBODY),
    ],
)
def test_reassignment_completed(before: LeaderAndIsr, alive: tuple[int, ...], expected: str) -> None:
    assert show(elections.elect_for_reassignment(online(*alive), 5)(before)) == expected


@pytest.mark.parametrize(
    ("before", "alive", "expected"),
    [
        (state(1, (1, 2), (3, 1, 2), adding=(3,)), (1, 2, 3), "1 [1, 2]"),
        (state(3, (3, 1), (1, 2)), (1, 2, 3), "1 [1]"),
        (state(3, (3, 1), (1, 2)), (2, 3), "-1 [1]"),
        (state(3, (3,), (1, 2)), (1, 2, 3), "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_reassignment_begun(before: LeaderAndIsr, alive: tuple[int, ...], expected: str) -> None:
    assert show(elections.reassign(online(*alive), 5)(before)) == expected


@pytest.mark.parametrize(
    ("before", "stopping", "expected"),
    [
        (state(1, (1, 2, 3)), {1}, "2 [2, 3]"),
        (state(1, (1, 2, 3)), {1, 2}, "3 [1, 2, 3]"),
        (state(1, (1,)), {1}, NOBODY),
        (state(2, (1, 2, 3)), {1}, "2 [2, 3]"),
        (state(2, (2, 3)), {1}, "stays"),
        (state(1, (1, 2)), {1}, "2 [1, 2]"),
        (state(1, (1, 2)), {2}, "stays"),
    ],
)
def test_controlled_shutdown(before: LeaderAndIsr, stopping: set[int], expected: str) -> None:
    assert show(elections.move_off(online(1, 2, 3), 5, stopping)(before)) == expected


@pytest.mark.parametrize(
    ("before", "alive", "stopping", "expected"),
    [
        (state(1, (1, 2, 3)), (1, 2, 3), (), "stays"),
        (state(1, (1, 2, 3)), (1, 3), (), "1 [1, 3]"),
        (state(1, (1, 2, 3)), (2, 3), (), "2 [2, 3]"),
        (state(1, (1, 2)), (3,), (), "-1 [1, 2]"),
        (state(1, (1, 2)), (1,), (), "stays"),
        (state(1, (1, 2)), (2,), (), "2 [1, 2]"),
        (state(1, (1, 2, 3)), (2,), (), "2 [1, 2, 3]"),
        (state(-1, (1,)), (3,), (), "stays"),
        (state(1, (1,)), (2, 3), (), "-1 [1]"),
        (state(1, (1, 2, 3)), (1, 3), (1,), "1 [1, 3]"),
        (state(2, (1, 2, 3)), (1, 3), (1,), "3 [1, 2, 3]"),
        (state(1, (1, 3), (1, 2)), (1, 2, 3), (), "1 [1]"),
    ],
)
def test_drop_replicas(before: LeaderAndIsr, alive: tuple[int, ...], stopping: tuple[int, ...], expected: str) -> None:
    plan = elections.drop_replicas(Registered(alive, stopping), 5)
    assert show(plan(before)) == expected


def test_first_state() -> None:
    first = elections.first_state(TP, PartitionAssignment((3, 1, 2)), online(1, 2), 5)
    assert isinstance(first, LeaderAndIsr)
    assert (first.leader, first.isr, first.leader_epoch, first.zk_version) == (1, (1, 2), 0, 0)
    assert isinstance(elections.first_state(TP, PartitionAssignment((3,)), online(1), 5), Refused)


def test_partition_transitions() -> None:
    legal = {
        f"{before.name} {after.name}"
        for after, predecessors in partition_states.LEGAL_PREDECESSORS.items()
        for before in predecessors
    }
    assert legal == {
        "NON_EXISTENT NEW",
        "NEW ONLINE",
        "ONLINE ONLINE",
        "OFFLINE ONLINE",
        "NEW OFFLINE",
        "ONLINE OFFLINE",
        "OFFLINE OFFLINE",
        "OFFLINE NON_EXISTENT",
    }
    with pytest.raises(
        IllegalPartitionTransitionError, match="t-0 cannot go from OnlinePartition to NonExistentPartition"
    ):
        partition_states.check_partition_transition(TP, PartitionState.ONLINE, PartitionState.NON_EXISTENT)


@pytest.mark.parametrize("after", list(ReplicaState))
@pytest.mark.parametrize("before", list(ReplicaState))
def test_replica_transitions(before: ReplicaState, after: ReplicaState) -> None:
    if before in replica_states.LEGAL_PREDECESSORS[after]:
        replica_states.check_replica_transition("r", before, after)
    else:
        with pytest.raises(IllegalPartitionTransitionError):
            replica_states.check_replica_transition("r", before, after)
