"""All collectors of a broker, built from its parts; ``docs/metrics.md`` is written from their definitions.

Answers to: ``kafka.server.KafkaServer``, whose parts register their own beans. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkalite.apis.services import BrokerServices
from kafkalite.common.recent_times import RecentTimes
from kafkalite.metrics.broker_topic_metrics import BrokerTopicMetricsCollector
from kafkalite.metrics.cluster_metrics import ClusterMetricsCollector
from kafkalite.metrics.consumer_group_metrics import ConsumerGroupMetricsCollector
from kafkalite.metrics.consumer_group_sampler import ConsumerGroupSampler
from kafkalite.metrics.controller_metrics import ControllerMetricsCollector
from kafkalite.metrics.conversion_metrics import ConversionMetricsCollector
from kafkalite.metrics.definitions import Collector
from kafkalite.metrics.fetch_session_metrics import FetchSessionMetricsCollector, FetchSessions
from kafkalite.metrics.group_coordinator_metrics import GroupCoordinatorMetricsCollector
from kafkalite.metrics.log_metrics import LogMetricsCollector
from kafkalite.metrics.quota_metrics import QuotaMetricsCollector
from kafkalite.metrics.replica_metrics import ReplicaMetricsCollector
from kafkalite.metrics.replication_metrics import ReplicationMetricsCollector
from kafkalite.metrics.request_metrics import RequestMetricsCollector
from kafkalite.metrics.scrape_metrics import ScrapeMetricsCollector
from kafkalite.metrics.server_metrics import BrokerState, GuardianState, ServerMetricsCollector, WatchdogState
from kafkalite.metrics.socket_server_metrics import SocketServerMetricsCollector
from kafkalite.metrics.transaction_metrics import TransactionMetricsCollector
from kafkalite.metrics.zookeeper_metrics import ZooKeeperMetricsCollector
from kafkalite.network.server import KafkaServer
from kafkalite.zk.session_stats import SessionStats

DEFINITIONS: Final = (
    *BrokerTopicMetricsCollector.DEFINITIONS,
    *RequestMetricsCollector.DEFINITIONS,
    *ConversionMetricsCollector.DEFINITIONS,
    *ReplicaMetricsCollector.DEFINITIONS,
    *ReplicationMetricsCollector.DEFINITIONS,
    *LogMetricsCollector.DEFINITIONS,
    *ControllerMetricsCollector.DEFINITIONS,
    *ClusterMetricsCollector.DEFINITIONS,
    *ConsumerGroupMetricsCollector.DEFINITIONS,
    *ZooKeeperMetricsCollector.DEFINITIONS,
    *TransactionMetricsCollector.DEFINITIONS,
    *SocketServerMetricsCollector.DEFINITIONS,
    *GroupCoordinatorMetricsCollector.DEFINITIONS,
    *FetchSessionMetricsCollector.DEFINITIONS,
    *QuotaMetricsCollector.DEFINITIONS,
    *ServerMetricsCollector.DEFINITIONS,
    *ScrapeMetricsCollector.DEFINITIONS,
)
"""Every metric of a broker's page, in its order: those that :func:`collectors_of` serves, and those of the scrape."""


def collectors_of(
    services: BrokerServices,
    server: KafkaServer,
    groups: ConsumerGroupSampler,
    session: SessionStats,
    zk_latency: RecentTimes,
    state: Callable[[], BrokerState],
    guardian: GuardianState | None,
    watchdog: WatchdogState,
    fetch_sessions: FetchSessions,
) -> tuple[Collector, ...]:
    """The collectors of one broker. Call on the thread of its reactor, whose CPU time is one of the metrics."""
    return (
        BrokerTopicMetricsCollector(services.partitions.topic_stats),
        *([] if services.request_metrics is None else [RequestMetricsCollector(services.request_metrics)]),
        ConversionMetricsCollector(services.partitions.topic_stats),
        ReplicaMetricsCollector(
            services.partitions, services.clock.time_ms, services.transactions.config.transaction_max_timeout_ms
        ),
        ReplicationMetricsCollector(services.replicas, (services.topics.waiting,)),
        LogMetricsCollector(services.logs, services.clock),
        ControllerMetricsCollector(services.controller),
        ClusterMetricsCollector(services.controller),
        ConsumerGroupMetricsCollector(groups),
        ZooKeeperMetricsCollector(session, zk_latency),
        TransactionMetricsCollector(services.transactions, services.clock),
        SocketServerMetricsCollector(server),
        GroupCoordinatorMetricsCollector(services.groups, groups),
        FetchSessionMetricsCollector(fetch_sessions),
        QuotaMetricsCollector(services.quotas, services.clock.monotonic),
        ServerMetricsCollector(services.cluster_id, state, guardian, watchdog),
    )
