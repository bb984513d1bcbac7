"""JoinGroup: who may become a member, who must come again with an id, who comes back.

Answers to: ``kafka.coordinator.group.GroupCoordinator.handleJoinGroup`` and what it calls. Pure.
"""

from __future__ import annotations

import logging

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.effects import Joined, Ticket
from kafkalite.coordinator.group.group_metadata import GroupMetadata
from kafkalite.coordinator.group.member_metadata import MemberMetadata
from kafkalite.coordinator.group.persistence import store_replacement
from kafkalite.coordinator.group.requests import check_member
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import UNKNOWN_MEMBER, JoinAnswer, JoinRequest

log = logging.getLogger(__name__)


def join(group: GroupMetadata, ticket: Ticket, request: JoinRequest, fresh_id: str, now: float) -> None:
    """``request``, which waits as ``ticket``, joins; ``fresh_id`` is its member id if it needs one."""
    error = _refusal(group, request)
    if error is not ErrorCode.NONE:
        # An id that was refused for want of room is forgotten, so that nobody is waited for in vain.
        if error is ErrorCode.GROUP_MAX_SIZE_REACHED:
            group.drop(request.member_id)
        _refuse(group, ticket, error, request)
    elif request.member_id == UNKNOWN_MEMBER:
        _join_anew(group, ticket, request, fresh_id, now)
    else:
        _join_again(group, ticket, request, now)
    group.try_complete_join(now)


def _refusal(group: GroupMetadata, request: JoinRequest) -> ErrorCode:
    """What holds for known and unknown members alike."""
    limits = group.limits
    if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if not _has_room_for(group, request.member_id):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not _speaks_with(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _has_room_for(group: GroupMetadata, member_id: str) -> bool:
    members, state = group.members, group.state
    if state is GroupState.PREPARING_REBALANCE:
        # Who has joined counts, not who is known: so a group that became too large sheds who comes last.
        # (Few groups are near the limit, and in a large one counting at each JoinGroup is what takes time.)
        if len(members) < group.limits.max_size:
            return True
        member = members.get(member_id)
        return (member is not None and member.join is not None) or members.joining < group.limits.max_size
    if state is GroupState.COMPLETING_REBALANCE or state is GroupState.STABLE:
        return member_id in members or len(members) < group.limits.max_size
    return True


def _speaks_with(group: GroupMetadata, request: JoinRequest) -> bool:
    names = [name for name, _ in request.protocols]
    if group.state is GroupState.EMPTY:
        return bool(request.protocol_type and names)
    return group.protocol_type == request.protocol_type and group.members.supports_any(names)


def _refuse(group: GroupMetadata, ticket: Ticket, error: ErrorCode, request: JoinRequest) -> None:
    member_id = UNKNOWN_MEMBER if error is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
    group.emit(Joined(ticket, JoinAnswer(error, member_id)))


def _join_anew(group: GroupMetadata, ticket: Ticket, request: JoinRequest, fresh_id: str, now: float) -> None:
    """Somebody without an id: new, or a static member that was restarted."""
    old_id = group.members.static_id(request.instance_id) if request.instance_id is not None else None
    if old_id is not None:
        _replace_static(group, ticket, request, old_id, fresh_id, now)
    elif request.instance_id is None and request.require_known_member_id:
        # So that a client whose answer is lost leaves an id behind and not a member (KIP-394).
        group.add_pending(fresh_id, request.session_timeout_ms, now)
        group.emit(Joined(ticket, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, fresh_id)))
    else:
        _add(group, ticket, request, fresh_id, now)


def _join_again(group: GroupMetadata, ticket: Ticket, request: JoinRequest, now: float) -> None:
    """Somebody with an id: it was given that just now, or it is a member."""
    if request.member_id in group.members.pending and request.instance_id is None:
        _add(group, ticket, request, request.member_id, now)
        return
    error = check_member(group, request.member_id, request.instance_id)
    if error is not ErrorCode.NONE or group.state is GroupState.EMPTY:
        group.emit(Joined(ticket, JoinAnswer(error or ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)))
        return
    member = group.members[request.member_id]
    leads = member.member_id == group.members.leader
    same = member.protocols == request.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and same:
        # The answer to its first request did not reach it.
        group.emit(Joined(ticket, group.joined(member.member_id, as_leader=leads)))
    elif group.state is GroupState.STABLE and same and not leads:
        group.emit(Joined(ticket, group.joined(member.member_id, as_leader=False)))
    else:
        # A leader that joins again has seen something that concerns the assignment: new partitions, for example.
        _wait(group, member, ticket)
        group.members.update(member, request.protocols, request.session_timeout_ms, request.rebalance_timeout_ms)
        group.prepare_rebalance(f"member {member.member_id} joins again ({_reason(request)})", now)


def _add(group: GroupMetadata, ticket: Ticket, request: JoinRequest, member_id: str, now: float) -> None:
    member = MemberMetadata(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
        join=ticket,
    )
    group.add_member(member, request.protocol_type, now)
    group.prepare_rebalance(f"member {member_id} joins ({_reason(request)})", now)


def _replace_static(
    group: GroupMetadata, ticket: Ticket, request: JoinRequest, old_id: str, new_id: str, now: float
) -> None:
    """A static member is back, or has a double: the older one is fenced, the newer one has its place (KIP-345)."""
    member = group.members[old_id]
    group.members.update(member, request.protocols, request.session_timeout_ms, request.rebalance_timeout_ms)
    group.replace_static(member, new_id, ticket, now)
    log.info("group %s: static member %s is now %s (it was %s)", group.name, request.instance_id, new_id, old_id)
    if group.state is GroupState.STABLE and group.members.select_protocol() == group.protocol:
        store_replacement(group, ticket, (old_id, new_id), skip_assignment=request.can_skip_assignment)
    else:
        # In CompletingRebalance the leader may be assigning to the old id at this moment.
        group.prepare_rebalance(f"static member {request.instance_id} came back ({_reason(request)})", now)


def _wait(group: GroupMetadata, member: MemberMetadata, ticket: Ticket) -> None:
    """``member`` waits in this JoinGroup; an earlier one of its own, which it has given up, is answered."""
    group.answer_join(member, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.join = ticket


def _reason(request: JoinRequest) -> str:
    return request.reason or "no reason given"
