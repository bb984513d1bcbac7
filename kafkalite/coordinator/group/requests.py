"""What members ask of a group besides joining it: SyncGroup, Heartbeat, LeaveGroup, and whether they may commit.

Answers to: ``kafka.coordinator.group.GroupCoordinator`` (``validateCurrentMember``, ``doSyncGroup``,
``handleHeartbeat``, ``handleLeaveGroup``, ``validateOffsetCommit``). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.effects import Synced, Ticket
from kafkalite.coordinator.group.group_metadata import GroupMetadata
from kafkalite.coordinator.group.persistence import store_assignment
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import (
    UNKNOWN_MEMBER,
    HeartbeatRequest,
    LeaveAnswer,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)


def check_member(group: GroupMetadata, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether that is a member, and (for a static one) the member that holds the instance now."""
    if instance_id is not None:
        current = group.members.static_id(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def _check_generation(group: GroupMetadata, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = check_member(group, member_id, instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def sync(group: GroupMetadata, ticket: Ticket, request: SyncRequest, now: float) -> None:
    """``request``, which waits as ``ticket``, wants its assignment, or brings everybody's."""
    error = _check_sync(group, request)
    if error is not ErrorCode.NONE:
        group.emit(Synced(ticket, SyncAnswer(error)))
        return
    member = group.members[request.member_id]
    group.sync_received(member)
    if group.state is GroupState.STABLE:
        group.emit(Synced(ticket, group.synced(member)))
        group.touch(member, now)
        return
    group.answer_sync(member, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync = ticket
    if member.member_id == group.members.leader:
        store_assignment(group, request.assignments)


def _check_sync(group: GroupMetadata, request: SyncRequest) -> ErrorCode:
    error = _check_generation(group, request.member_id, request.instance_id, request.generation)
    if error is not ErrorCode.NONE:
        return error
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol is not None and request.protocol != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def heartbeat(group: GroupMetadata, request: HeartbeatRequest, now: float) -> ErrorCode:
    """A member lives; REBALANCE_IN_PROGRESS tells it to join again."""
    error = _check_generation(group, request.member_id, request.instance_id, request.generation)
    if error is not ErrorCode.NONE:
        return error
    group.touch(group.members[request.member_id], now)
    # Between its JoinGroup and its SyncGroup a member may send heartbeats already: those are in order.
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else ErrorCode.NONE


def leave(group: GroupMetadata, members: Sequence[LeavingMember], now: float) -> LeaveAnswer:
    """Members leave, or are removed by an administrator, who names a static instance alone."""
    if group.state is GroupState.DEAD:
        return LeaveAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return LeaveAnswer(ErrorCode.NONE, tuple((member, _leave(group, member, now)) for member in members))


def _leave(group: GroupMetadata, leaving: LeavingMember, now: float) -> ErrorCode:
    member_id = leaving.member_id
    if member_id == UNKNOWN_MEMBER:
        member_id = group.members.static_id(leaving.instance_id) or "" if leaving.instance_id is not None else ""
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.members.pending:
        group.remove_pending(member_id, now)
        return ErrorCode.NONE
    else:
        error = check_member(group, member_id, leaving.instance_id)
        if error is not ErrorCode.NONE:
            return error
    reason = leaving.reason or "no reason given"
    group.remove_member(group.members[member_id], f"it leaves ({reason})", now)
    return ErrorCode.NONE


def check_commit(
    group: GroupMetadata,
    member_id: str,
    generation: int,
    instance_id: str | None,
    now: float,
    *,
    transactional: bool = False,
) -> ErrorCode:
    """Whether offsets may be committed in this member's name; a commit of a member counts as a heartbeat."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        # Somebody who uses the group for its offsets alone, or an administrator.
        return ErrorCode.NONE
    if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
        error = _check_generation(group, member_id, instance_id, generation)
        if error is not ErrorCode.NONE or transactional:
            return error
    elif transactional:
        # Older versions of TxnOffsetCommit do not say who commits.
        return ErrorCode.NONE
    elif group.state is not GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.COMPLETING_REBALANCE:
        # It knows the new generation by its JoinGroup, but not yet what it is to read.
        return ErrorCode.REBALANCE_IN_PROGRESS
    member = group.members.get(member_id)
    if member is not None:
        group.touch(member, now)
    return ErrorCode.NONE
