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
from kafkalite.controller.controller_context import Deletion
from kafkalite.controller.events import ResumeDeletions, StopReplicaAnswered, TopicDeletionRequested
from kafkalite.controller.partition_states import PartitionState
from kafkalite.controller.replica_states import ReplicaState
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
        there = await active.stores.topics.assignments(unknown) if unknown else {}
        active.check()
        self.not_yet_known = set(there)
        refused = [name for name in names if not allowed or (name not in context.topics and name not in there)]
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
        context.deleting[name] = Deletion()
        if any(tp.topic == name for tp in context.reassigning):
            self.block([name], REASSIGNED)

    def block(self, names: Iterable[str], reason: str) -> None:
        """Suspend the deletion of these topics, as far as they are to be deleted."""
        for name in names:
            deletion = self._active.context.deleting.get(name)
            if deletion is not None and not deletion.blocked:
                deletion.blocked = reason
                log.info("deletion of topic %s waits: %s", name, reason)

    def unblock(self, names: Iterable[str]) -> None:
        """Let the deletion of these topics go on; an event of its own resumes it."""
        for name in names:
            deletion = self._active.context.deleting.get(name)
            if deletion is not None:
                deletion.blocked = ""
                self._active.put(ResumeDeletions())

    async def resume(self) -> None:
        """Take every queued topic as far as it can go now."""
        context = self._active.context
        for name, deletion in list(context.deleting.items()):
            topic = context.topics[name]
            states = {
                context.replica_state(tp, broker_id)
                for tp in topic.topic_partitions()
                for broker_id in topic.partitions[tp.partition].replicas
            }
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                await self._complete(name)
            elif ReplicaState.DELETION_STARTED not in states and not deletion.blocked:
                self._start(name)

    def _start(self, name: str) -> None:
        """Stop every replica that is not deleted yet."""
        active = self._active
        context = active.context
        topic = context.topics[name]
        active.batch.add_topic_deletion(name)
        missing: set[int] = set()
        told = 0
        for topic_partition in topic.topic_partitions():
            if topic_partition in context.partition_states:
                context.move_partition(topic_partition, PartitionState.OFFLINE)
                context.move_partition(topic_partition, PartitionState.NON_EXISTENT)
            for broker_id in topic.partitions[topic_partition.partition].replicas:
                state = context.replica_state(topic_partition, broker_id)
                if state in _STOPPED:
                    continue
                if state is ReplicaState.NON_EXISTENT:
                    context.move_replica(topic_partition, broker_id, ReplicaState.NEW)
                context.move_replica(topic_partition, broker_id, ReplicaState.OFFLINE)
                if context.is_reachable(broker_id, topic_partition):
                    context.move_replica(topic_partition, broker_id, ReplicaState.DELETION_STARTED)
                    active.batch.add_stop_replica(broker_id, topic_partition, EPOCH_DURING_DELETE, delete=True)
                    told += 1
                else:
                    context.move_replica(topic_partition, broker_id, ReplicaState.DELETION_INELIGIBLE)
                    missing.add(broker_id)
        log.info("deletion of topic %s: %d replicas are told to delete their logs", name, told)
        if missing:
            self.block([name], f"replicas on {sorted(missing)} cannot be reached")

    async def answered(self, event: StopReplicaAnswered) -> None:
        """A broker answered StopReplica: it says which logs it deleted."""
        context = self._active.context
        broker = context.brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        for topic_partition in event.deleted:
            if context.replica_state(topic_partition, broker.id) is ReplicaState.DELETION_STARTED:
                context.move_replica(topic_partition, broker.id, ReplicaState.DELETION_SUCCESSFUL)
        self._ineligible(event.failed, [broker.id], f"broker {broker.id} could not delete its logs")
        await self.resume()

    def replicas_lost(self, broker_ids: Collection[int], partitions: Iterable[TopicPartition]) -> None:
        """Brokers failed, or their log directory did: their replicas cannot be deleted for now."""
        dying = [tp for tp in partitions if self._active.context.is_deleting(tp)]
        self._ineligible(dying, broker_ids, f"replicas on {sorted(broker_ids)} cannot be reached")

    def _ineligible(self, partitions: Iterable[TopicPartition], broker_ids: Collection[int], reason: str) -> None:
        context = self._active.context
        topics = set()
        for topic_partition in partitions:
            for broker_id in broker_ids:
                if context.replica_state(topic_partition, broker_id) is ReplicaState.DELETION_STARTED:
                    context.move_replica(topic_partition, broker_id, ReplicaState.DELETION_INELIGIBLE)
                    topics.add(topic_partition.topic)
        self.block(sorted(topics), reason)

    async def replicas_back(self, broker_ids: Collection[int]) -> None:
        """Brokers registered: the deletion of topics that waited for them goes on.

        A broker that had deleted its logs gets StopReplica again, because ZooKeeper still had the topic when the broker
        started, so the broker created the logs anew.
        """
        context = self._active.context
        dying = [tp for tp in context.partitions_on(broker_ids) if context.is_deleting(tp)]
        for topic_partition in dying:
            for broker_id in broker_ids:
                if context.replica_state(topic_partition, broker_id) is ReplicaState.DELETION_SUCCESSFUL:
                    context.move_replica(topic_partition, broker_id, ReplicaState.NON_EXISTENT)
        await self._unblock({tp.topic for tp in dying})

    async def directory_back(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Replicas of ``broker_id`` may be reachable again: the deletion of topics that waits for them goes on."""
        state_of = self._active.context.replica_state
        await self._unblock(
            {tp.topic for tp in partitions if state_of(tp, broker_id) is ReplicaState.DELETION_INELIGIBLE}
        )

    async def _unblock(self, topics: Iterable[str]) -> None:
        """Resume ``topics``, except those that wait for a reassignment, which unblocks them itself at its end."""
        for name in sorted(topics):
            deletion = self._active.context.deleting.get(name)
            if deletion is not None and deletion.blocked != REASSIGNED:
                deletion.blocked = ""
        await self.resume()

    async def _complete(self, name: str) -> None:
        active = self._active
        await active.stores.controller.delete_topic(active.claim, name)
        active.check()
        active.context.remove_topic(name)
        log.info("topic %s is deleted", name)
