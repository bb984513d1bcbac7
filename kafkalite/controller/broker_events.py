"""Brokers that register, fail, restart, shut down, or lose a log directory.

Answers to: ``KafkaController.{processBrokerChange,onBrokerStartup,onBrokerFailure,onReplicasBecomeOffline,
doControlledShutdown,processLogDirEventNotification,processLeaderAndIsrResponseReceived}``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from kafkalite.cluster.control import ControlledShutdownRequest, ControlResponse
from kafkalite.common.errors import ErrorCode
from kafkalite.common.events import EventKind
from kafkalite.controller import elections
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.events import BrokerChange, LeaderAndIsrAnswered, LogDirEvent, ReassignmentProgress
from kafkalite.controller.partition_state_machine import PartitionStateMachine
from kafkalite.controller.topic_deletion import TopicDeletion
from kafkalite.zk.zk_client import Delete
from kafkalite.zk.znodes.admin import LOG_DIR_EVENTS

log = logging.getLogger(__name__)


class BrokerEvents:
    """Handles changes of ``/brokers/ids``, and what brokers report about themselves."""

    def __init__(self, active: ActiveController, machine: PartitionStateMachine, deletion: TopicDeletion) -> None:
        self._active = active
        self._machine = machine
        self._deletion = deletion

    async def brokers_changed(self) -> None:
        """Compare the registered brokers with the known ones.

        The context has all new brokers before the first election. So a broker that failed and one that restarted
        uncleanly are told apart, although both are seen at once: the partition waits for the failed one.
        """
        active = self._active
        context = active.context
        live, version = await active.stores.brokers.live(active.watch(BrokerChange()))
        active.check()
        context.brokers_version = version
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
        for what, ids in (("came", came), ("went", went), ("restarted", bounced), ("changed", moved)):
            if ids:
                active.record(
                    EventKind.REGISTRATION,
                    f"the controller sees that broker {_numbers(ids)} {what}; alive: {_numbers(live)}",
                    controller_epoch=active.epoch,
                    cause=max((live[each].epoch for each in ids if each in live), default=-1),
                )
        for broker_id in went | bounced:
            context.remove_broker(broker_id)
            active.channels.remove_broker(broker_id)
        for broker_id in moved:
            context.brokers[broker_id] = live[broker_id]
            active.channels.update_broker(live[broker_id])
        for broker_id in sorted(came | bounced):
            context.brokers[broker_id] = live[broker_id]
            active.channels.add_broker(live[broker_id])
        if went or bounced:
            await self._failed(went, bounced)
        if came or bounced:
            await self._started(came | bounced)
        active.batch.add_live_brokers()

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
        active.batch.add_all_metadata(ids)
        partitions = [tp for tp in context.partitions_on(ids) if not context.is_deleting(tp)]
        await self._machine.create([tp for tp in partitions if tp not in context.states], reason)
        await self._machine.drop_offline([tp for tp in partitions if tp in context.states], reason)
        for tp in partitions:
            state = context.states.get(tp)
            for broker_id in ids if state is not None else ():
                assert state is not None
                if broker_id in state.replicas:
                    active.batch.add_leader_and_isr(broker_id, state)
        await self._machine.elect_leaderless(reason)
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
        active.record(
            EventKind.REGISTRATION,
            f"broker {broker.id} asks for its controlled shutdown",
            controller_epoch=active.epoch,
            cause=broker.epoch,
        )
        context.shutting_down[broker.id] = broker.epoch
        partitions = [
            tp
            for tp in context.partitions_on([broker.id])
            if tp in context.states and len(context.states[tp].replicas) > 1 and not context.is_deleting(tp)
        ]
        plan = elections.move_off(context, active.epoch, context.shutting_down)
        outcome = await self._machine.change(partitions, plan, f"controlled shutdown of broker {broker.id}")
        for tp, refused in outcome.refused.items():
            log.warning("%s: broker %d must go on leading: %s", tp, broker.id, refused.why)
        left = []
        for tp in partitions:
            state = context.states[tp]
            if state.leader == broker.id:
                left.append((tp, ErrorCode.NONE))
            elif broker.id not in state.isr:
                # A replica that went on fetching would be taken back into the ISR by the new leader.
                active.batch.add_stop_replica(broker.id, tp, state.leader_epoch, delete=False)
        return ControlResponse(ErrorCode.NONE, tuple(left))

    async def log_dirs_failed(self) -> None:
        """Send a LeaderAndIsr for all replicas to brokers whose log directory failed, to learn which are offline."""
        active = self._active
        context = active.context
        names, broker_ids = await active.stores.notifications.log_dir_events(active.watch(LogDirEvent()))
        active.check()
        for broker_id in broker_ids:
            log.warning("broker %d notifies of its log directories", broker_id)
            partitions = context.partitions_on([broker_id])
            for tp in partitions:
                if tp in context.states and not context.is_deleting(tp):
                    active.batch.add_leader_and_isr(broker_id, context.states[tp])
            # Replicas that are being deleted get no LeaderAndIsr: the answer to StopReplica says if they are offline.
            deleted = [tp for tp in partitions if context.is_deleting(tp)]
            context.offline_dirs.get(broker_id, set()).difference_update(deleted)
            await self._deletion.directory_back(broker_id, deleted)
        await active.commit_each([Delete(f"{LOG_DIR_EVENTS}/{name}") for name in names])

    async def leader_and_isr_answered(self, event: LeaderAndIsrAnswered) -> None:
        """Replicas with KAFKA_STORAGE_ERROR are offline; replicas without an error are online (again)."""
        context = self._active.context
        broker = context.brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        offline = context.offline_dirs.setdefault(event.broker_id, set())
        newly_offline = [tp for tp in event.offline if tp not in offline and context.assignment(tp) is not None]
        back = [tp for tp in event.online if tp in offline]
        offline.update(newly_offline)
        offline.difference_update(back)
        if newly_offline:
            log.warning("broker %d: log directory of %s failed", broker.id, ", ".join(map(str, newly_offline)))
            self._active.record(
                EventKind.LOG_DIRECTORY,
                f"the controller takes {len(newly_offline)} replicas of broker {broker.id} offline",
                controller_epoch=self._active.epoch,
                why="a log directory failed",
            )
            await self._machine.drop_offline(newly_offline, f"log directory on broker {broker.id} failed")
            self._deletion.replicas_lost([broker.id], newly_offline)
        if back:
            serving = [tp for tp in back if not context.is_deleting(tp)]
            await self._machine.bring_online(serving, f"log directory on broker {broker.id} is back")
            await self._deletion.directory_back(broker.id, back)


def _numbers(broker_ids: Collection[int]) -> str:
    return ", ".join(map(str, sorted(broker_ids)))
