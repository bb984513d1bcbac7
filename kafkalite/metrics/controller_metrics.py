"""The controller: whether this broker is it, and what it knows of the cluster.

Answers to: the gauges of ``kafka.controller.KafkaController``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kafkalite.controller.controller import Controller
from kafkalite.controller.controller_stats import ControllerStats, controller_state
from kafkalite.controller.states import ReplicaState
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample, percentiles


def _gauge(bean: str, meaning: str, remedy: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_controller_kafkacontroller_{bean.lower()}",
        MetricKind.GAUGE,
        meaning,
        bean=f"kafka.controller:type=KafkaController,name={bean}",
        remedy=remedy,
    )


ACTIVE: Final = _gauge(
    "ActiveControllerCount",
    "1 on the broker that is the controller. The sum over all brokers is 1.",
    "With 0 the brokers elect none: see what their logs say of /controller and ZooKeeper.",
)
OFFLINE: Final = _gauge(
    "OfflinePartitionsCount",
    "Partitions without a leader, as the controller knows them; 0 on other brokers.",
    "Start the brokers of their ISRs; kafka-topics --describe --unavailable-partitions names them.",
)
IMBALANCE: Final = _gauge(
    "PreferredReplicaImbalanceCount",
    "Partitions whose leader is not the first of their replicas; 0 on other brokers.",
    "kafka-leader-election --election-type preferred, or leave it to auto.leader.rebalance.enable.",
)
TOPICS: Final = _gauge("GlobalTopicCount", "Topics of the cluster; 0 on brokers that are not the controller.")
PARTITIONS: Final = _gauge("GlobalPartitionCount", "Partitions of the cluster; 0 on other brokers.")
DELETING: Final = _gauge("TopicsToDeleteCount", "Topics that are being deleted; 0 on other brokers.")
WAITING: Final = _gauge(
    "TopicsIneligibleToDeleteCount", "Topics whose deletion waits.", "Start the brokers that hold their replicas."
)
REPLICAS_DELETING: Final = _gauge(
    "ReplicasToDeleteCount",
    "Replicas of topics that are being deleted; 0 on other brokers.",
    "See TopicsToDeleteCount.",
)
REPLICAS_WAITING: Final = _gauge(
    "ReplicasIneligibleToDeleteCount", "Replicas whose deletion waits.", "Start the brokers that hold them."
)
STATE: Final = _gauge(
    "ControllerState",
    "What the controller does: 0 nothing, 1 ControllerChange, 2 BrokerChange, 3 TopicChange, 4 TopicDeletion, "
    "5 PartitionReassignment, 6 AutoLeaderBalance, 7 ManualLeaderBalance, 8 ControlledShutdown, 9 IsrChange, "
    "10 LeaderAndIsrResponseReceived, 11 LogDirChange, 13 UncleanLeaderElectionEnable.",
    "If it stays at one number above 0 while EventQueueSize grows, ZooKeeper does not answer.",
)
BROKERS: Final = _gauge("ActiveBrokerCount", "Registered brokers, as the controller knows them; 0 on other brokers.")
QUEUE: Final = MetricDefinition(
    "kafka_controller_controllereventmanager_eventqueuesize",
    MetricKind.GAUGE,
    "Events that wait for the controller.",
    bean="kafka.controller:type=ControllerEventManager,name=EventQueueSize",
    remedy="If it stays high, ZooKeeper is slow or many partitions change at once.",
)
QUEUE_TIME: Final = MetricDefinition(
    "kafka_controller_controllereventmanager_eventqueuetimems",
    MetricKind.SUMMARY,
    "How long events waited for the controller.",
    unit="milliseconds",
    bean="kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs",
    remedy=QUEUE.remedy,
)
UNCLEAN: Final = MetricDefinition(
    "kafka_controller_controllerstats_uncleanleaderelections",
    MetricKind.COUNTER,
    "Partitions that this controller gave a leader which may lack acknowledged records.",
    bean="kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
    remedy="Records may be lost. Set unclean.leader.election.enable=false where availability matters less.",
)
EVENTS: Final = {
    name: MetricDefinition(
        f"kafka_controller_controllerstats_{name.lower()}rateandtimems",
        MetricKind.SUMMARY,
        f"Events of the controller that Kafka calls {name}, and how long they took.",
        unit="milliseconds",
        bean=f"kafka.controller:type=ControllerStats,name={name}RateAndTimeMs",
    )
    for name in ControllerStats.EVENTS
}
REQUESTS: Final = MetricDefinition(
    "kafka_controller_controllerchannelmanager_queuesize",
    MetricKind.GAUGE,
    "Requests of this controller that wait for a broker's answer to an earlier one.",
    ("broker_id",),
    bean="kafka.controller:type=ControllerChannelManager,name=QueueSize,broker-id={id}",
    remedy="The broker does not answer: see its log.",
)
REQUEST_TIMES: Final = MetricDefinition(
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems",
    MetricKind.SUMMARY,
    "Requests that this controller sent to a broker, and how long they waited to be sent.",
    ("broker_id",),
    "milliseconds",
    "kafka.controller:type=ControllerChannelManager,name=RequestRateAndQueueTimeMs,broker-id={id}",
    REQUESTS.remedy,
)
ALL_REQUESTS: Final = MetricDefinition(
    "kafka_controller_controllerchannelmanager_totalqueuesize",
    MetricKind.GAUGE,
    "The sum over all brokers.",
    bean="kafka.controller:type=ControllerChannelManager,name=TotalQueueSize",
)


class ControllerMetricsCollector:
    """Reads the broker's :class:`Controller`, active or not."""

    _PLAIN = (
        *(ACTIVE, OFFLINE, IMBALANCE, TOPICS, PARTITIONS, DELETING, WAITING, REPLICAS_DELETING, REPLICAS_WAITING),
        *(BROKERS, STATE, QUEUE),
    )
    DEFINITIONS = (*_PLAIN, QUEUE_TIME, UNCLEAN, *EVENTS.values(), REQUESTS, ALL_REQUESTS, REQUEST_TIMES)

    _AT_ONCE: Final = 1000
    """States in a piece: a few milliseconds at most."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        values = dict.fromkeys(self._PLAIN, 0)
        values[QUEUE] = self._controller.queued
        values[STATE] = controller_state(self._controller.handling)
        context = self._controller.context
        if context is not None:
            values[ACTIVE] = 1
            values[OFFLINE] = sum(tp.topic not in context.deleting for tp in context.leaderless)
            states = iter(list(context.states.items()))
            while some := list(islice(states, self._AT_ONCE)):
                values[IMBALANCE] += sum(
                    state.replicas[:1] != (state.leader,) and tp.topic not in context.deleting for tp, state in some
                )
                if context.deleting:
                    values[REPLICAS_DELETING] += sum(
                        len(state.replicas) for tp, state in some if tp.topic in context.deleting
                    )
                    values[REPLICAS_WAITING] += sum(
                        replica is ReplicaState.DELETION_INELIGIBLE
                        for tp, _ in some
                        if tp.topic in context.deleting
                        for replica in context.replica_states.get(tp, {}).values()
                    )
                yield []
            values[TOPICS] = len(context.topics)
            values[PARTITIONS] = len(context.states)
            values[DELETING] = len(context.deleting)
            values[WAITING] = sum(map(bool, context.deleting.values()))
            values[BROKERS] = len(context.brokers)
        yield [MetricSample(metric, (), value) for metric, value in values.items()]
        stats = self._controller.stats
        samples = [MetricSample(UNCLEAN, (), self._controller.unclean_elections)]
        timed = [(QUEUE_TIME, stats.queued)]
        timed += [(EVENTS[name], times) for name, times in stats.by_event.items()]
        for metric, times in timed:
            samples += percentiles(metric, (), times.count, sorted(1000 * each for each in times.latest))
        waiting = self._controller.waiting_requests
        samples += [MetricSample(REQUESTS, (str(broker_id),), count) for broker_id, count in sorted(waiting.items())]
        samples.append(MetricSample(ALL_REQUESTS, (), sum(waiting.values())))
        for broker_id, times in sorted(self._controller.request_queue_times.items()):
            milliseconds = sorted(1000 * each for each in times.latest)
            samples += percentiles(REQUEST_TIMES, (str(broker_id),), times.count, milliseconds)
        yield samples
