"""Replication: changes of ISRs, the fetchers of this broker as a follower, and the requests that wait.

Answers to: the metrics of ``kafka.server.{ReplicaManager,AbstractFetcherManager,AbstractFetcherThread}``, of
``DelayedOperationPurgatory`` and ``DelayedFetchMetrics``, and of ``ReplicationQuotaManager``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kafkalite.common.purgatory import Purgatory
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample
from kafkalite.replication.replica_manager import ReplicaManager

_SLOW: Final = "A follower is slow or its broker is down: see its log, its disk and the network to it."


def _isr(bean: str, meaning: str, remedy: str) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_replicamanager_{bean.lower()}",
        MetricKind.COUNTER,
        meaning,
        bean=f"kafka.server:type=ReplicaManager,name={bean}PerSec",
        remedy=remedy,
    )


def _manager(bean: str, meaning: str, unit: str = "", remedy: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_replicafetchermanager_{bean.lower()}",
        MetricKind.GAUGE,
        meaning,
        ("clientId",),
        unit,
        f"kafka.server:type=ReplicaFetcherManager,name={bean},clientId=Replica",
        remedy,
    )


def _fetcher(bean: str, meaning: str, unit: str) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_fetcherstats_{bean.lower()}",
        MetricKind.COUNTER,
        meaning,
        ("clientId",),
        unit,
        f"kafka.server:type=FetcherStats,name={bean}PerSec,clientId={{clientId}},brokerHost={{host}},brokerPort={{port}}",
    )


SHRINKS: Final = _isr("IsrShrinks", "ISRs that lost members, of partitions that this broker leads.", _SLOW)
EXPANDS: Final = _isr("IsrExpands", "ISRs that members joined, of partitions that this broker leads.", "")
FAILED: Final = _isr(
    "FailedIsrUpdates",
    "Changes of ISRs that ZooKeeper refused, or whose outcome this broker had to find out.",
    "Changes of leaders cause some; many without them mean that ZooKeeper is slow or the connection to it is lost.",
)
MAX_LAG: Final = _manager("MaxLag", "Most records that a replica here lags behind its leader.", "records", _SLOW)
MIN_RATE: Final = _manager(
    "MinFetchRate", "Answers of the slowest fetcher since the last scrape, per second.", "per second", _SLOW
)
FAILING: Final = _manager(
    "FailedPartitionsCount",
    "Partitions that are not fetched for a while after an error. Unlike Kafka's they are tried again.",
    remedy="The broker's log names the partitions and the errors.",
)
DEAD: Final = _manager("DeadThreadCount", "Always 0: fetchers are no threads.")
LAG: Final = MetricDefinition(
    "kafka_server_fetcherlagmetrics_consumerlag",
    MetricKind.GAUGE,
    "Records that the replica here lags behind the leader's high watermark.",
    ("clientId", "topic", "partition"),
    "records",
    "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId={clientId},topic={topic},partition={partition}",
    _SLOW,
)
BYTES: Final = _fetcher("Bytes", "Bytes of record batches that a fetcher took.", "bytes")
ANSWERS: Final = _fetcher("Requests", "Answers that a fetcher took.", "requests")


def _waiting(bean: str, meaning: str) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_delayedoperationpurgatory_{bean.lower()}",
        MetricKind.GAUGE,
        meaning,
        ("delayedOperation",),
        "requests",
        f"kafka.server:type=DelayedOperationPurgatory,name={bean},delayedOperation={{Produce|Fetch|…}}",
        "Produce: followers are slow. Fetch: usual where consumers wait for records.",
    )


DELAYED: Final = _waiting("NumDelayedOperations", "Requests that wait for a condition or for their timeout.")
SIZE: Final = _waiting("PurgatorySize", "The same number: what is complete is not counted here.")
EXPIRED: Final = MetricDefinition(
    "kafka_server_delayedfetchmetrics_expires",
    MetricKind.COUNTER,
    "Fetches that were answered because fetch.max.wait.ms was over, before there were fetch.min.bytes. Usual where "
    "little is produced.",
    ("fetcherType",),
    "requests",
    "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType={follower|consumer}",
)


def _throttled(type_: str, meaning: str, key: str, flag: str = "--throttle") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_{type_.lower()}_byte_rate",
        MetricKind.GAUGE,
        f"{meaning}, over the windows of the quota. 0 while {key} is not set.",
        unit="bytes per second",
        bean=f"kafka.server:type={type_} (byte-rate)",
        remedy=f"If it stays at the limit while replicas lag, raise the limit: kafka-reassign-partitions {flag}.",
    )


LEADER_RATE: Final = _throttled(
    "LeaderReplication", "Bytes of throttled replicas that followers were sent", "leader.replication.throttled.rate"
)
FOLLOWER_RATE: Final = _throttled(
    "FollowerReplication", "Bytes of throttled replicas that followers here took", "follower.replication.throttled.rate"
)
ALTER_RATE: Final = _throttled(
    "AlterLogDirsReplication",
    "Bytes of replicas that moved between log directories",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "--replica-alter-log-dirs-throttle",
)


class ReplicationMetricsCollector:
    """Reads the :class:`ReplicaManager` and ``purgatories`` of other parts of the broker."""

    DEFINITIONS = (
        *(SHRINKS, EXPANDS, FAILED, MAX_LAG, MIN_RATE, FAILING, DEAD, LAG, BYTES, ANSWERS),
        *(DELAYED, SIZE, EXPIRED, LEADER_RATE, FOLLOWER_RATE, ALTER_RATE),
    )
    _AT_ONCE: Final = 1000

    def __init__(self, replicas: ReplicaManager, purgatories: Sequence[Purgatory] = ()) -> None:
        self._replicas = replicas
        self._purgatories = purgatories
        self._before: dict[tuple[int, int], int] = {}
        """Answers of each fetcher at the last scrape."""
        self._scraped_at: float | None = None

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        stats = self._replicas.replicas.isr_stats
        samples = [
            MetricSample(SHRINKS, (), stats.shrinks),
            MetricSample(EXPANDS, (), stats.expands),
            MetricSample(FAILED, (), stats.failed_updates),
        ]
        for purgatory in (*self._replicas.purgatories, *self._purgatories):
            samples += (MetricSample(metric, (purgatory.name,), purgatory.delayed) for metric in (DELAYED, SIZE))
        delayed = self._replicas.replicas.topic_stats.delayed_fetches
        quotas = self._replicas.quotas
        samples += [
            MetricSample(EXPIRED, ("follower",), delayed.follower_expired),
            MetricSample(EXPIRED, ("consumer",), delayed.consumer_expired),
            MetricSample(LEADER_RATE, (), quotas.leader.measure()),
            MetricSample(FOLLOWER_RATE, (), quotas.follower.measure()),
            MetricSample(ALTER_RATE, (), quotas.alter_log_dirs.measure()),
        ]
        yield samples
        yield from self._fetchers()

    def _fetchers(self) -> Iterator[list[MetricSample]]:
        most = failing = 0
        fetchers = dict(self._replicas.fetchers.fetchers)
        for (leader, number), fetcher in fetchers.items():
            client = f"ReplicaFetcherThread-{number}-{leader}"
            failing += fetcher.failing
            yield [MetricSample(BYTES, (client,), fetcher.bytes), MetricSample(ANSWERS, (client,), fetcher.requests)]
            lags = list(fetcher.lags)
            most = max([most, *(lag for _, lag in lags)])
            for start in range(0, len(lags), self._AT_ONCE):
                yield [
                    MetricSample(LAG, (client, tp.topic, str(tp.partition)), lag)
                    for tp, lag in lags[start : start + self._AT_ONCE]
                ]
        yield [
            MetricSample(MAX_LAG, ("Replica",), most),
            MetricSample(MIN_RATE, ("Replica",), self._slowest({key: each.requests for key, each in fetchers.items()})),
            MetricSample(FAILING, ("Replica",), failing),
            MetricSample(DEAD, ("Replica",), 0),
        ]

    def _slowest(self, answers: dict[tuple[int, int], int]) -> float:
        now = self._replicas.monotonic()
        elapsed = 0.0 if self._scraped_at is None else now - self._scraped_at
        new = [count - self._before.get(key, 0) for key, count in answers.items()]
        self._before, self._scraped_at = answers, now
        return max(0, min(new)) / elapsed if new and elapsed else 0.0
