"""Deletion of topics.

Answers to: ``kafka.controller.TopicDeletionManager``. Reactor shell.

A topic is deleted in this order: UpdateMetadata tells every broker of the deletion; StopReplica tells every reachable
replica to delete its log; once *all* replicas have answered that they did, the controller removes the znodes, with the
last of them the request in ``/admin/delete_topics``. A replica that cannot be reached blocks its topic until its broker
or its log directory returns. A controller that takes over in between begins again with the first step, so each step may
be made twice.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from kafkalite.cluster.control import EPOCH_DURING_DELETE
from kafkalite.common.types import TopicPartition
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.events import ResumeDeletions, StopReplicaAnswered, TopicDeletionRequested
from kafkalite.controller.states import PartitionState, ReplicaState
from kafkalite.zk.zk_client import Delete
from kafkalite.zk.znodes.admin import delete_topic_path

log = logging.getLogger(__name__)
REASSIGNED = "a reassignment is in progress"
_STOPPED = (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL)


class TopicDeletion:
    """Keeps ``context.deleting`` and takes the replicas of its topics through the states of deletion."""

    def __init__(self, active: ActiveController) -> None:
        self._active = active
        self.not_yet_known: set[str] = set()
        """Topics that are to be deleted and exist, but that the controller has not read yet."""

    async def requested(self) -> None:
        """``/admin/delete_topics`` changed: queue new requests, and remove those that cannot be carried out."""
        active = self._active
        context = active.context
        names = await active.stores.admin.delete_topics(active.watch(TopicDeletionRequested()))
        active.check()
        allowed = active.config.delete_topic
        # A topic may be newer than the context, so it is read: a request for a topic without a znode is removed.
        unknown = [name for name in names if name not in context.topics]
        not_yet_read = await active.stores.topics.assignments(unknown) if unknown else {}
        active.check()
        self.not_yet_known = set(not_yet_read)
        refused = [name for name in names if not allowed or (name not in context.topics and name not in not_yet_read)]
        for name in refused:
            why = "it does not exist" if allowed else "delete.topic.enable is false"
            log.warning("topic %s is not deleted: %s", name, why)
        await active.commit_each([Delete(delete_topic_path(name)) for name in refused])
        for name in names if allowed else ():
            if name in context.topics and name not in context.deleting:
                self.enqueue(name)
        await self.resume()

    def enqueue(self, name: str) -> None:
        """Mark a topic as to be deleted."""
        context = self._active.context
        log.info("topic %s is to be deleted", name)
        context.deleting[name] = ""
        if any(tp.topic == name for tp in context.reassigning):
            self.block([name], REASSIGNED)

    def block(self, names: Iterable[str], reason: str) -> None:
        """Suspend the deletion of these topics, as far as they are to be deleted."""
        for name in names:
            if self._active.context.deleting.get(name) == "":
                self._active.context.deleting[name] = reason
                log.info("deletion of topic %s waits: %s", name, reason)

    def unblock(self, names: Iterable[str]) -> None:
        """Let the deletion of these topics go on; an event of its own resumes it."""
        deleting = self._active.context.deleting
        for name in names:
            if name in deleting:
                deleting[name] = ""
                self._active.put(ResumeDeletions())

    async def resume(self) -> None:
        """Continue the deletion of every queued topic as far as possible."""
        context = self._active.context
        for name, blocked in list(context.deleting.items()):
            topic = context.topics[name]
            states = {
                context.replica_state(tp, broker_id)
                for tp in topic.topic_partitions()
                for broker_id in topic.partitions[tp.partition].replicas
            }
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                await self._complete(name)
            elif ReplicaState.DELETION_STARTED not in states and not blocked:
                self._start(name)

    def _start(self, name: str) -> None:
        """Stop every replica that is not deleted yet."""
        active = self._active
        context = active.context
        topic = context.topics[name]
        active.batch.add_topic_deletion(name)
        missing: set[int] = set()
        requested = 0
        for tp in topic.topic_partitions():
            if tp in context.partition_states:
                context.move_partition(tp, PartitionState.OFFLINE)
                context.move_partition(tp, PartitionState.NON_EXISTENT)
            for broker_id in topic.partitions[tp.partition].replicas:
                state = context.replica_state(tp, broker_id)
                if state in _STOPPED:
                    continue
                if state is ReplicaState.NON_EXISTENT:
                    context.move_replica(tp, broker_id, ReplicaState.NEW)
                context.move_replica(tp, broker_id, ReplicaState.OFFLINE)
                if context.is_reachable(broker_id, tp):
                    context.move_replica(tp, broker_id, ReplicaState.DELETION_STARTED)
                    active.batch.add_stop_replica(broker_id, tp, EPOCH_DURING_DELETE, delete=True)
                    requested += 1
                else:
                    context.move_replica(tp, broker_id, ReplicaState.DELETION_INELIGIBLE)
                    missing.add(broker_id)
        log.info("deletion of topic %s: %d replicas are requested to delete their logs", name, requested)
        if missing:
            self.block([name], f"replicas on {sorted(missing)} cannot be reached")

    async def answered(self, event: StopReplicaAnswered) -> None:
        """A broker answered StopReplica with the logs that it deleted."""
        context = self._active.context
        broker = context.brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        for tp in event.deleted:
            if context.replica_state(tp, broker.id) is ReplicaState.DELETION_STARTED:
                context.move_replica(tp, broker.id, ReplicaState.DELETION_SUCCESSFUL)
        self._ineligible(event.failed, [broker.id], f"broker {broker.id} could not delete its logs")
        await self.resume()

    def replicas_lost(self, broker_ids: Collection[int], partitions: Iterable[TopicPartition]) -> None:
        """Brokers or one of their log directories failed, so their replicas cannot be deleted before they return."""
        deleting = [tp for tp in partitions if self._active.context.is_deleting(tp)]
        self._ineligible(deleting, broker_ids, f"replicas on {sorted(broker_ids)} cannot be reached")

    def _ineligible(self, partitions: Iterable[TopicPartition], broker_ids: Collection[int], reason: str) -> None:
        context = self._active.context
        topics = set()
        for tp in partitions:
            for broker_id in broker_ids:
                if context.replica_state(tp, broker_id) is ReplicaState.DELETION_STARTED:
                    context.move_replica(tp, broker_id, ReplicaState.DELETION_INELIGIBLE)
                    topics.add(tp.topic)
        self.block(sorted(topics), reason)

    async def replicas_back(self, broker_ids: Collection[int]) -> None:
        """Brokers registered: the deletion of topics that waited for them goes on.

        A broker that had deleted its logs gets StopReplica again: ZooKeeper still had the topic when the broker
        started, and if an operator had removed the request, the broker created the logs again.
        """
        context = self._active.context
        deleting = [tp for tp in context.partitions_on(broker_ids) if context.is_deleting(tp)]
        for tp in deleting:
            for broker_id in broker_ids:
                if context.replica_state(tp, broker_id) is ReplicaState.DELETION_SUCCESSFUL:
                    context.move_replica(tp, broker_id, ReplicaState.NON_EXISTENT)
        await self._unblock({tp.topic for tp in deleting})

    async def directory_back(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Replicas of ``broker_id`` may be reachable again: the deletion of topics that waits for them goes on."""
        state_of = self._active.context.replica_state
        await self._unblock(
            {tp.topic for tp in partitions if state_of(tp, broker_id) is ReplicaState.DELETION_INELIGIBLE}
        )

    async def _unblock(self, topics: Iterable[str]) -> None:
        """Resume ``topics``, except those that wait for a reassignment, which unblocks them itself at its end."""
        deleting = self._active.context.deleting
        for name in sorted(topics):
            if deleting.get(name, REASSIGNED) != REASSIGNED:
                deleting[name] = ""
        await self.resume()

    async def _complete(self, name: str) -> None:
        active = self._active
        await active.stores.controller.delete_topic(active.claim, name)
        active.check()
        active.context.remove_topic(name)
        log.info("topic %s is deleted", name)
