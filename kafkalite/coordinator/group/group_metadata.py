"""One group: its state, its members, its generations. Values and the time go in, effects come out.

Answers to: ``kafka.coordinator.group.GroupMetadata`` and the rebalancing of ``GroupCoordinator`` (``prepareRebalance``,
``onCompleteJoin``). Pure.

What each request does to a group stands in ``joining.py`` and ``requests.py``, what time does in ``deadlines.py``, what
becomes of it in ZooKeeper in ``persistence.py``. Times are monotonic seconds. Whoever calls takes the effects with
:meth:`GroupMetadata.take`, and calls ``deadlines.tick`` at ``wakes_at`` or soon after.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.effects import Effect, Joined, StoreGeneration, StoreKind, Synced, Ticket
from kafkalite.coordinator.group.member_metadata import NEW_MEMBER_TIMEOUT, MemberMetadata
from kafkalite.coordinator.group.membership import Membership
from kafkalite.coordinator.group.states import TRANSITIONS, GroupState, check_transition
from kafkalite.coordinator.group.values import JoinAnswer, JoinedMember, SyncAnswer
from kafkalite.zk.znodes.groups import Generation

log = logging.getLogger(__name__)
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What the broker's configuration says about groups; times in milliseconds."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = (1 << 31) - 1


@dataclass(slots=True)
class JoinPhase:
    """Members are being waited for until ``deadline`` (``deadlines.py`` says what happens then).

    ``extension``: seconds by which an initial delay may still grow while members come; ``None``: not an initial one,
    so that the phase ends as soon as all are there.
    """

    deadline: float
    extension: float | None = None


class GroupMetadata:
    """See the module. ``leader``, members and votes are in ``members``; ``protocol`` is empty between generations
    of an empty group."""

    def __init__(self, name: str, limits: GroupLimits) -> None:
        self.name = name
        self.limits = limits
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.members = Membership()
        self.unsynced: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.wakes_at = NEVER
        """No deadline is earlier than this."""
        self.empty_since_ms: int | None = None
        """When the last member went (wall clock), as far as that is known."""
        self.storing = 0
        """The generation whose assignment is being stored, if one is."""
        self.phase: JoinPhase | None = None
        """How long members are waited for, in PreparingRebalance."""
        self.sync_deadline = NEVER
        """Until when all of this generation must have sent SyncGroup."""
        self.member_added = False
        """Whether somebody came during the initial delay, which is then extended."""
        self._effects: list[Effect] = []

    # Effects

    def emit(self, effect: Effect) -> None:
        """Want something done once this step is over."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """What the steps since the last call want done, in order."""
        effects, self._effects = self._effects, []
        return effects

    def answer_join(self, member: MemberMetadata, answer: JoinAnswer) -> None:
        """Answer the JoinGroup in which ``member`` waits, if it does."""
        if member.join is not None:
            self.emit(Joined(member.join, answer))
            member.join = None

    def answer_sync(self, member: MemberMetadata, answer: SyncAnswer) -> bool:
        """Answer the SyncGroup in which ``member`` waits; returns whether it did."""
        if member.sync is None:
            return False
        self.emit(Synced(member.sync, answer))
        member.sync = None
        return True

    def joined(self, member_id: str, *, as_leader: bool, leader: str | None = None, skip: bool = False) -> JoinAnswer:
        """The present generation, told to a member; with ``as_leader`` it is told of all members."""
        return JoinAnswer(
            ErrorCode.NONE,
            member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.members.leader if leader is None else leader,
            skip,
            tuple(
                JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
                for member in self.members
            )
            if as_leader
            else (),
        )

    def synced(self, member: MemberMetadata) -> SyncAnswer:
        """A member's assignment."""
        return SyncAnswer(ErrorCode.NONE, member.assignment, self.protocol_type, self.protocol)

    # Members

    def touch(self, member: MemberMetadata, now: float) -> None:
        """``member`` lives: its session begins anew."""
        member.deadline = now + member.session_timeout_ms / 1000
        self.wake(member.deadline)

    def add_pending(self, member_id: str, session_timeout_ms: int, now: float) -> None:
        """An id was given out; a rebalance waits for its owner as for a member."""
        deadline = now + session_timeout_ms / 1000
        self.members.pending[member_id] = deadline
        self.wake(deadline)

    def add_member(self, member: MemberMetadata, protocol_type: str, now: float) -> None:
        """A new member, which waits in JoinGroup. The caller begins the rebalance."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.state is GroupState.PREPARING_REBALANCE and self.generation == 0:
            self.member_added = True
        member.is_new = True
        member.deadline = now + NEW_MEMBER_TIMEOUT
        self.members.add(member)
        self.wake(member.deadline)

    def remove_member(self, member: MemberMetadata, reason: str, now: float) -> None:
        """A member left or died; where it waited it learns that it is no member any more."""
        log.info("group %s: member %s goes: %s", self.name, member.member_id, reason)
        self.drop(member.member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            self.try_complete_join(now)
        else:
            self.prepare_rebalance(reason, now)

    def drop(self, member_id: str) -> None:
        """A member, or the owner of an id that was given out, is none any more; the caller sees to the rebalance."""
        member = self.members.get(member_id)
        if member is not None:
            self.answer_join(member, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
            self.answer_sync(member, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        self.members.remove(member_id)
        self.unsynced.discard(member_id)

    def replace_static(self, member: MemberMetadata, member_id: str, ticket: Ticket, now: float) -> None:
        """A static member goes on as ``member_id``, waiting in JoinGroup; requests of the old id are fenced."""
        self.answer_join(member, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, member.member_id))
        self.answer_sync(member, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))
        if member.member_id in self.unsynced:
            self.unsynced.remove(member.member_id)
            self.unsynced.add(member_id)
        self.members.rename(member, member_id)
        member.join = ticket
        self.touch(member, now)

    def remove_pending(self, member_id: str, now: float) -> None:
        """The owner of an id that was given out is not waited for any more."""
        self.drop(member_id)
        self.try_complete_join(now)

    # A rebalance: everybody joins, everybody syncs

    def prepare_rebalance(self, reason: str, now: float) -> None:
        """Call the members, where the state allows it."""
        if GroupState.PREPARING_REBALANCE not in TRANSITIONS[self.state]:
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.fail_syncs(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self.unsynced.clear()
        self.sync_deadline = NEVER
        timeout = self.members.rebalance_timeout_ms / 1000
        if self.state is GroupState.EMPTY:
            # Members tend to start together: the first generation waits for all of them, not for the first one.
            delay = self.limits.initial_rebalance_delay_ms / 1000
            self.phase = JoinPhase(now + delay, max(timeout - delay, 0.0))
        else:
            self.phase = JoinPhase(now + timeout)
        self._become(GroupState.PREPARING_REBALANCE)
        self.wake(self.phase.deadline)
        log.info("group %s: rebalance of generation %d begins: %s", self.name, self.generation, reason)
        self.try_complete_join(now)

    def try_complete_join(self, now: float) -> None:
        """Begin the next generation if everybody is there and no initial delay runs."""
        phase = self.phase
        if phase is not None and phase.extension is None and self.members.all_joined:
            self.complete_join(now)

    def complete_join(self, now: float) -> None:
        """Begin the next generation with those who are there."""
        late = [member for member in self.members if member.join is None and not member.is_static]
        if late:
            log.info("group %s: did not join in time: %s", self.name, ", ".join(each.member_id for each in late))
        for member in late:
            self.drop(member.member_id)
        if not self.members.elect_joined_leader() and self.members:
            # Static members alone, none of whom has come: their sessions decide.
            self.phase = JoinPhase(now + self.members.rebalance_timeout_ms / 1000)
            return
        self.phase = None
        self.generation += 1
        if not self.members:
            self._become_empty()
            return
        self.protocol = self.members.select_protocol()
        self._become(GroupState.COMPLETING_REBALANCE)
        log.info(
            "group %s: generation %d begins with %d members, led by %s",
            self.name, self.generation, len(self.members), self.members.leader,
        )  # fmt: skip
        for member in self.members:
            member.is_new = False
            self.answer_join(member, self.joined(member.member_id, as_leader=member.member_id == self.members.leader))
            self.touch(member, now)
        self.unsynced = self.members.ids
        self.sync_deadline = now + self.members.rebalance_timeout_ms / 1000
        self.wake(self.sync_deadline)

    def _become_empty(self) -> None:
        self.protocol = ""
        self._become(GroupState.EMPTY)
        log.info("group %s: generation %d is empty", self.name, self.generation)
        self.emit(StoreGeneration(StoreKind.EMPTY, self.snapshot(), ()))

    def snapshot(self) -> Generation:
        """The present generation, as it is kept."""
        return Generation(self.generation, self.protocol_type, self.protocol, self.members.leader)

    def become_stable(self, assignments: Mapping[str, bytes], now: float) -> None:
        """The assignment is durable: now it is given out."""
        for member in self.members:
            member.assignment = assignments[member.member_id]
        self._become(GroupState.STABLE)
        for member in self.members:
            if self.answer_sync(member, self.synced(member)):
                self.touch(member, now)

    def fail_syncs(self, error: ErrorCode, now: float) -> None:
        """No assignment comes of this generation."""
        for member in self.members:
            member.assignment = b""
            if self.answer_sync(member, SyncAnswer(error)):
                self.touch(member, now)

    def sync_received(self, member: MemberMetadata) -> None:
        """``member`` has sent its SyncGroup."""
        self.unsynced.discard(member.member_id)
        if not self.unsynced:
            self.sync_deadline = NEVER

    def wake(self, deadline: float) -> None:
        """Something may have to be done at ``deadline``."""
        self.wakes_at = min(self.wakes_at, deadline)

    # The end

    def die(self, error: ErrorCode) -> None:
        """This broker has nothing more to do with the group: whoever waits is answered ``error``."""
        if self.state is GroupState.DEAD:
            return
        self._become(GroupState.DEAD)
        self.phase = None
        self.sync_deadline = NEVER
        self.wakes_at = NEVER
        for member in self.members:
            self.answer_join(member, JoinAnswer(error, member.member_id))
            self.answer_sync(member, SyncAnswer(error))

    def _become(self, state: GroupState) -> None:
        check_transition(self.name, self.state, state)
        self.state = state
