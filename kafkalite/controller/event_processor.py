"""Which part of the controller handles which event, during one controller epoch.

Answers to: ``KafkaController.{onControllerFailover,initializeControllerContext,process}``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from kafkalite.common.events import EventKind
from kafkalite.common.types import TopicPartition
from kafkalite.controller import events
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.broker_events import BrokerEvents
from kafkalite.controller.events import Event
from kafkalite.controller.partition_reassignments import PartitionReassignments
from kafkalite.controller.partition_state_machine import PartitionStateMachine
from kafkalite.controller.replica_leader_elections import ReplicaLeaderElections
from kafkalite.controller.state_writer import StateWriter
from kafkalite.controller.topic_deletion import TopicDeletion
from kafkalite.controller.topic_events import TopicEvents
from kafkalite.zk.zk_client import Delete
from kafkalite.zk.znodes.admin import ISR_CHANGES, LOG_DIR_EVENTS

log = logging.getLogger(__name__)
T = TypeVar("T")


class ControllerEventProcessor:
    """The parts of the active controller, and the handler of each event."""

    def __init__(self, active: ActiveController) -> None:
        self.active = active
        writer = StateWriter(active)
        machine = PartitionStateMachine(active, writer)
        self._writer = writer
        self._machine = machine
        self.deletion = TopicDeletion(active)
        self.topics = TopicEvents(active, machine, writer)
        self.brokers = BrokerEvents(active, machine, self.deletion)
        self.reassignments = PartitionReassignments(active, machine, writer, self.topics, self.deletion)
        self.leadership = ReplicaLeaderElections(active, machine)
        self._handlers: dict[type, Callable[[], Awaitable[object]]] = {
            events.BrokerChange: self.brokers.brokers_changed,
            events.TopicChange: self._topics_changed,
            events.TopicDeletionRequested: self.deletion.requested,
            events.ResumeDeletions: self.deletion.resume,
            events.IsrChange: self._isr_changed,
            events.LogDirEvent: self.brokers.log_dirs_failed,
            events.PartitionReassignment: self.reassignments.from_znode,
            events.PreferredReplicaElection: self.leadership.from_znode,
            events.AutoRebalance: self.leadership.rebalance,
            events.UncleanElectionAllowed: lambda: machine.elect_leaderless("unclean elections are allowed"),
        }

    async def handle(self, work: Awaitable[T]) -> T:
        """Do ``work`` for an event or request. Requests for committed states are sent even if the rest of it fails."""
        try:
            return await work
        finally:
            if not self.active.over:
                self.active.flush()

    def work_for(self, event: Event) -> Awaitable[object]:
        """The work that ``event`` requests; it has not begun."""
        match event:
            case events.PartitionModifications():
                return self.topics.partitions_modified(event.topic)
            case events.StopReplicaAnswered():
                return self.deletion.answered(event)
            case events.LeaderAndIsrAnswered():
                return self.brokers.leader_and_isr_answered(event)
            case events.ReassignmentProgress():
                return self._reassignment_progress(event)
            case _:
                return self._handlers[type(event)]()

    async def take_over(self, shutting_down: Mapping[int, int]) -> None:
        """Read everything, after the claim and in its session; elect missing leaders; send everything to all brokers.

        ``shutting_down`` are the brokers (with their epochs) that had asked for a controlled shutdown before everything
        is read again: a broker asks once, so it must get no leadership back.
        """
        active = self.active
        stores, context = active.stores, active.context
        context.shutting_down.update(shutting_down)
        notifications = stores.notifications
        stale_isr, _ = await notifications.isr_changes(active.watch(events.IsrChange()))
        stale_dirs, _ = await notifications.log_dir_events(active.watch(events.LogDirEvent()))
        # Remove the stale notifications: the states that they announce are read below.
        await active.commit_each([Delete(f"{ISR_CHANGES}/{name}") for name in stale_isr])
        await active.commit_each([Delete(f"{LOG_DIR_EVENTS}/{name}") for name in stale_dirs])
        live, context.brokers_version = await stores.brokers.live(active.watch(events.BrokerChange()))
        context.brokers.update(live)
        for broker_id, epoch in shutting_down.items():
            if context.broker_epoch(broker_id) != epoch:
                del context.shutting_down[broker_id]
        names = await stores.topics.names(active.watch(events.TopicChange()))
        found = await stores.topics.assignments(names, active.on_topic)
        to_delete = await stores.admin.delete_topics(active.watch(events.TopicDeletionRequested()))
        for name, (assignment, version) in found.items():
            context.put_topic(name, assignment, version)
        for name in to_delete if active.config.delete_topic else ():
            if name in found:
                self.deletion.enqueue(name)
        await self.topics.add_topic_ids(found)
        states = await stores.topics.states({name: topic.value() for name, topic in context.topics.items()})
        active.check()
        for state in states.values():
            context.set_state(state)
        for broker in context.brokers.values():
            active.channels.add_broker(broker)
        log.info(
            "controller epoch %d: brokers %s, %d topics, %d partitions, %d to be deleted",
            active.epoch,
            sorted(context.brokers),
            len(context.topics),
            len(states),
            len(context.deleting),
        )
        active.record(
            EventKind.CONTROLLER,
            f"the controller has read the cluster: brokers {', '.join(map(str, sorted(context.brokers)))}, "
            f"{len(context.topics)} topics, {len(states)} partitions",
            controller_epoch=active.epoch,
        )
        active.batch.add_all_metadata(context.brokers)
        partitions = sorted(tp for tp in context.all_partitions() if not context.is_deleting(tp))
        reason = "a new controller"
        await self._machine.bring_online([tp for tp in partitions if tp in context.states], reason)
        await self._machine.create([tp for tp in partitions if tp not in context.states], reason)
        active.flush()
        # The rest is not urgent, and each event sends its own requests.
        active.put(events.TopicDeletionRequested())
        active.put(events.ReassignmentProgress())
        active.put(events.PreferredReplicaElection())

    async def _topics_changed(self) -> None:
        await self.topics.topics_changed()
        if self.deletion.not_yet_known:
            # The request to delete a topic was read before the topic.
            await self.deletion.requested()

    async def _isr_changed(self) -> None:
        await self.reassignments.progress(await self.topics.isr_changed())

    async def _reassignment_progress(self, event: events.ReassignmentProgress) -> None:
        if event.topic:
            await self.reassignments.progress([TopicPartition(event.topic, event.partition)])
        else:
            await self.reassignments.resume()
