"""Who is to lead, and who is in sync after that: every rule for it, as pure functions.

Answers to: ``kafka.controller.{PartitionLeaderElectionAlgorithms,Election}``. Pure.

A *planner* takes a partition's present state and answers with the state to be written, with ``None`` where all is as
it should be, or with :class:`Refused` where nobody can lead. Each written state has a leader epoch one higher.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kafkalite.cluster.model import PartitionAssignment, PartitionState
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import NO_LEADER, ZERO_UUID, TopicPartition

IsOnline = Callable[[int, TopicPartition], bool]
"""Whether a replica can serve: its broker lives, is not shutting down, and the replica's log directory works."""


@dataclass(frozen=True, slots=True)
class Refused:
    """No leader could be elected (or the partition changed hands); ``why`` is for people."""

    code: ErrorCode
    why: str


Plan = PartitionState | Refused | None
Planner = Callable[[PartitionState], Plan]


# The four elections


def offline_leader(
    assignment: Sequence[int], isr: Collection[int], online: Collection[int], unclean: bool
) -> tuple[int, bool] | None:
    """The first online replica in the ISR; else, where ``unclean``, the first online one at all (second: was it so)."""
    for replica in assignment:
        if replica in online and replica in isr:
            return replica, False
    if unclean:
        for replica in assignment:
            if replica in online:
                return replica, True
    return None


def reassign_leader(target: Sequence[int], isr: Collection[int], online: Collection[int]) -> int | None:
    """The first of the target replicas that is online and in the ISR."""
    return next((replica for replica in target if replica in online and replica in isr), None)


def preferred_leader(assignment: Sequence[int], isr: Collection[int], online: Collection[int]) -> int | None:
    """The first replica of the assignment, if it is online and in the ISR."""
    return reassign_leader(assignment[:1], isr, online)


def controlled_shutdown_leader(
    assignment: Sequence[int], isr: Collection[int], online: Collection[int], shutting_down: Collection[int]
) -> int | None:
    """The first replica that is online, in the ISR and not about to stop."""
    return next((r for r in assignment if r in online and r in isr and r not in shutting_down), None)


# Planners


def advance(state: PartitionState, controller_epoch: int, leader: int, isr: Sequence[int]) -> PartitionState:
    """The state that follows ``state``: leader epoch one higher, ``zk_version`` still that of the znode as read."""
    assert leader == NO_LEADER or leader in isr, f"leader {leader} of {state.topic_partition} is not in its ISR {isr}"
    return PartitionState(
        topic=state.topic,
        partition=state.partition,
        topic_id=state.topic_id,
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=tuple(isr),
        controller_epoch=controller_epoch,
        zk_version=state.zk_version,
        assignment=state.assignment,
    )


def first_state(
    topic_partition: TopicPartition,
    assignment: PartitionAssignment,
    is_online: IsOnline,
    controller_epoch: int,
    topic_id: uuid.UUID = ZERO_UUID,
) -> PartitionState | Refused:
    """The state of a partition that never had one: all online replicas in sync, the first of them leads."""
    online = tuple(replica for replica in assignment.replicas if is_online(replica, topic_partition))
    if not online:
        return Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"none of the replicas {list(assignment.replicas)} is online")
    return PartitionState(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        topic_id=topic_id,
        leader=online[0],
        leader_epoch=0,
        isr=online,
        controller_epoch=controller_epoch,
        zk_version=0,
        assignment=assignment,
    )


def elect_offline(is_online: IsOnline, controller_epoch: int, unclean: bool = False) -> Planner:
    """Plan for partitions whose leader is gone. A partition with an online leader is left alone."""

    def plan(state: PartitionState) -> Plan:
        online = _online(state, is_online)
        if state.leader in online:
            return None
        elected = offline_leader(state.replicas, state.isr, online, unclean)
        if elected is None:
            return Refused(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"no replica in the ISR {list(state.isr)} is online (online: {sorted(online)})",
            )
        leader, was_unclean = elected
        isr = (leader,) if was_unclean else tuple(replica for replica in state.isr if replica in online)
        return advance(state, controller_epoch, leader, isr)

    return plan


def elect_preferred(is_online: IsOnline, controller_epoch: int) -> Planner:
    """Plan that gives leadership back to the first replica of the assignment; the ISR stays."""

    def plan(state: PartitionState) -> Plan:
        if state.leader == state.replicas[0] and is_online(state.leader, state.topic_partition):
            return None
        leader = preferred_leader(state.replicas, state.isr, _online(state, is_online))
        if leader is None:
            return Refused(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"preferred leader {state.replicas[0]} is offline or not in the ISR {list(state.isr)}",
            )
        return advance(state, controller_epoch, leader, state.isr)

    return plan


