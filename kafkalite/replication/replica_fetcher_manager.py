"""The fetchers of this broker: for each leader as many as ``num.replica.fetchers`` says.

Answers to: ``kafka.server.{AbstractFetcherManager,ReplicaFetcherManager}``. Deterministic.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker
from kafkalite.common.clock import Clock
from kafkalite.common.events import EventRecorder, ignore_event
from kafkalite.common.types import TopicPartition
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.leader_endpoint import LeaderConnector, LeaderEndPoint
from kafkalite.replication.partition import Partition
from kafkalite.replication.record_traces import RecordTraces
from kafkalite.replication.replica_fetcher import ReplicaFetcher
from kafkalite.replication.replication_config import ReplicationConfig
from kafkalite.replication.replication_quotas import ReplicationQuotaManager


class LeaderUnknownError(Exception):
    """No address of that broker is known."""


class ReplicaFetcherManager:
    """Gives partitions to fetchers; creates a fetcher when it is needed and closes it when it is idle."""

    def __init__(
        self,
        config: ReplicationConfig,
        metadata: MetadataCache,
        connect: LeaderConnector,
        on_dir_failure: Callable[[str], None],
        quota: ReplicationQuotaManager,
        broker_epoch: BrokerEpoch,
        clock: Clock,
        traces: RecordTraces,
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self._traces = traces
        self._config = config
        self._metadata = metadata
        self._connect = connect
        self._on_dir_failure = on_dir_failure
        self._quota = quota
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._number = config.num_replica_fetchers
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._of: dict[TopicPartition, ReplicaFetcher] = {}
        self._added: dict[ReplicaFetcher, None] = {}
        self._brokers_in_requests: dict[int, Broker] = {}

    def learn_brokers(self, brokers: Iterable[Broker]) -> None:
        """Keep the addresses in a request of the controller, because the metadata may not have them yet."""
        for broker in brokers:
            self._brokers_in_requests[broker.id] = broker

    def reset_sessions(self) -> None:
        """Begin new sessions, because this broker has a new epoch, which fetches carry (KIP-903)."""
        for fetcher in self._fetchers.values():
            fetcher.session.reset()

    def resize(self, number: int) -> None:
        """Use ``number`` fetchers for each leader from now on; partitions move to the fetchers that are theirs then."""
        if number == self._number:
            return
        self._number = number
        for partition in [fetcher.partition(tp) for tp, fetcher in self._of.items()]:
            self.add(partition)
        self.start_added()

    def add(self, partition: Partition) -> None:
        """Follow the partition's leader from the end of its log; :meth:`start_added` begins."""
        tp = partition.topic_partition
        number = (zlib.crc32(tp.topic.encode()) + tp.partition) % self._number
        key = (partition.state.leader, number)
        self.remove(tp)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._make(*key)
            self._fetchers[key] = fetcher
        fetcher.add(partition)
        self._of[tp] = fetcher
        self._added[fetcher] = None

    def _make(self, leader: int, number: int) -> ReplicaFetcher:
        def open_end_point() -> LeaderEndPoint:
            broker = self._metadata.broker(leader) or self._brokers_in_requests.get(leader)
            if broker is None:
                raise LeaderUnknownError(f"broker {leader} is not registered")
            return self._connect(broker, number)

        return ReplicaFetcher(
            self._config,
            leader,
            open_end_point,
            self._on_dir_failure,
            self._quota,
            self._broker_epoch,
            self._clock,
            self._traces,
            self._record,
        )

    def remove(self, tp: TopicPartition) -> None:
        """Follow ``tp`` no longer."""
        fetcher = self._of.pop(tp, None)
        if fetcher is not None:
            fetcher.remove(tp)
            if not len(fetcher):
                self._added[fetcher] = None

    def start_added(self) -> None:
        """Send requests for the partitions that were added, and close the fetchers without partitions."""
        added, self._added = self._added, {}
        for fetcher in added:
            if len(fetcher):
                fetcher.kick()
                continue
            for key, one in list(self._fetchers.items()):
                if one is fetcher:
                    del self._fetchers[key]
            fetcher.close()

    @property
    def fetchers(self) -> Mapping[tuple[int, int], ReplicaFetcher]:
        """The fetchers by leader and number. For metrics only."""
        return self._fetchers

    def shutdown(self) -> None:
        """Stop all fetching."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._of.clear()
        self._added.clear()

    def __len__(self) -> int:
        return len(self._fetchers)
