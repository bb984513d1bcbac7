"""The replicas of this broker: how many, how many are in trouble, and each partition's log, ISR and offsets.

Answers to: the gauges of ``kafka.server.ReplicaManager``, ``kafka.cluster.Partition`` and ``kafka.log.UnifiedLog``;
and to the series by partition of kafka_exporter. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.partition_table import PartitionTable

_GAUGE: Final = MetricKind.GAUGE
_OF_PARTITIONS: Final = ("topic", "partition")
_FIND: Final = "kafka-topics --describe --under-replicated-partitions names the partitions and the lagging brokers."


def _of_broker(bean: str, meaning: str, remedy: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_replicamanager_{bean.lower()}",
        _GAUGE,
        meaning,
        bean=f"kafka.server:type=ReplicaManager,name={bean}",
        remedy=remedy,
    )


def _of_partition(bean: str, meaning: str, remedy: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_cluster_partition_{bean.lower()}",
        _GAUGE,
        meaning,
        _OF_PARTITIONS,
        bean=f"kafka.cluster:type=Partition,name={bean},topic={{topic}},partition={{partition}}",
        remedy=remedy,
    )


def _of_log(bean: str, meaning: str, unit: str) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_log_log_{bean.lower()}",
        _GAUGE,
        meaning,
        _OF_PARTITIONS,
        unit,
        f"kafka.log:type=Log,name={bean},topic={{topic}},partition={{partition}}",
    )


def _exported(name: str, meaning: str, unit: str = "") -> MetricDefinition:
    return MetricDefinition(f"kafka_topic_partition_{name}", _GAUGE, meaning, _OF_PARTITIONS, unit)


PARTITIONS: Final = _of_broker("PartitionCount", "Replicas on this broker, leaders and followers.")
LEADERS: Final = _of_broker("LeaderCount", "Partitions that this broker leads.")
OFFLINE: Final = _of_broker(
    "OfflineReplicaCount", "Replicas in a log directory that failed.", "Replace the disk, then restart the broker."
)
UNDER_REPLICATED: Final = _of_broker(
    "UnderReplicatedPartitions", "Led partitions of which a replica is not in the ISR.", _FIND
)
UNDER_MIN_ISR: Final = _of_broker(
    "UnderMinIsrPartitionCount",
    "Led partitions with fewer replicas in the ISR than min.insync.replicas: producers with acks=all are refused.",
    _FIND,
)
AT_MIN_ISR: Final = _of_broker(
    "AtMinIsrPartitionCount",
    "Led partitions that would refuse producers with acks=all if one more replica left the ISR.",
    _FIND,
)
REASSIGNING: Final = _of_broker("ReassigningPartitions", "Led partitions that are being reassigned.")
PRODUCER_IDS: Final = _of_broker(
    "ProducerIdCount",
    "Idempotent and transactional producers that the replicas here remember, one for each partition that one writes.",
    "Lower producer.id.expiration.ms, or find the application that makes new producers.",
)
LATE: Final = _of_broker(
    "PartitionsWithLateTransactionsCount",
    "Replicas here with a transaction that got no record for transaction.max.timeout.ms and 5 minutes.",
    "It hangs, and holds readers with read_committed back: kafka-transactions find-hanging --broker-id ID.",
)
_LATE_BUFFER_MS: Final = 300_000
"""As in Kafka: a coordinator has so long to abort what timed out."""

_REPLICAS: Final = _of_partition("ReplicasCount", "Replicas; 0 where this broker does not lead.")
_ISR: Final = _of_partition("InSyncReplicasCount", "Replicas in the ISR; 0 where this broker does not lead.")
_UNDER_REPLICATED: Final = _of_partition("UnderReplicated", "1 where a replica is not in the ISR.", _FIND)
_UNDER_MIN_ISR: Final = _of_partition("UnderMinIsr", "1 below min.insync.replicas.", _FIND)
_AT_MIN_ISR: Final = _of_partition("AtMinIsr", "1 at min.insync.replicas.", _FIND)
_STABLE_LAG: Final = _of_partition(
    "LastStableOffsetLag",
    "Records between the last stable offset and the high watermark, which read_committed does not show yet.",
    "A transaction may hang: kafka-transactions find-hanging --broker-id ID.",
)
_SIZE: Final = _of_log("Size", "Bytes of all segments.", "bytes")
_SEGMENTS: Final = _of_log("NumLogSegments", "Segments.", "segments")
_START: Final = _of_log("LogStartOffset", "Offset of the first record that is not deleted.", "offset")
_END: Final = _of_log("LogEndOffset", "Offset of the next record.", "offset")

_CURRENT: Final = _exported("current_offset", "High watermark, from the leader.", "offset")
_OLDEST: Final = _exported("oldest_offset", "Offset of the first record, from the leader.", "offset")
_IN_SYNC: Final = _exported("in_sync_replica", "Replicas in the ISR, from the leader.")
_EXPORTED_REPLICAS: Final = _exported("replicas", "Replicas, from the leader.")
_LEADER: Final = _exported("leader", "Id of the leader, from the leader.")
_PREFERRED: Final = _exported("leader_is_preferred", "1 where the leader is the first of the replicas.")
_EXPORTED_UNDER: Final = _exported("under_replicated_partition", "1 where a replica is not in the ISR.")
TOPIC_PARTITIONS: Final = MetricDefinition(
    "kafka_topic_partitions", _GAUGE, "Partitions of the topic, from the leader of its partition 0.", ("topic",)
)


_SUMS: Final = (
    *(PARTITIONS, LEADERS, OFFLINE, UNDER_REPLICATED, UNDER_MIN_ISR, AT_MIN_ISR, REASSIGNING),
    *(PRODUCER_IDS, LATE),
)


class ReplicaMetricsCollector:
    """Reads the :class:`PartitionTable`. ``time_ms``: the time of day; ``longest_transaction_ms``: in force now."""

    DEFINITIONS = (
        *_SUMS,
        *(_REPLICAS, _ISR, _UNDER_REPLICATED, _UNDER_MIN_ISR, _AT_MIN_ISR, _STABLE_LAG),
        *(_SIZE, _SEGMENTS, _START, _END),
        *(_CURRENT, _OLDEST, _IN_SYNC, _EXPORTED_REPLICAS, _LEADER, _PREFERRED, _EXPORTED_UNDER, TOPIC_PARTITIONS),
    )
    _AT_ONCE: Final = 50
    """Partitions in a piece: two milliseconds."""

    def __init__(self, table: PartitionTable, time_ms: Callable[[], int], longest_transaction_ms: int) -> None:
        self._table = table
        self._time_ms = time_ms
        self._longest_transaction_ms = longest_transaction_ms

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        sums = dict.fromkeys(_SUMS, 0)
        late_before = self._time_ms() - self._longest_transaction_ms - _LATE_BUFFER_MS
        # Not sorted, because to sort 10,000 of them would hold the reactor for too long.
        partitions = list(self._table.partitions.values())
        for start in range(0, len(partitions), self._AT_ONCE):
            piece: list[MetricSample] = []
            for partition in partitions[start : start + self._AT_ONCE]:
                if self._table.partitions.get(partition.topic_partition) is partition:
                    piece += self._partition(partition, sums, late_before)
            yield piece
        yield [MetricSample(metric, (), value) for metric, value in sums.items()]

    def _partition(
        self, partition: Partition, sums: dict[MetricDefinition, int], late_before: int
    ) -> list[MetricSample]:
        tp = partition.topic_partition
        labels = (tp.topic, str(tp.partition))
        log = partition.log
        leads = partition.role is Role.LEADER
        replicas = len(partition.state.replicas) if leads else 0
        in_sync = len(partition.isr.committed) if leads else 0
        under = in_sync < replicas
        under_min = leads and in_sync < partition.min_in_sync
        at_min = leads and in_sync == partition.min_in_sync
        sums[PARTITIONS] += 1
        sums[LEADERS] += leads
        sums[OFFLINE] += partition.role is Role.OFFLINE
        sums[UNDER_REPLICATED] += under
        sums[UNDER_MIN_ISR] += under_min
        sums[AT_MIN_ISR] += at_min
        sums[REASSIGNING] += leads and partition.state.assignment.is_being_reassigned
        sums[PRODUCER_IDS] += len(log.producer_state.entries)
        sums[LATE] += log.producer_state.has_late_transaction(late_before)
        values: list[tuple[MetricDefinition, float]] = [
            (_REPLICAS, replicas),
            (_ISR, in_sync),
            (_UNDER_REPLICATED, under),
            (_UNDER_MIN_ISR, under_min),
            (_AT_MIN_ISR, at_min),
            (_STABLE_LAG, log.high_watermark - log.last_stable_offset),
            (_SIZE, log.size),
            (_SEGMENTS, len(log.segments)),
            (_START, log.log_start_offset),
            (_END, log.log_end_offset),
        ]
        if leads:
            values += [
                (_CURRENT, log.high_watermark),
                (_OLDEST, log.log_start_offset),
                (_IN_SYNC, in_sync),
                (_EXPORTED_REPLICAS, replicas),
                (_LEADER, partition.broker_id),
                (_PREFERRED, partition.state.replicas[:1] == (partition.broker_id,)),
                (_EXPORTED_UNDER, under),
            ]
        samples = [MetricSample(metric, labels, value) for metric, value in values]
        if leads and tp.partition == 0:
            samples.append(MetricSample(TOPIC_PARTITIONS, (tp.topic,), len(self._table.metadata.partitions(tp.topic))))
        return samples
