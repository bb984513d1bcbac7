"""Generations that are kept: what is to be made durable, what happens once it is, and how a new coordinator goes on.

Answers to: ``kafka.coordinator.group.GroupMetadataManager.storeGroup``'s callbacks in ``GroupCoordinator``
(``doSyncGroup``, ``updateStaticMemberAndRebalance``, ``onGroupLoaded``). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.effects import StoreGeneration, StoreKind, Ticket
from kafkalite.coordinator.group.group_metadata import GroupMetadata
from kafkalite.coordinator.group.member_metadata import MemberMetadata
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import JoinAnswer
from kafkalite.zk.znodes.groups import Generation, MemberRecord


def load(group: GroupMetadata, generation: Generation, records: Sequence[MemberRecord], now: float) -> None:
    """Go on where another coordinator ended: same generation, same members, their sessions begun anew."""
    group.generation = generation.number
    group.protocol_type = generation.protocol_type
    if not records:
        group.empty_since_ms = generation.timestamp_ms if generation.number else None
        return
    for record in records:
        member = MemberMetadata.of(record)
        group.members.add(member)
        group.touch(member, now)
    group.protocol = generation.protocol
    if generation.leader in group.members:
        group.members.leader = generation.leader
    # Not by a transition: what is kept of a group with members became stable under the coordinator before.
    group.state = GroupState.STABLE
    if len(group.members) > group.limits.max_size:
        group.prepare_rebalance("the group is larger than group.max.size", now)


def store_assignment(group: GroupMetadata, assignments: Mapping[str, bytes]) -> None:
    """The leader has assigned; nobody is told before it is durable. Whom it forgot gets nothing."""
    if group.storing == group.generation:
        # It asks again while its first word is being written: that one counts.
        return
    group.storing = group.generation
    records = tuple(member.record(assignments.get(member.member_id, b"")) for member in group.members)
    group.emit(StoreGeneration(StoreKind.ASSIGNMENT, group.snapshot(), records))


def store_replacement(
    group: GroupMetadata, ticket: Ticket, replaced: tuple[str, str], *, skip_assignment: bool
) -> None:
    """A static member of a stable group has another id: it is told once that is durable."""
    records = tuple(member.record() for member in group.members)
    group.emit(StoreGeneration(StoreKind.REPLACEMENT, group.snapshot(), records, replaced, ticket, skip_assignment))


def stored(group: GroupMetadata, store: StoreGeneration, error: ErrorCode, now: float) -> None:
    """``store`` is durable, or has failed with ``error``."""
    if store.kind is StoreKind.REPLACEMENT:
        _replacement_stored(group, store, error)
    elif store.kind is StoreKind.ASSIGNMENT:
        if group.storing == store.generation.number:
            group.storing = 0
        # Meanwhile somebody may have joined or left: then this generation is over already.
        if group.state is not GroupState.COMPLETING_REBALANCE or store.generation.number != group.generation:
            return
        if error is ErrorCode.NONE:
            group.become_stable({record.member_id: record.assignment for record in store.members}, now)
        else:
            group.fail_syncs(error, now)
            group.prepare_rebalance(f"the assignment could not be stored ({error.name})", now)


def _replacement_stored(group: GroupMetadata, store: StoreGeneration, error: ErrorCode) -> None:
    before, after = store.replaced
    member = group.members.get(after)
    if member is None or member.join != store.ticket or group.state is not GroupState.STABLE:
        # It is gone, or was replaced in its turn, or waits for the next generation now with everybody else.
        return
    if error is not ErrorCode.NONE:
        # Nobody has heard of the new id: its owner asks again, and is given another one.
        group.answer_join(member, JoinAnswer(error))
        return
    leads = after == group.members.leader
    if store.skip_assignment:
        group.answer_join(member, group.joined(after, as_leader=leads, skip=leads))
    else:
        # Told of its old id as the leader it does not assign; what it assigned would not reach a stable group.
        leader = before if leads else group.members.leader
        group.answer_join(member, group.joined(after, as_leader=False, leader=leader))
