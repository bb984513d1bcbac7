"""Brokers that come, go, come back, want to stop, or lose a log directory.

Answers to: ``KafkaController.{processBrokerChange,onBrokerStartup,onBrokerFailure,onReplicasBecomeOffline,
doControlledShutdown,processLogDirEventNotification,processLeaderAndIsrResponseReceived}``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from kafkalite.cluster.control import ControlledShutdownRequest, ControlResponse
from kafkalite.common.errors import ErrorCode
from kafkalite.controller import elections
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.events import BrokerChange, LeaderAndIsrAnswered, LogDirEvent, ReassignmentProgress
from kafkalite.controller.partition_state_machine import PartitionStateMachine
from kafkalite.controller.topic_deletion import TopicDeletion
from kafkalite.zk.zk_client import Delete
from kafkalite.zk.znodes.notifications import LOG_DIR_EVENTS

log = logging.getLogger(__name__)


class BrokerEvents:
    """What the controller does about ``/brokers/ids`` and about what brokers say of themselves."""

    def __init__(self, active: ActiveController, machine: PartitionStateMachine, deletion: TopicDeletion) -> None:
        self._active = active
        self._machine = machine
        self._deletion = deletion

    async def brokers_changed(self) -> None:
        """Compare the registered brokers with those known.

        All brokers that came count before any partition is planned for. So a broker that went and one that restarted
        uncleanly are told apart, although both are seen at once: the partition waits for the one that went.
        """
        active = self._active
        context = active.context
        live = await active.stores.brokers.live(active.watch(BrokerChange()))
        active.check()
        known = dict(context.brokers)
        came = {broker_id for broker_id in live if broker_id not in known}
        went = {broker_id for broker_id in known if broker_id not in live}
        bounced = {i for i, broker in live.items() if i in known and broker.epoch != known[i].epoch}
        moved = {i for i, broker in live.items() if i in known and i not in bounced and broker != known[i]}
        if not (came or went or bounced or moved):
            return
        log.info(
            "brokers: %s came, %s went, %s restarted, %s changed; alive: %s",
            sorted(came),
            sorted(went),
            sorted(bounced),
            sorted(moved),
            sorted(live),
        )
        for broker_id in went | bounced:
            context.remove_broker(broker_id)
            active.sender.remove_broker(broker_id)
        for broker_id in moved:
            context.brokers[broker_id] = live[broker_id]
            active.sender.update_broker(live[broker_id])
        for broker_id in sorted(came | bounced):
            context.brokers[broker_id] = live[broker_id]
            active.sender.add_broker(live[broker_id])
        if went or bounced:
            await self._failed(went, bounced)
        if came or bounced:
            await self._started(came | bounced)
        active.batch.brokers_changed()

    async def _failed(self, went: Collection[int], bounced: Collection[int]) -> None:
        broker_ids = {*went, *bounced}
        partitions = self._active.context.partitions_on(broker_ids)
        events = [f"broker {_numbers(ids)} {what}" for ids, what in ((went, "failed"), (bounced, "restarted")) if ids]
        await self._machine.drop_offline(partitions, ", ".join(events), bounced)
        self._deletion.replicas_lost(broker_ids, partitions)

    async def _started(self, ids: set[int]) -> None:
        active = self._active
        context = active.context
        reason = f"broker {_numbers(ids)} started"
        active.batch.everything(ids)
        partitions = [tp for tp in context.partitions_on(ids) if not context.is_deleting(tp)]
        await self._machine.create([tp for tp in partitions if tp not in context.states], reason)
        await self._machine.drop_offline([tp for tp in partitions if tp in context.states], reason)
        for topic_partition in partitions:
            state = context.states.get(topic_partition)
            for broker_id in ids if state is not None else ():
                assert state is not None
                if broker_id in state.replicas:
                    active.batch.order(broker_id, state)
        await self._machine.elect_unled(reason)
        if any(ids & set(context.states[tp].assignment.target) for tp in context.reassigning if tp in context.states):
            active.put(ReassignmentProgress())
        await self._deletion.replicas_back(ids)

    async def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControlResponse:
        """Move leaderships off the broker and take it out of the ISRs; the answer lists what it still leads."""
        active = self._active
        context = active.context
        broker = context.brokers.get(request.broker_id)
        if broker is None:
            return ControlResponse(ErrorCode.BROKER_NOT_AVAILABLE)
        if request.broker_epoch != broker.epoch:
            log.debug("controlled shutdown of a former broker %d refused", broker.id)
            return ControlResponse(ErrorCode.STALE_BROKER_EPOCH)
        log.info("broker %d shuts down", broker.id)
        context.shutting_down[broker.id] = broker.epoch
        partitions = [
            tp
            for tp in context.partitions_on([broker.id])
            if tp in context.states and len(context.states[tp].replicas) > 1 and not context.is_deleting(tp)
        ]
        plan = elections.move_off(context, active.epoch, context.shutting_down)
        outcome = await self._machine.change(partitions, plan, f"controlled shutdown of broker {broker.id}")
        for topic_partition, refused in outcome.refused.items():
            log.warning("%s: broker %d must go on leading: %s", topic_partition, broker.id, refused.why)
        left = []
        for topic_partition in partitions:
            state = context.states[topic_partition]
            if state.leader == broker.id:
                left.append((topic_partition, ErrorCode.NONE))
            elif broker.id not in state.isr:
                # It has nothing more to fetch; were it to follow, the new leader would take it back into the ISR.
                active.batch.stop(broker.id, topic_partition, state.leader_epoch, delete=False)
        return ControlResponse(ErrorCode.NONE, tuple(left))

    async def log_dirs_failed(self) -> None:
        """Ask brokers whose log directory failed, or refused a log, for what they serve: by a LeaderAndIsr for all."""
        active = self._active
        context = active.context
        names, broker_ids = await active.stores.notifications.log_dir_events(active.watch(LogDirEvent()))
        active.check()
        for broker_id in broker_ids:
            log.warning("broker %d notifies of its log directories", broker_id)
            partitions = context.partitions_on([broker_id])
            for topic_partition in partitions:
                if topic_partition in context.states and not context.is_deleting(topic_partition):
                    active.batch.order(broker_id, context.states[topic_partition])
            # They get no LeaderAndIsr, so that only the answer to a StopReplica can say whether they are offline still.
            dying = [tp for tp in partitions if context.is_deleting(tp)]
            context.offline_dirs.get(broker_id, set()).difference_update(dying)
            await self._deletion.directory_back(broker_id, dying)
        await active.commit_all([Delete(f"{LOG_DIR_EVENTS}/{name}") for name in names])

    async def leader_and_isr_answered(self, event: LeaderAndIsrAnswered) -> None:
        """Replicas that answered KAFKA_STORAGE_ERROR are offline; those that answered well are not (any more)."""
        context = self._active.context
        broker = context.brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        offline = context.offline_dirs.setdefault(event.broker_id, set())
        news = [tp for tp in event.offline if tp not in offline and context.assignment(tp) is not None]
        back = [tp for tp in event.online if tp in offline]
        offline.update(news)
        offline.difference_update(back)
        if news:
            log.warning("broker %d: log directory of %s failed", broker.id, ", ".join(map(str, news)))
            await self._machine.drop_offline(news, f"log directory on broker {broker.id} failed")
            self._deletion.replicas_lost([broker.id], news)
        if back:
            serving = [tp for tp in back if not context.is_deleting(tp)]
            await self._machine.settle(serving, f"log directory on broker {broker.id} is back")
            await self._deletion.directory_back(broker.id, back)


def _numbers(broker_ids: Collection[int]) -> str:
    return ", ".join(map(str, sorted(broker_ids)))
