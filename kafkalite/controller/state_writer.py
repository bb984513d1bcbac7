"""Partition states: planned from the context, written against their version, read again where the context was too old.

Answers to: ``PartitionStateMachine.{doElectLeaderForPartitions,initializeLeaderAndIsrForPartitions}`` and
``ReplicaStateMachine.removeReplicasFromIsr`` (the writing in them). Reactor shell.

A state znode at the version that the context holds says exactly what the context says. So a plan is made without
reading first, and only a state that its leader wrote meanwhile (the ISR) is read and planned again. A refusal
writes nothing, so no version shows whether the context was up to date: its state is read again before it counts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.errors import ErrorCode
from kafkalite.common.events import EventKind
from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.elections import Planner, Refused, is_unclean
from kafkalite.zk.zk_client import BadVersionError, NodeExistsError, NoNodeError, Watch

log = logging.getLogger(__name__)
_ATTEMPTS = 10


@dataclass(slots=True)
class StateWriteResult:
    """Which partitions were written, and for which the plan refused a leader."""

    changed: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    refused: dict[TopicPartition, Refused] = field(default_factory=dict)


class StateWriter:
    """Writes states, and then puts them into the context. Partition states and requests are the caller's task."""

    def __init__(self, active: ActiveController) -> None:
        self._active = active

    async def change(self, partitions: Iterable[TopicPartition], plan: Planner, reason: str) -> StateWriteResult:
        """Write what ``plan`` returns for each partition that has a state."""
        active = self._active
        context = active.context
        outcome = StateWriteResult()
        pending = list(partitions)
        verified: set[TopicPartition] = set()
        for _ in range(_ATTEMPTS):
            active.check()
            planned = []
            doubtful = []
            for tp in pending:
                state = context.states.get(tp)
                if state is None:
                    continue
                wanted = plan(state)
                if wanted is not None and state.controller_epoch > active.epoch:
                    # A later controller exists: its states stay, and the next write of this one is refused.
                    wanted = Refused(ErrorCode.STALE_CONTROLLER_EPOCH, "a later controller wrote its state")
                if isinstance(wanted, Refused):
                    outcome.refused[tp] = wanted
                    if tp not in verified:
                        doubtful.append(tp)
                elif wanted is not None:
                    outcome.refused.pop(tp, None)
                    planned.append(wanted)
            stale = await self._update(planned, reason, outcome) if planned else []
            verified.update(doubtful)
            changed = await self.refresh([*stale, *doubtful]) if stale or doubtful else []
            pending = [*stale, *(tp for tp in changed if tp in verified and tp not in stale)]
            if not pending:
                return outcome
        for tp in pending:
            outcome.refused[tp] = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "its state keeps changing")
        return outcome

    async def _update(
        self, planned: Sequence[LeaderAndIsr], reason: str, outcome: StateWriteResult
    ) -> list[TopicPartition]:
        """Write ``planned``; returns the partitions whose znode has another version."""
        active = self._active
        results = await active.stores.controller.update_states(active.claim, planned)
        active.check()
        stale = []
        for tp, result in results.items():
            if isinstance(result, LeaderAndIsr):
                before = active.context.states[tp]
                if is_unclean(before, result, active.context):
                    active.unclean_elections += 1
                # The writer may know an assignment that is not in the context yet.
                active.context.set_state(result)
                outcome.changed[tp] = result
                _log_change(before, result, reason)
                self._record(before, result, reason)
            elif isinstance(result, BadVersionError):
                stale.append(tp)
            elif isinstance(result, NoNodeError):
                refused = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "its state znode is gone")
                outcome.refused[tp] = refused
            else:
                raise result
        return stale

    async def create(self, states: Sequence[LeaderAndIsr], reason: str) -> dict[TopicPartition, LeaderAndIsr]:
        """Create the states of new partitions; an existing state counts instead."""
        active = self._active
        context = active.context
        created: dict[TopicPartition, LeaderAndIsr] = {}
        existing = []
        topics: dict[str, int] = {}
        active.check()
        results = await active.stores.controller.create_states(active.claim, states)
        active.check()
        for tp, result in results.items():
            if isinstance(result, LeaderAndIsr):
                state = context.set_state(result)
                created[tp] = state
                topics[state.topic] = topics.get(state.topic, 0) + 1
                self._record(None, state, reason)
                if log.isEnabledFor(logging.DEBUG):
                    log.debug("%s: leader %d, isr %s (%s)", tp, state.leader, list(state.isr), reason)
            elif isinstance(result, NodeExistsError):
                existing.append(tp)
            elif isinstance(result, NoNodeError):
                log.warning("%s: cannot be created, its topic is gone", tp)
            else:
                raise result
        for topic, number in topics.items():
            log.info("topic %s: %d partitions have their first leader (%s)", topic, number, reason)
        if existing:
            await self.refresh(existing)
        return created

    def _record(self, before: LeaderAndIsr | None, after: LeaderAndIsr, reason: str) -> None:
        leader = "no leader" if after.leader == NO_LEADER else f"leader {after.leader}"
        if before is None:
            change = f"{leader}, its first"
        elif before.leader == after.leader:
            change = f"{leader} stays"
        else:
            change = f"{leader} instead of {'none' if before.leader == NO_LEADER else before.leader}"
        self._active.record(
            EventKind.LEADERSHIP,
            f"{after.topic_partition}: {change}, ISR {', '.join(map(str, after.isr))}",
            topic=after.topic,
            partition=after.partition,
            controller_epoch=self._active.epoch,
            leader_epoch=after.leader_epoch,
            zxid=after.mzxid,
            why=reason,
        )

    async def refresh(self, partitions: Iterable[TopicPartition], watch: Watch | None = None) -> list[TopicPartition]:
        """Read states again; returns the partitions whose state differs from the known one."""
        active = self._active
        context = active.context
        wanted = [tp for tp in partitions if context.assignment(tp) is not None]
        read = await active.stores.topics.states(context.topic_values(wanted), wanted, watch)
        active.check()
        changed = []
        for tp in wanted:
            state = read.get(tp)
            known = context.states.get(tp)
            if state is None:
                context.states.pop(tp, None)
            elif known is None or state.order != known.order or state.isr != known.isr:
                context.set_state(state)
                changed.append(tp)
        return changed


def _log_change(before: LeaderAndIsr, after: LeaderAndIsr, reason: str) -> None:
    log.info(
        "%s: leader %s, leader epoch %d, isr %s -> %s (%s)",
        after.topic_partition,
        f"{before.leader} -> {after.leader}" if before.leader != after.leader else f"{after.leader} stays",
        after.leader_epoch,
        list(before.isr),
        list(after.isr),
        reason,
    )
