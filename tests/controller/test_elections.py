"""The rules of election, and the tables of legal transitions."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kafkalite.cluster.model import Broker, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.controller import elections, states
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.elections import Plan, Refused
from kafkalite.controller.states import IllegalPartitionTransitionError, PartitionState, ReplicaState

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


def registered(
    ids: Collection[int], stopping: Collection[int] = (), restarted: Collection[int] = ()
) -> ControllerContext:
    """Brokers that are registered with an epoch, those in ``restarted`` after an unclean start with that epoch."""
    brokers = {id_: Broker(id_, (), None, 200 + id_, (200 if id_ in restarted else 100) + id_) for id_ in ids}
    return ControllerContext(brokers, dict.fromkeys(stopping, 0))


def online(*ids: int) -> ControllerContext:
    return registered(ids)


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
        (state(2, (2, 3), (2, 3)), (1,), NOBODY),
        (state(1, (1, 2), (3,)), (1, 2, 3), "INVALID_REPLICA_ASSIGNMENT"),
        (state(1, (1, 2), (1, 3)), (1, 2, 3), "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_reassignment_completed(before: LeaderAndIsr, alive: tuple[int, ...], expected: str) -> None:
    assert show(elections.elect_for_reassignment(online(*alive), 5, ())(before)) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (state(1, (1, 2, 3), (2, 3)), "2 [2, 3]"),
        (state(2, (3, 2), (2, 3)), "2 [3, 2]"),
        (state(1, (1, 3), (2, 3)), "REASSIGNMENT_IN_PROGRESS"),
        (state(3, (3,), (2, 3)), "REASSIGNMENT_IN_PROGRESS"),
    ],
)
def test_replicas_are_removed_only_while_the_whole_target_is_in_sync(before: LeaderAndIsr, expected: str) -> None:
    plan = elections.elect_for_reassignment(online(1, 2, 3), 5, {before.topic_partition})
    assert show(plan(before)) == expected


@pytest.mark.parametrize(
    ("before", "alive", "expected"),
    [
        (state(1, (1, 2), (3, 1, 2), adding=(3,)), (1, 2, 3), "1 [1, 2]"),
        (state(3, (3, 1, 2), (1, 2)), (1, 2, 3), "1 [1, 2]"),
        (state(3, (3, 1, 2), (1, 2)), (3,), "-1 [1, 2]"),
        (state(3, (3, 1), (1, 2)), (1, 2, 3), "INVALID_REPLICA_ASSIGNMENT"),
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
    plan = elections.drop_replicas(registered(alive, stopping), 5)
    assert show(plan(before)) == expected


def test_first_state() -> None:
    first = elections.first_state(TP, PartitionAssignment((3, 1, 2)), online(1, 2), 5)
    assert isinstance(first, LeaderAndIsr)
    assert (first.leader, first.isr, first.leader_epoch, first.zk_version) == (1, (1, 2), 0, 0)
    assert isinstance(elections.first_state(TP, PartitionAssignment((3,)), online(1), 5), Refused)


def test_partition_transitions() -> None:
    legal = {
        f"{before.name} {after.name}"
        for after, predecessors in states.LEGAL_PREDECESSORS.items()
        if isinstance(after, PartitionState)
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
        states.check_transition(f"partition {TP}", PartitionState.ONLINE, PartitionState.NON_EXISTENT)


@pytest.mark.parametrize("after", list(ReplicaState))
@pytest.mark.parametrize("before", list(ReplicaState))
def test_replica_transitions(before: ReplicaState, after: ReplicaState) -> None:
    if before in states.LEGAL_PREDECESSORS[after]:
        states.check_transition("replica r", before, after)
    else:
        with pytest.raises(IllegalPartitionTransitionError):
            states.check_transition("replica r", before, after)


@pytest.mark.parametrize(
    ("isr", "leader", "after", "unclean"),
    [((1, 2), 2, (2,), False), ((1,), 2, (2,), True), ((1, 2), -1, (1, 2), False), ((1, 2), 1, (1,), False)],
)
def test_an_unclean_election_is_one_of_a_replica_outside_the_isr(
    isr: tuple[int, ...], leader: int, after: tuple[int, ...], unclean: bool
) -> None:
    before = LeaderAndIsr("t", 0, leader=1, leader_epoch=3, isr=isr, assignment=PartitionAssignment((1, 2, 3)))
    assert elections.is_unclean(before, before.with_(leader=leader, isr=after), ControllerContext()) is unclean
