"""What time does to a group: sessions end, members are waited for no longer, and a broker that slept makes up for it.

Answers to: ``kafka.coordinator.group.{DelayedHeartbeat,DelayedJoin,InitialDelayedJoin,DelayedSync}`` where they expire.
Pure.
"""

from __future__ import annotations

from kafkalite.coordinator.group.group_metadata import NEVER, GroupMetadata, JoinPhase


def tick(group: GroupMetadata, now: float) -> None:
    """Act upon every deadline that is over."""
    for member_id, deadline in list(group.members.pending.items()):
        if deadline <= now:
            group.remove_pending(member_id, now)
    for member in group.members:
        if member.wakes_at <= now and member.member_id in group.members:
            group.remove_member(member, "its session timed out", now)
    if group.phase is not None and group.phase.deadline <= now:
        _joining_is_over(group, group.phase, now)
    if group.sync_deadline <= now:
        _syncing_is_over(group, now)
    _find_next(group)


def excuse(group: GroupMetadata, seconds: float, now: float) -> None:
    """This broker heard nobody for a while: nobody is blamed for it.

    Deadlines move by ``seconds``, and sessions begin anew, as they do with a new coordinator.
    """
    for member in group.members:
        member.deadline = max(member.deadline + seconds, now + member.session_timeout_ms / 1000)
    for member_id in group.members.pending:
        group.members.pending[member_id] += seconds
    if group.phase is not None:
        group.phase.deadline += seconds
    group.sync_deadline += seconds
    _find_next(group)


def _joining_is_over(group: GroupMetadata, phase: JoinPhase, now: float) -> None:
    if phase.extension and group.member_added:
        group.member_added = False
        delay = min(group.limits.initial_rebalance_delay_ms / 1000, phase.extension)
        group.phase = JoinPhase(now + delay, phase.extension - delay)
    else:
        group.complete_join(now)


def _syncing_is_over(group: GroupMetadata, now: float) -> None:
    late = sorted(group.unsynced)
    for member_id in late:
        group.drop(member_id)
    group.prepare_rebalance(f"no SyncGroup in time from {', '.join(late)}", now)


def _find_next(group: GroupMetadata) -> None:
    group.wakes_at = min(
        min(group.members.pending.values(), default=NEVER),
        min((member.wakes_at for member in group.members), default=NEVER),
        group.phase.deadline if group.phase is not None else NEVER,
        group.sync_deadline,
    )