def elect_for_reassignment(is_online: IsOnline, controller_epoch: int) -> Planner:
    """Plan that completes a reassignment in one write: leader in the target, removed replicas out of the ISR.

    The assignment in the state is the final one already.

    The present leader stays where it can; its epoch is raised all the same, so that every replica learns of the new
    assignment under an epoch of its own.
    """

    def plan(state: PartitionState) -> Plan:
        online = _online(state, is_online)
        target = state.replicas
        leader: int | None = state.leader
        if leader not in target or leader not in online:
            leader = reassign_leader(target, state.isr, online)
        if leader is None:
            return Refused(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"no target replica of {list(target)} is online and in the ISR {list(state.isr)}",
            )
        isr = tuple(replica for replica in state.isr if replica in target)
        return advance(state, controller_epoch, leader, isr)

    return plan


def move_off(is_online: IsOnline, controller_epoch: int, shutting_down: Collection[int]) -> Planner:
    """Plan for a controlled shutdown: those who are about to stop neither lead nor stay in the ISR.

    ``is_online`` is asked of the brokers that are shutting down as well: they still serve.
    """

    def plan(state: PartitionState) -> Plan:
        isr = tuple(replica for replica in state.isr if replica not in shutting_down)
        if state.leader not in shutting_down:
            # A follower only: its ISR entry goes, unless it is the last one.
            if isr == state.isr or not isr:
                return None
            return advance(state, controller_epoch, state.leader, isr)
        online = _online(state, is_online)
        leader = controlled_shutdown_leader(state.replicas, state.isr, online, shutting_down)
        if leader is None:
            return Refused(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"no other replica in the ISR {list(state.isr)} is online",
            )
        return advance(state, controller_epoch, leader, isr)

    return plan


def drop_replicas(is_online: IsOnline, is_reachable: IsOnline, controller_epoch: int) -> Planner:
    """Plan for replicas that went offline: elect where the leader went, shrink the ISR where a follower went.

    Gone is who is not ``is_reachable`` (a broker that is about to stop still serves, but is not elected) or holds no
    replica any more. Where nobody can lead, the partition is left without a leader, and the last member of its ISR
    stays in it (the old leader, where that is one of them: nobody has more), because only that one may lead cleanly
    again.
    """
    elect = elect_offline(is_online, controller_epoch)

    def plan(state: PartitionState) -> Plan:
        topic_partition = state.topic_partition
        kept = [r for r in state.isr if r in state.replicas and is_reachable(r, topic_partition)]
        leader = state.leader if state.leader in kept else NO_LEADER
        if leader == NO_LEADER:
            elected = elect(state)
            if isinstance(elected, PartitionState):
                return elected
        if not kept and state.isr:
            kept = [state.leader if state.leader in state.isr else state.isr[-1]]
        if leader == state.leader and tuple(kept) == state.isr:
            return None
        return advance(state, controller_epoch, leader, kept)

    return plan


def reassign(is_online: IsOnline, controller_epoch: int) -> Planner:
    """Plan for a reassignment that begins or changes: a new leader epoch, and whoever lost its replica leaves the ISR.

    The assignment in the state is the new one already. The leader stays unless its replica was taken away. Refused
    where nobody in the ISR would keep a replica: the data that was acknowledged would be gone.
    """

    def plan(state: PartitionState) -> Plan:
        isr = surviving_isr(state.isr, state.assignment)
        if not isr:
            return Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"no replica in the ISR {list(state.isr)} is among the new replicas {list(state.replicas)}",
            )
        leader: int | None = state.leader
        if leader not in isr:
            leader = reassign_leader(state.replicas, isr, _online(state, is_online))
        return advance(state, controller_epoch, NO_LEADER if leader is None else leader, isr)

    return plan


def surviving_isr(isr: Sequence[int], assignment: PartitionAssignment) -> tuple[int, ...]:
    """Who of the ISR holds a replica under ``assignment``."""
    return tuple(replica for replica in isr if replica in assignment.replicas)


def _online(state: PartitionState, is_online: IsOnline) -> set[int]:
    topic_partition = state.topic_partition
    return {replica for replica in state.replicas if is_online(replica, topic_partition)}
