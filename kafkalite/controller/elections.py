"""Every rule of leader election, and which ISR follows from it, as pure functions.

Answers to: ``kafka.controller.{PartitionLeaderElectionAlgorithms,Election}``. Pure.

A *planner* takes a partition's present state and returns the state to be written, ``None`` where nothing has to
change, or :class:`Refused` where no replica can lead. Each written state has a leader epoch one higher.

A member of the ISR *may lack records* where its broker started uncleanly since it was last known to be in sync: the
broker may have lost power, and with it the end of its log. Such a member leaves the ISR as soon as a member that has
all records is registered. While every registered member may lack records, the partition waits for those that are gone,
because one of them may have all records. Once all of them are back and none surely has all records, the old leader
leads again. So an acknowledged record is lost only where every member of the ISR started uncleanly.

The last member that is registered may be dead all the same: its machine lost power, and its session has not ended yet.
So the controller does not take the others out of the ISR where a single member would remain. A leader that lives does
so itself, as soon as it learns that they are gone (``replication/isr_updates``).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import NO_LEADER, ZERO_UUID, TopicPartition
from kafkalite.controller.controller_context import ControllerContext

UNKNOWN_START = 0
"""Recorded for a member of the ISR that may lack records; no broker has it as its unclean start epoch."""


@dataclass(frozen=True, slots=True)
class Refused:
    """No leader could be elected, or another controller wrote the state; ``why`` is for logs and error messages."""

    code: ErrorCode
    why: str


Plan = LeaderAndIsr | Refused | None
Planner = Callable[[LeaderAndIsr], Plan]


# The four elections


def offline_leader(
    assignment: Sequence[int], isr: Collection[int], online: Collection[int], unclean: bool
) -> tuple[int, bool] | None:
    """The first online replica in the ISR; else, where ``unclean``, the first online one (and ``True``)."""
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


def may_lack_records(state: LeaderAndIsr, replica: int, brokers: ControllerContext) -> bool:
    """Whether the broker of a member of the ISR is registered and started uncleanly since the member was in sync.

    If the state does not record that unclean start epoch, because Kafka wrote it, an unclean start after the write of
    the state counts. False for a broker that is not registered, because its start is not known.
    """
    started = brokers.unclean_start_epoch(replica)
    if started < 0:
        return False
    recorded = dict(state.unclean_start_epochs).get(replica)
    return 0 <= state.mzxid < started if recorded is None else started != recorded


def complete_isr(state: LeaderAndIsr, brokers: ControllerContext) -> tuple[int, ...]:
    """The members of the ISR except those that may lack records."""
    return tuple(replica for replica in state.isr if not may_lack_records(state, replica, brokers))


def advance(
    state: LeaderAndIsr, controller_epoch: int, leader: int, isr: Sequence[int], brokers: ControllerContext
) -> LeaderAndIsr:
    """The state that follows ``state``: leader epoch one higher, ``zk_version`` still that of the znode as read.

    The recorded unclean start epochs stay, except the leader's, recorded again because its log counts from now
    on.
    """
    assert leader == NO_LEADER or leader in isr, f"leader {leader} of {state.topic_partition} is not in its ISR {isr}"
    return LeaderAndIsr(
        topic=state.topic,
        partition=state.partition,
        topic_id=state.topic_id,
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=tuple(isr),
        controller_epoch=controller_epoch,
        zk_version=state.zk_version,
        assignment=state.assignment,
        unclean_start_epochs=_record(state, leader, isr, brokers),
    )


def _record(
    state: LeaderAndIsr, leader: int, isr: Sequence[int], brokers: ControllerContext
) -> tuple[tuple[int, int], ...]:
    epochs = dict(state.unclean_start_epochs)
    for replica in isr:
        started = brokers.unclean_start_epoch(replica)
        if started < 0 or (replica in epochs and replica != leader):
            continue
        lacking = replica != leader and may_lack_records(state, replica, brokers)
        epochs[replica] = UNKNOWN_START if lacking else started
    return tuple((replica, epochs[replica]) for replica in isr if replica in epochs)


def first_state(
    tp: TopicPartition,
    assignment: PartitionAssignment,
    brokers: ControllerContext,
    controller_epoch: int,
    topic_id: uuid.UUID = ZERO_UUID,
) -> LeaderAndIsr | Refused:
    """The state of a partition that never had one: all online replicas in sync, the first of them leads."""
    online = tuple(replica for replica in assignment.replicas if brokers.is_online(replica, tp))
    if not online:
        return Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"none of the replicas {list(assignment.replicas)} is online")
    return LeaderAndIsr(
        topic=tp.topic,
        partition=tp.partition,
        topic_id=topic_id,
        leader=online[0],
        leader_epoch=0,
        isr=online,
        controller_epoch=controller_epoch,
        zk_version=0,
        assignment=assignment,
        unclean_start_epochs=tuple((replica, brokers.unclean_start_epoch(replica)) for replica in online),
    )


def elect_offline(brokers: ControllerContext, controller_epoch: int, unclean: bool = False) -> Planner:
    """Plan for partitions whose leader is gone. A partition with an online leader is left alone."""

    def plan(state: LeaderAndIsr) -> Plan:
        if state.leader in _online(state, brokers):
            return None
        return _elect(state, brokers, controller_epoch, unclean)

    return plan


def _elect(
    state: LeaderAndIsr, brokers: ControllerContext, controller_epoch: int, unclean: bool
) -> LeaderAndIsr | Refused:
    """Elect a leader that has all records; else, where all of the ISR are back, or ``unclean``, the best one online."""
    online = _online(state, brokers)
    complete = complete_isr(state, brokers)
    elected = offline_leader(state.replicas, complete, online, False)
    if elected is None and (unclean or (not complete and _all_back(state, brokers))):
        back = [replica for replica in (state.leader, *state.replicas) if replica in online and replica in state.isr]
        elected = (back[0], True) if back else offline_leader(state.replicas, (), online, unclean)
    if elected is None:
        lacking = [replica for replica in state.isr if replica in online and replica not in complete]
        return Refused(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"no replica in the ISR {list(state.isr)} is online and has all records (online: {sorted(online)}; may "
            f"lack records after an unclean start: {lacking})",
        )
    leader, was_unclean = elected
    if was_unclean:
        return advance(state, controller_epoch, leader, (leader,), brokers)
    isr = _not_left_alone(state, [replica for replica in complete if replica in online], brokers)
    return advance(state, controller_epoch, leader, isr, brokers)


def is_unclean(before: LeaderAndIsr, after: LeaderAndIsr, brokers: ControllerContext) -> bool:
    """Whether the leader of ``after`` was elected although it may lack records."""
    if after.leader < 0 or after.leader == before.leader:
        return False
    alone = after.isr == (after.leader,)
    return after.leader not in (complete_isr(before, brokers) if alone else before.isr)


def _not_left_alone(state: LeaderAndIsr, isr: Sequence[int], brokers: ControllerContext) -> tuple[int, ...]:
    """``isr``; a single member is kept together with absent members of the ISR that may have all records."""
    if len(isr) != 1:
        return tuple(isr)
    return tuple(
        replica
        for replica in complete_isr(state, brokers)
        if replica in isr
        or (
            replica in state.replicas
            and (brokers.broker_epoch(replica) < 0 or brokers.is_reachable(replica, state.topic_partition))
        )
    )


def elect_preferred(brokers: ControllerContext, controller_epoch: int) -> Planner:
    """Plan that gives leadership back to the first replica of the assignment; the ISR stays."""

    def plan(state: LeaderAndIsr) -> Plan:
        if state.leader == state.replicas[0] and brokers.is_online(state.leader, state.topic_partition):
            return None
        leader = preferred_leader(state.replicas, complete_isr(state, brokers), _online(state, brokers))
        if leader is None:
            return Refused(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"preferred leader {state.replicas[0]} is offline or not in the ISR {list(state.isr)}",
            )
        return advance(state, controller_epoch, leader, state.isr, brokers)

    return plan


def is_in_sync(target: Collection[int], state: LeaderAndIsr) -> bool:
    """Whether every replica of the target is in the ISR, so that the reassignment may complete."""
    return set(target) <= set(state.isr)


def elect_for_reassignment(
    brokers: ControllerContext, controller_epoch: int, reassigned: Collection[TopicPartition]
) -> Planner:
    """Plan that completes a reassignment in one write: leader in the target, removed replicas out of the ISR.

    The assignment in the state is the final one already. ``reassigned`` are the partitions whose replicas change. They
    are refused where a target replica is not in the ISR of the state that is replaced, because the leader may have
    taken it out after the controller looked, and the logs of the removed replicas are deleted. Other partitions, whose
    reassignment is cancelled or changes only the order of replicas, do not wait for their ISR; they are refused where
    the cancellation :func:`loses_records`.

    The present leader stays if it can. Its epoch is raised nevertheless, so that every replica learns of the new
    assignment under a new leader epoch.
    """

    def plan(state: LeaderAndIsr) -> Plan:
        online = _online(state, brokers)
        target = state.replicas
        if state.topic_partition in reassigned:
            if not is_in_sync(target, state):
                return Refused(
                    ErrorCode.REASSIGNMENT_IN_PROGRESS,
                    f"not all target replicas {list(target)} are in the ISR {list(state.isr)}",
                )
        elif why := loses_records(state, state.assignment, brokers):
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        leader: int | None = state.leader
        if leader not in target or leader not in online:
            leader = reassign_leader(target, complete_isr(state, brokers), online)
        if leader is None:
            return Refused(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"no target replica of {list(target)} is online and in the ISR {list(state.isr)}",
            )
        isr = tuple(replica for replica in state.isr if replica in target)
        return advance(state, controller_epoch, leader, isr, brokers)

    return plan


def move_off(brokers: ControllerContext, controller_epoch: int, shutting_down: Collection[int]) -> Planner:
    """Plan for a controlled shutdown: brokers that are about to stop do not lead, and leave ISRs of three or more.

    From an ISR of two the leader takes such a broker when its registration is gone.
    """

    def plan(state: LeaderAndIsr) -> Plan:
        isr = tuple(replica for replica in state.isr if replica not in shutting_down)
        complete = complete_isr(state, brokers)
        isr = _not_left_alone(state, isr, brokers)
        if state.leader not in shutting_down:
            # The broker only follows: it leaves the ISR, unless it is the last member that has all records.
            if isr == state.isr or not set(isr) & set(complete):
                return None
            return advance(state, controller_epoch, state.leader, isr, brokers)
        reachable = {r for r in state.replicas if brokers.is_reachable(r, state.topic_partition)}
        leader = controlled_shutdown_leader(state.replicas, complete, reachable, shutting_down)
        if leader is None:
            return Refused(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no other replica in the ISR {list(state.isr)} is online"
            )
        return advance(state, controller_epoch, leader, isr, brokers)

    return plan


def drop_replicas(brokers: ControllerContext, controller_epoch: int, registered_anew: Collection[int] = ()) -> Planner:
    """Plan for replicas that went offline or may lack records: they leave the ISR, and cease to lead.

    A broker that is not reachable, or that holds no replica any more, is gone (a broker that is about to stop still
    serves, but is not elected). If no present member surely has all records, the partition is left without a leader and
    the ISR unchanged: the first absent member that returns with all records leads.

    A leader that registered after the state was written (``registered_anew`` are known to have) leads on under a new
    leader epoch, because it ceased to lead at the end of its session.
    """

    def plan(state: LeaderAndIsr) -> Plan:
        tp = state.topic_partition
        held = [replica for replica in state.isr if replica in state.replicas]
        complete = complete_isr(state, brokers)
        kept = [r for r in held if r in complete and brokers.is_reachable(r, tp)]
        leader = state.leader if state.leader in kept else NO_LEADER
        if leader == NO_LEADER:
            elected = _elect(state, brokers, controller_epoch, unclean=False)
            if isinstance(elected, LeaderAndIsr):
                return elected
        is_renewed = leader in registered_anew or 0 <= state.mzxid < brokers.broker_epoch(leader)
        kept = list(_not_left_alone(state, kept, brokers)) or held or list(state.isr[-1:])
        if leader == state.leader and tuple(kept) == state.isr and not is_renewed:
            return None
        return advance(state, controller_epoch, leader, kept, brokers)

    return plan


def reassign(brokers: ControllerContext, controller_epoch: int) -> Planner:
    """Plan for a reassignment that begins or changes: a new leader epoch, and removed replicas leave the ISR.

    The assignment in the state is the new one already. The leader stays unless its replica was removed. Refused where
    the change :func:`loses_records`.
    """

    def plan(state: LeaderAndIsr) -> Plan:
        if why := loses_records(state, state.assignment, brokers):
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        isr = tuple(replica for replica in state.isr if replica in state.replicas)
        leader: int | None = state.leader
        if leader not in isr:
            leader = reassign_leader(state.replicas, complete_isr(state, brokers), _online(state, brokers))
        return advance(state, controller_epoch, NO_LEADER if leader is None else leader, isr, brokers)

    return plan


def loses_records(state: LeaderAndIsr, assignment: PartitionAssignment, brokers: ControllerContext) -> str:
    """Why a change to ``assignment`` may lose acknowledged records, empty if it cannot.

    Adding replicas that a changed or cancelled reassignment no longer wants leave the ISR at once. So no member may
    have all records afterwards, or a single one, which may be dead all the same.
    """
    complete = complete_isr(state, brokers)
    surviving = [replica for replica in complete if replica in assignment.replicas]
    if not surviving:
        return f"No replica in the ISR {list(state.isr)} is among the replicas {list(assignment.replicas)}."
    leaving = [replica for replica in complete if replica not in surviving]
    if leaving and len(surviving) == 1:
        return (
            f"Without the replicas {leaving}, the ISR {list(state.isr)} would have a single member, and acknowledged "
            f"records would be lost if the machine of broker {surviving[0]} has just failed: ask again when another of "
            f"the replicas {list(assignment.replicas)} is in sync."
        )
    return ""


def _online(state: LeaderAndIsr, brokers: ControllerContext) -> set[int]:
    tp = state.topic_partition
    return {replica for replica in state.replicas if brokers.is_online(replica, tp)}


def _all_back(state: LeaderAndIsr, brokers: ControllerContext) -> bool:
    """Whether every member of the ISR that holds a replica can be reached."""
    tp = state.topic_partition
    return all(brokers.is_reachable(r, tp) for r in state.isr if r in state.replicas)
