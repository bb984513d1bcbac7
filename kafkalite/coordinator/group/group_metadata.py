"""One group: its state, members and generations. Requests and the time go in, answers and writes come out.

Answers to: ``kafka.coordinator.group.GroupMetadata``, ``kafka.coordinator.group.{DelayedHeartbeat,DelayedJoin,
InitialDelayedJoin,DelayedSync}`` (their expiry) and the rules of ``GroupCoordinator`` (``handleJoinGroup``,
``doSyncGroup``, ``handleHeartbeat``, ``handleLeaveGroup``, ``validateOffsetCommit``, ``prepareRebalance``,
``onCompleteJoin``, ``onGroupLoaded``) with ``ConsumerProtocol.deserializeSubscription``. Pure.

Times are monotonic seconds. After each call the caller carries out :meth:`GroupMetadata.take_effects`, and it calls
:meth:`GroupMetadata.tick` at ``wakes_at`` or soon after.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.membership import NEW_MEMBER_TIMEOUT, MemberMetadata, Membership
from kafkalite.coordinator.group.states import TRANSITIONS, GroupState, check_transition
from kafkalite.coordinator.group.values import (
    UNKNOWN_MEMBER,
    Effect,
    GroupDescription,
    GroupListing,
    HeartbeatRequest,
    JoinAnswer,
    Joined,
    JoinedMember,
    JoinRequest,
    LeaveAnswer,
    LeavingMember,
    MemberDescription,
    StoreGeneration,
    StoreKind,
    SyncAnswer,
    Synced,
    SyncRequest,
    Ticket,
)
from kafkalite.zk.znodes.groups import Generation, MemberRecord

log = logging.getLogger(__name__)
NEVER = float("inf")
CONSUMER_PROTOCOL_TYPE: Final = "consumer"


def decode_topics(subscription: bytes) -> set[str]:
    """The topics of an encoded ``ConsumerProtocolSubscription`` of any version. Raises ``ValueError``."""
    try:
        version, count = struct.unpack_from(">hi", subscription)
        if version < 0 or count < 0:
            raise ValueError(f"a subscription of version {version} with {count} topics")
        topics, position = set(), 6
        for _ in range(count):
            (length,) = struct.unpack_from(">h", subscription, position)
            position += 2
            if length < 0 or position + length > len(subscription):
                raise ValueError("a subscription that is cut short")
            topics.add(subscription[position : position + length].decode("utf-8"))
            position += length
        return topics
    except struct.error as error:
        raise ValueError(f"a subscription that is cut short: {error}") from None


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The broker's limits of groups (Kafka's class of this name); times in milliseconds."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = (1 << 31) - 1


@dataclass(slots=True)
class _JoinPhase:
    """The time until which JoinGroup waits for members, in PreparingRebalance.

    ``extension``: the seconds by which an initial delay may still grow while members join. ``None``: no initial delay,
    so the phase ends as soon as all members have joined.
    """

    deadline: float
    extension: float | None = None


class GroupMetadata:
    """The rules of one group. Only its methods change it, and each change of ``state`` is in the transition table."""

    def __init__(self, name: str, limits: GroupConfig, initial_state: GroupState = GroupState.EMPTY) -> None:
        self.name = name
        self.limits = limits
        self._state = initial_state
        self._generation = 0
        self._protocol_type = ""
        self._protocol = ""
        self._members = Membership()
        self._unsynced: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self._wakes_at = NEVER
        self._empty_since_ms: int | None = None
        self._storing = 0
        """The generation whose assignment is being stored; 0 if none is."""
        self._phase: _JoinPhase | None = None
        self._sync_deadline = NEVER
        """When all members of this generation must have sent SyncGroup."""
        self.rebalance_reason = ""
        """Why the last rebalance began."""
        self._member_added = False
        """Whether a member joined during the initial delay, which is then extended."""
        self._effects: list[Effect] = []

    @classmethod
    def load(
        cls, name: str, limits: GroupConfig, generation: Generation, records: Sequence[MemberRecord], now: float
    ) -> GroupMetadata:
        """The group that a former coordinator stored: same generation and members, with new session timeouts."""
        # Only stable generations are stored with members.
        group = cls(name, limits, GroupState.STABLE if records else GroupState.EMPTY)
        group._generation = generation.number
        group._protocol_type = generation.protocol_type
        if not records:
            group._empty_since_ms = generation.timestamp_ms if generation.number else None
            return group
        for record in records:
            member = MemberMetadata(*record)
            group._members.add(member)
            group._touch(member, now)
        group._protocol = generation.protocol
        if generation.leader in group._members:
            group._members.leader = generation.leader
        if len(group._members) > limits.max_size:
            group._prepare_rebalance("the group is larger than group.max.size", now)
        return group

    # What the coordinator reads

    @property
    def state(self) -> GroupState:
        return self._state

    @property
    def generation(self) -> int:
        """The number of the current generation; 0 before the first one."""
        return self._generation

    @property
    def protocol_type(self) -> str:
        return self._protocol_type

    @property
    def protocol(self) -> str:
        """The assignment protocol of the generation; empty if the group is empty."""
        return self._protocol

    @property
    def members(self) -> Membership:
        """The members; only the group itself changes them."""
        return self._members

    @property
    def wakes_at(self) -> float:
        """No deadline is earlier than this."""
        return self._wakes_at

    @property
    def empty_since_ms(self) -> int | None:
        """When the last member left (wall clock), if that is known."""
        return self._empty_since_ms

    @property
    def is_vacant(self) -> bool:
        """Whether the group is empty and no member id is pending."""
        return self._state is GroupState.EMPTY and not self._members.pending

    def subscribed_topics(self) -> Set[str] | None:
        """The topics to which the members subscribe; ``None`` if their metadata cannot be decoded."""
        if self._protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self._members:
            try:
                topics |= decode_topics(member.metadata(self._protocol))
            except ValueError:
                return None
        return topics

    def listing(self) -> GroupListing:
        """The group as ListGroups shows it."""
        return GroupListing(self.name, self._protocol_type, self._state.value)

    def description(self) -> GroupDescription:
        """The group as DescribeGroups shows it; only a stable group has metadata and assignments."""
        stable = self._state is GroupState.STABLE
        members = tuple(
            MemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(self._protocol) if stable else b"",
                member.assignment if stable else b"",
            )
            for member in self._members
        )
        return GroupDescription(
            self.name,
            state=self._state.value,
            protocol_type=self._protocol_type,
            protocol=self._protocol if stable else "",
            members=members,
        )

    def take_effects(self) -> list[Effect]:
        """The effects of the calls since the last one, in order."""
        effects, self._effects = self._effects, []
        return effects

    def set_empty_since(self, time_ms: int) -> None:
        """Note the wall-clock time at which the coordinator stores the empty generation."""
        self._empty_since_ms = time_ms

    # JoinGroup

    def join(self, ticket: Ticket, request: JoinRequest, fresh_id: str, now: float) -> None:
        """Serve a JoinGroup that waits as ``ticket``; ``fresh_id`` is its member id if it needs one."""
        error = self._check_join(request)
        if error is ErrorCode.GROUP_MAX_SIZE_REACHED:
            # Forget the refused id, so that no rebalance waits for it.
            self._drop(request.member_id)
            self._emit(Joined(ticket, JoinAnswer(error, UNKNOWN_MEMBER)))
        elif error is not ErrorCode.NONE:
            self._emit(Joined(ticket, JoinAnswer(error, request.member_id)))
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_without_id(ticket, request, fresh_id, now)
        else:
            self._join_with_id(ticket, request, now)
        self._try_complete_join(now)

    def _check_join(self, request: JoinRequest) -> ErrorCode:
        """The checks for requests with and without a member id."""
        limits = self.limits
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not self._has_room_for(request.member_id):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if self._state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self._supports(request):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _has_room_for(self, member_id: str) -> bool:
        members = self._members
        if self._state is GroupState.PREPARING_REBALANCE:
            # Count the members that have joined, so that a group above the limit drops those that join last. Count
            # only near the limit, because counting at each JoinGroup is slow in a large group.
            if len(members) < self.limits.max_size:
                return True
            member = members.get(member_id)
            return (member is not None and member.join is not None) or members.joining < self.limits.max_size
        if self._state is GroupState.COMPLETING_REBALANCE or self._state is GroupState.STABLE:
            return member_id in members or len(members) < self.limits.max_size
        return True

    def _supports(self, request: JoinRequest) -> bool:
        names = [name for name, _ in request.protocols]
        if self._state is GroupState.EMPTY:
            return bool(request.protocol_type and names)
        return self._protocol_type == request.protocol_type and self._members.supports_any(names)

    def _join_without_id(self, ticket: Ticket, request: JoinRequest, fresh_id: str, now: float) -> None:
        """A new member, or a static member that has restarted."""
        old_id = self._members.static_id(request.instance_id) if request.instance_id is not None else None
        if old_id is not None:
            self._replace_static(ticket, request, old_id, fresh_id, now)
        elif request.instance_id is None and request.require_known_member_id:
            # A client whose answer is lost leaves a pending id behind, and not a member (KIP-394).
            self._add_pending(fresh_id, request.session_timeout_ms, now)
            self._emit(Joined(ticket, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, fresh_id)))
        else:
            self._add_member(ticket, request, fresh_id, now)

    def _join_with_id(self, ticket: Ticket, request: JoinRequest, now: float) -> None:
        """The owner of a pending id, or a member that joins again."""
        if request.member_id in self._members.pending and request.instance_id is None:
            self._add_member(ticket, request, request.member_id, now)
            return
        error = self._check_member(request.member_id, request.instance_id)
        if error is not ErrorCode.NONE or self._state is GroupState.EMPTY:
            self._emit(Joined(ticket, JoinAnswer(error or ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)))
            return
        member = self._members[request.member_id]
        leads = member.member_id == self._members.leader
        same = member.protocols == request.protocols
        if self._state is GroupState.COMPLETING_REBALANCE and same:
            # The answer to its first request was lost.
            self._emit(Joined(ticket, self._joined(member.member_id, as_leader=leads)))
        elif self._state is GroupState.STABLE and same and not leads:
            self._emit(Joined(ticket, self._joined(member.member_id, as_leader=False)))
        else:
            # A leader joins again if the assignment must change, because of new partitions for example.
            self._answer_join(member, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            member.join = ticket
            self._members.update(member, request.protocols, request.session_timeout_ms, request.rebalance_timeout_ms)
            self._prepare_rebalance(f"member {member.member_id} joins again ({_reason(request)})", now)

    def _add_member(self, ticket: Ticket, request: JoinRequest, member_id: str, now: float) -> None:
        member = MemberMetadata(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocols,
            is_new=True,
            deadline=now + NEW_MEMBER_TIMEOUT,
            join=ticket,
        )
        if not self._members:
            self._protocol_type = request.protocol_type
        if self._state is GroupState.PREPARING_REBALANCE and self._generation == 0:
            self._member_added = True
        self._members.add(member)
        self._wake(member.deadline)
        self._prepare_rebalance(f"member {member_id} joins ({_reason(request)})", now)

    def _replace_static(self, ticket: Ticket, request: JoinRequest, old_id: str, new_id: str, now: float) -> None:
        """A static member has restarted, or a second process uses its instance id: fence the older one (KIP-345)."""
        member = self._members[old_id]
        self._members.update(member, request.protocols, request.session_timeout_ms, request.rebalance_timeout_ms)
        self._answer_join(member, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self._answer_sync(member, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))
        if old_id in self._unsynced:
            self._unsynced.remove(old_id)
            self._unsynced.add(new_id)
        self._members.rename(member, new_id)
        member.join = ticket
        self._touch(member, now)
        log.info("group %s: static member %s is now %s (it was %s)", self.name, request.instance_id, new_id, old_id)
        if self._state is GroupState.STABLE and self._members.select_protocol() == self._protocol:
            records = tuple(each.record() for each in self._members)
            self._emit(
                StoreGeneration(
                    StoreKind.REPLACEMENT,
                    self._snapshot(),
                    records,
                    (old_id, new_id),
                    ticket,
                    request.can_skip_assignment,
                )
            )
        else:
            # In CompletingRebalance the leader may already have assigned partitions to the old id.
            self._prepare_rebalance(f"static member {request.instance_id} came back ({_reason(request)})", now)

    # SyncGroup, Heartbeat, LeaveGroup, commits

    def sync(self, ticket: Ticket, request: SyncRequest, now: float) -> None:
        """Serve a SyncGroup that waits as ``ticket``: it fetches an assignment or, from the leader, brings all."""
        error = self._check_sync(request)
        if error is not ErrorCode.NONE:
            self._emit(Synced(ticket, SyncAnswer(error)))
            return
        member = self._members[request.member_id]
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._sync_deadline = NEVER
        if self._state is GroupState.STABLE:
            self._emit(Synced(ticket, self._synced(member)))
            self._touch(member, now)
            return
        self._answer_sync(member, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync = ticket
        if member.member_id == self._members.leader:
            self._store_assignment(request.assignments)

    def heartbeat(self, request: HeartbeatRequest, now: float) -> ErrorCode:
        """Extend a member's session; REBALANCE_IN_PROGRESS tells the member to join again."""
        error = self._check_generation(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        self._touch(self._members[request.member_id], now)
        # In CompletingRebalance a member may send heartbeats between its JoinGroup and its SyncGroup.
        return ErrorCode.REBALANCE_IN_PROGRESS if self._state is GroupState.PREPARING_REBALANCE else ErrorCode.NONE

    def leave(self, members: Sequence[LeavingMember], now: float) -> LeaveAnswer:
        """Remove members that leave, or that an administrator removes by their instance ids."""
        if self._state is GroupState.DEAD:
            return LeaveAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return LeaveAnswer(ErrorCode.NONE, tuple((member, self._leave(member, now)) for member in members))

    def check_commit(
        self, member_id: str, generation: int, instance_id: str | None, now: float, *, transactional: bool = False
    ) -> ErrorCode:
        """Whether this client may commit offsets; a member's commit also extends its session."""
        if self._state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self._state is GroupState.EMPTY:
            # An administrator, or a client that only stores offsets in the group.
            return ErrorCode.NONE
        if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            error = self._check_generation(member_id, instance_id, generation)
            if error is not ErrorCode.NONE or transactional:
                return error
        elif transactional:
            # TxnOffsetCommit before version 3 does not name the member.
            return ErrorCode.NONE
        elif self._state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self._state is GroupState.COMPLETING_REBALANCE:
            # The member has the new generation from JoinGroup, but no assignment yet.
            return ErrorCode.REBALANCE_IN_PROGRESS
        member = self._members.get(member_id)
        if member is not None:
            self._touch(member, now)
        return ErrorCode.NONE

    def _check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether that is a member, and, for a static one, the current member of its instance."""
        if instance_id is not None:
            current = self._members.static_id(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    def _check_generation(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        if self._state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._check_member(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self._generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _check_sync(self, request: SyncRequest) -> ErrorCode:
        error = self._check_generation(request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        if request.protocol_type is not None and request.protocol_type != self._protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol is not None and request.protocol != self._protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self._state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _leave(self, leaving: LeavingMember, now: float) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == UNKNOWN_MEMBER:
            member_id = self._members.static_id(leaving.instance_id) or "" if leaving.instance_id is not None else ""
            if not member_id:
                return ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id in self._members.pending:
            self._remove_pending(member_id, now)
            return ErrorCode.NONE
        else:
            error = self._check_member(member_id, leaving.instance_id)
            if error is not ErrorCode.NONE:
                return error
        reason = leaving.reason or "no reason given"
        self._remove_member(self._members[member_id], f"it leaves ({reason})", now)
        return ErrorCode.NONE

    # Time

    def tick(self, now: float) -> None:
        """Act upon every deadline that has passed."""
        for member_id, deadline in list(self._members.pending.items()):
            if deadline <= now:
                self._remove_pending(member_id, now)
        for member in self._members:
            if member.wakes_at <= now and member.member_id in self._members:
                self._remove_member(member, "its session timed out", now)
        if self._phase is not None and self._phase.deadline <= now:
            self._join_phase_is_over(self._phase, now)
        if self._sync_deadline <= now:
            self._sync_phase_is_over(now)
        self._find_next_deadline()

    def excuse(self, seconds: float, now: float) -> None:
        """Move all deadlines by ``seconds``, in which the broker read no requests, and restart the sessions.

        The sessions restart as they do with a new coordinator, because heartbeats may wait unread in the sockets.
        """
        for member in self._members:
            member.deadline = max(member.deadline + seconds, now + member.session_timeout_ms / 1000)
        for member_id in self._members.pending:
            self._members.pending[member_id] += seconds
        if self._phase is not None:
            self._phase.deadline += seconds
        self._sync_deadline += seconds
        self._find_next_deadline()

    def _join_phase_is_over(self, phase: _JoinPhase, now: float) -> None:
        if phase.extension and self._member_added:
            self._member_added = False
            delay = min(self.limits.initial_rebalance_delay_ms / 1000, phase.extension)
            self._phase = _JoinPhase(now + delay, phase.extension - delay)
        else:
            self._complete_join(now)

    def _sync_phase_is_over(self, now: float) -> None:
        late = sorted(self._unsynced)
        for member_id in late:
            self._drop(member_id)
        self._prepare_rebalance(f"no SyncGroup in time from {', '.join(late)}", now)

    def _wake(self, deadline: float) -> None:
        self._wakes_at = min(self._wakes_at, deadline)

    def _find_next_deadline(self) -> None:
        self._wakes_at = min(
            min(self._members.pending.values(), default=NEVER),
            min((member.wakes_at for member in self._members), default=NEVER),
            self._phase.deadline if self._phase is not None else NEVER,
            self._sync_deadline,
        )

    # Members

    def _touch(self, member: MemberMetadata, now: float) -> None:
        """Restart the session timeout of ``member``."""
        member.deadline = now + member.session_timeout_ms / 1000
        self._wake(member.deadline)

    def _add_pending(self, member_id: str, session_timeout_ms: int, now: float) -> None:
        """Note a member id that was given out; a rebalance waits for its owner as for a member."""
        deadline = now + session_timeout_ms / 1000
        self._members.pending[member_id] = deadline
        self._wake(deadline)

    def _remove_pending(self, member_id: str, now: float) -> None:
        self._drop(member_id)
        self._try_complete_join(now)

    def _remove_member(self, member: MemberMetadata, reason: str, now: float) -> None:
        """Remove a member that left or whose session ended, and rebalance."""
        log.info("group %s: member %s goes: %s", self.name, member.member_id, reason)
        self._drop(member.member_id)
        if self._state is GroupState.PREPARING_REBALANCE:
            self._try_complete_join(now)
        else:
            self._prepare_rebalance(reason, now)

    def _drop(self, member_id: str) -> None:
        """Remove a member or a pending id, without a rebalance."""
        member = self._members.get(member_id)
        if member is not None:
            self._answer_join(member, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
            self._answer_sync(member, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        self._members.remove(member_id)
        self._unsynced.discard(member_id)

    # A rebalance: all members join, then all members sync

    def _prepare_rebalance(self, reason: str, now: float) -> None:
        """Begin a rebalance if the state allows it: from now on heartbeats tell the members to join again."""
        if GroupState.PREPARING_REBALANCE not in TRANSITIONS[self._state]:
            return
        if self._state is GroupState.COMPLETING_REBALANCE:
            self._fail_syncs(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._unsynced.clear()
        self._sync_deadline = NEVER
        timeout = self._members.rebalance_timeout_ms / 1000
        if self._state is GroupState.EMPTY:
            # The members of a new group tend to start together, so the first generation waits for all of them.
            delay = self.limits.initial_rebalance_delay_ms / 1000
            self._phase = _JoinPhase(now + delay, max(timeout - delay, 0.0))
        else:
            self._phase = _JoinPhase(now + timeout)
        self._become(GroupState.PREPARING_REBALANCE)
        self.rebalance_reason = reason
        self._wake(self._phase.deadline)
        log.info("group %s: rebalance of generation %d begins: %s", self.name, self._generation, reason)
        self._try_complete_join(now)

    def _try_complete_join(self, now: float) -> None:
        """Begin the next generation if all members have joined and no initial delay runs."""
        phase = self._phase
        if phase is not None and phase.extension is None and self._members.all_joined:
            self._complete_join(now)

    def _complete_join(self, now: float) -> None:
        """Begin the next generation with the members that have joined."""
        late = [member for member in self._members if member.join is None and not member.is_static]
        if late:
            log.info("group %s: did not join in time: %s", self.name, ", ".join(each.member_id for each in late))
        for member in late:
            self._drop(member.member_id)
        if not self._members.elect_joined_leader() and self._members:
            # Only static members are left and none has joined: wait for them until their sessions end.
            self._phase = _JoinPhase(now + self._members.rebalance_timeout_ms / 1000)
            return
        self._phase = None
        self._generation += 1
        if not self._members:
            self._protocol = ""
            self._become(GroupState.EMPTY)
            log.info("group %s: generation %d is empty", self.name, self._generation)
            self._emit(StoreGeneration(StoreKind.EMPTY, self._snapshot(), ()))
            return
        self._protocol = self._members.select_protocol()
        self._become(GroupState.COMPLETING_REBALANCE)
        leader = self._members.leader
        log.info(
            "group %s: generation %d begins with %d members, led by %s",
            self.name, self._generation, len(self._members), leader,
        )  # fmt: skip
        for member in self._members:
            member.is_new = False
            self._answer_join(member, self._joined(member.member_id, as_leader=member.member_id == leader))
            self._touch(member, now)
        self._unsynced = self._members.ids
        self._sync_deadline = now + self._members.rebalance_timeout_ms / 1000
        self._wake(self._sync_deadline)

    def _become_stable(self, assignments: Mapping[str, bytes], now: float) -> None:
        """Answer the waiting SyncGroups with their assignments."""
        for member in self._members:
            member.assignment = assignments[member.member_id]
        self._become(GroupState.STABLE)
        for member in self._members:
            if self._answer_sync(member, self._synced(member)):
                self._touch(member, now)

    def _fail_syncs(self, error: ErrorCode, now: float) -> None:
        """Answer the waiting SyncGroups ``error``, because this generation gets no assignment."""
        for member in self._members:
            member.assignment = b""
            if self._answer_sync(member, SyncAnswer(error)):
                self._touch(member, now)

    def _become(self, state: GroupState) -> None:
        check_transition(self.name, self._state, state)
        self._state = state

    # Durable generations

    def stored(self, store: StoreGeneration, error: ErrorCode, now: float) -> None:
        """The coordinator has made ``store`` durable, or failed with ``error``."""
        if store.kind is StoreKind.REPLACEMENT:
            self._replacement_stored(store, error)
        elif store.kind is StoreKind.ASSIGNMENT:
            if self._storing == store.generation.number:
                self._storing = 0
            # If a member has joined or left meanwhile, a new rebalance has begun and this generation is over.
            if self._state is not GroupState.COMPLETING_REBALANCE or store.generation.number != self._generation:
                return
            if error is ErrorCode.NONE:
                self._become_stable({record.member_id: record.assignment for record in store.members}, now)
            else:
                self._fail_syncs(error, now)
                self._prepare_rebalance(f"the assignment could not be stored ({error.name})", now)

    def _store_assignment(self, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment before it is given out; a member without one gets an empty assignment."""
        if self._storing == self._generation:
            # The leader repeats its request while the first one is being stored, and the first one is valid.
            return
        self._storing = self._generation
        records = tuple(member.record(assignments.get(member.member_id, b"")) for member in self._members)
        self._emit(StoreGeneration(StoreKind.ASSIGNMENT, self._snapshot(), records))

    def _replacement_stored(self, store: StoreGeneration, error: ErrorCode) -> None:
        before, after = store.replaced
        member = self._members.get(after)
        if member is None or member.join != store.ticket or self._state is not GroupState.STABLE:
            # The member has gone or was replaced itself, or a rebalance has begun and will answer it.
            return
        if error is not ErrorCode.NONE:
            # No client knows the new id yet; the member joins again and gets another one.
            self._answer_join(member, JoinAnswer(error))
            return
        leads = after == self._members.leader
        if store.skip_assignment:
            self._answer_join(member, self._joined(after, as_leader=leads, skip=leads))
        else:
            # Name the old id as the leader, so that the member does not assign, because the group stays stable.
            leader = before if leads else self._members.leader
            self._answer_join(member, self._joined(after, as_leader=False, leader=leader))

    def _snapshot(self) -> Generation:
        return Generation(self._generation, self._protocol_type, self._protocol, self._members.leader)

    # Answers

    def die(self, error: ErrorCode) -> None:
        """Answer all waiting requests ``error``, because this broker drops the group."""
        if self._state is GroupState.DEAD:
            return
        self._become(GroupState.DEAD)
        self._phase = None
        self._sync_deadline = NEVER
        self._wakes_at = NEVER
        for member in self._members:
            self._answer_join(member, JoinAnswer(error, member.member_id))
            self._answer_sync(member, SyncAnswer(error))

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _answer_join(self, member: MemberMetadata, answer: JoinAnswer) -> None:
        """Answer the waiting JoinGroup of ``member``, if it has one."""
        if member.join is not None:
            self._emit(Joined(member.join, answer))
            member.join = None

    def _answer_sync(self, member: MemberMetadata, answer: SyncAnswer) -> bool:
        """Answer the waiting SyncGroup of ``member``; returns whether it had one."""
        if member.sync is None:
            return False
        self._emit(Synced(member.sync, answer))
        member.sync = None
        return True

    def _joined(self, member_id: str, *, as_leader: bool, leader: str | None = None, skip: bool = False) -> JoinAnswer:
        """The current generation as the answer to a member's JoinGroup; ``as_leader``: with all members."""
        return JoinAnswer(
            ErrorCode.NONE,
            member_id,
            self._generation,
            self._protocol_type,
            self._protocol,
            self._members.leader if leader is None else leader,
            skip,
            tuple(
                JoinedMember(member.member_id, member.instance_id, member.metadata(self._protocol))
                for member in self._members
            )
            if as_leader
            else (),
        )

    def _synced(self, member: MemberMetadata) -> SyncAnswer:
        return SyncAnswer(ErrorCode.NONE, member.assignment, self._protocol_type, self._protocol)


def _reason(request: JoinRequest) -> str:
    return request.reason or "no reason given"
