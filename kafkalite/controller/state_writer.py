"""Partition states: planned from the context, written against their version, read again where the context was too old.

Answers to: ``PartitionStateMachine.{doElectLeaderForPartitions,initializeLeaderAndIsrForPartitions}`` and
``ReplicaStateMachine.removeReplicasFromIsr`` (the writing in them). Reactor shell.

A state znode at the version that the context holds says exactly what the context says. So a plan is made without
reading first, and only a state that its leader wrote meanwhile (the ISR) is read again and planned anew. A refusal
writes nothing, so no version shows whether the context was up to date: its state is read again before it counts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.elections import Planner, Refused
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
            for topic_partition in pending:
                state = context.states.get(topic_partition)
                if state is None:
                    continue
                wanted = plan(state)
                if wanted is not None and state.controller_epoch > active.epoch:
                    # Where a later controller exists, the next write is refused; its own states are left as they are.
                    wanted = Refused(ErrorCode.STALE_CONTROLLER_EPOCH, "a later controller wrote its state")
                if isinstance(wanted, Refused):
                    outcome.refused[topic_partition] = wanted
                    if topic_partition not in verified:
                        doubtful.append(topic_partition)
                elif wanted is not None:
                    outcome.refused.pop(topic_partition, None)
                    planned.append(wanted)
            stale = await self._update(planned, reason, outcome) if planned else []
            verified.update(doubtful)
            changed = await self.refresh([*stale, *doubtful]) if stale or doubtful else []
            pending = [*stale, *(tp for tp in changed if tp in verified and tp not in stale)]
            if not pending:
                return outcome
        for topic_partition in pending:
            outcome.refused[topic_partition] = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "its state keeps changing")
        return outcome

    async def _update(
        self, planned: Sequence[LeaderAndIsr], reason: str, outcome: StateWriteResult
    ) -> list[TopicPartition]:
        """Write; returns the partitions whose znode has another version."""
        active = self._active
        results = await active.stores.controller.update_states(active.claim, planned)
        active.check()
        stale = []
        for topic_partition, result in results.items():
            if isinstance(result, LeaderAndIsr):
                before = active.context.states[topic_partition]
                # The writer may know an assignment that is not in the context yet.
                active.context.set_state(result)
                outcome.changed[topic_partition] = result
                _log_change(before, result, reason)
            elif isinstance(result, BadVersionError):
                stale.append(topic_partition)
            elif isinstance(result, NoNodeError):
                refused = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "its state znode is gone")
                outcome.refused[topic_partition] = refused
            else:
                raise result
        return stale

    async def create(self, states: Sequence[LeaderAndIsr], reason: str) -> dict[TopicPartition, LeaderAndIsr]:
        """Create the states of new partitions; where one exists already, the existing one counts."""
        active = self._active
        context = active.context
        created: dict[TopicPartition, LeaderAndIsr] = {}
        existing = []
        topics: dict[str, int] = {}
        active.check()
        results = await active.stores.controller.create_states(active.claim, states)
        active.check()
        for topic_partition, result in results.items():
            if isinstance(result, LeaderAndIsr):
                state = context.set_state(result)
                created[topic_partition] = state
                topics[state.topic] = topics.get(state.topic, 0) + 1
                if log.isEnabledFor(logging.DEBUG):
                    log.debug("%s: leader %d, isr %s (%s)", topic_partition, state.leader, list(state.isr), reason)
            elif isinstance(result, NodeExistsError):
                existing.append(topic_partition)
            elif isinstance(result, NoNodeError):
                log.warning("%s: cannot be created, its topic is gone", topic_partition)
            else:
                raise result
        for topic, number in topics.items():
            log.info("topic %s: %d partitions have their first leader (%s)", topic, number, reason)
        if existing:
            await self.refresh(existing)
        return created

    async def refresh(self, partitions: Iterable[TopicPartition], watch: Watch | None = None) -> list[TopicPartition]:
        """Read states again; returns the partitions whose state is another than was known."""
        active = self._active
        context = active.context
        wanted = [tp for tp in partitions if context.assignment(tp) is not None]
        read = await active.stores.topics.states(context.topic_values(wanted), wanted, watch)
        active.check()
        changed = []
        for topic_partition in wanted:
            state = read.get(topic_partition)
            known = context.states.get(topic_partition)
            if state is None:
                context.states.pop(topic_partition, None)
            elif known is None or state.order != known.order or state.isr != known.isr:
                context.set_state(state)
                changed.append(topic_partition)
        return changed


def _log_change(before: LeaderAndIsr, after: LeaderAndIsr, reason: str) -> None:
    if before.leader != after.leader:
        log.info(
            "%s: leader %d -> %d, leader epoch %d, isr %s -> %s (%s)",
            after.topic_partition,
            before.leader,
            after.leader,
            after.leader_epoch,
            list(before.isr),
            list(after.isr),
            reason,
        )
    else:
        log.info(
            "%s: leader %d stays, leader epoch %d, isr %s -> %s (%s)",
            after.topic_partition,
            after.leader,
            after.leader_epoch,
            list(before.isr),
            list(after.isr),
            reason,
        )
