"""The follower's end of an incremental fetch session (KIP-227).

Answers to: ``org.apache.kafka.clients.FetchSessionHandler``. Deterministic.

A request names only the partitions whose offset changed since the request before, so that a thousand idle partitions
cost an empty list.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.protocol.fetch import FetchPartition, FetchRequest
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.partition import Partition
from kafkalite.replication.replication_config import ReplicationConfig

WITH_TOPIC_IDS = 15
WITHOUT_TOPIC_IDS = 12
_NOT_SENT = 1 << 62
_MAX_EPOCH = (1 << 31) - 1


class PartitionFetch:
    """How far one partition was fetched, and whether it is fetched now.

    ``sent_in`` is the number of the request that first carried ``offset``. From request ``appended_since`` on nothing
    but the leader's records changed the log. ``in_sync``: the log reached the leader's high watermark of the last
    response; before the first response, the replica is in the ISR. ``delayed``: requests leave the partition out, after
    an error or because of a quota. ``attempts`` counts the errors since the last append.
    """

    __slots__ = (
        "appended_since",
        "attempts",
        "delayed",
        "in_sync",
        "lag",
        "leader_epoch",
        "offset",
        "partition",
        "sent_in",
        "state",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.state: LeaderAndIsr = partition.state
        self.leader_epoch = partition.leader_epoch
        self.offset: int = partition.log.log_end_offset
        self.sent_in = _NOT_SENT
        self.appended_since = _NOT_SENT
        self.in_sync = partition.broker_id in partition.state.isr
        self.delayed = False
        self.attempts = 0
        self.lag = 0
        """Records between the end of the log here and the leader's high watermark of the last response."""


class FollowerSession:
    """Builds requests. ``generation`` distinguishes the responses of this session from those of an earlier one."""

    def __init__(self, config: ReplicationConfig, broker_epoch: BrokerEpoch) -> None:
        self._config = config
        self._broker_epoch = broker_epoch
        self.generation = 0
        self.request_number = 0
        self.topics: dict[uuid.UUID, str] = {}
        self._id = 0
        self._epoch = 0
        self._refused = False
        self._changed: dict[TopicPartition, PartitionFetch] = {}
        self._forgotten: dict[TopicPartition, PartitionFetch] = {}
        self._in_session: dict[TopicPartition, PartitionFetch] = {}

    def put(self, tp: TopicPartition, fetch: PartitionFetch) -> None:
        """Fetch ``tp`` from ``fetch.offset`` with the next request."""
        fetch.appended_since = self.request_number + 1
        self.advance(tp, fetch)

    def advance(self, tp: TopicPartition, fetch: PartitionFetch) -> None:
        """The same, after an append of the leader's records, or where their beginning was deleted."""
        fetch.sent_in = _NOT_SENT
        self._changed[tp] = fetch
        gone = self._forgotten.pop(tp, None)
        if gone is not None and gone.state.topic_id != fetch.state.topic_id:
            self.reset()

    def drop(self, tp: TopicPartition) -> None:
        """Stop fetching ``tp``."""
        self._changed.pop(tp, None)
        fetch = self._in_session.pop(tp, None)
        if fetch is not None:
            self._forgotten[tp] = fetch

    def reset(self) -> None:
        """Begin a new session with the next request, which names everything."""
        self.generation += 1
        self._id = 0
        self._epoch = 0
        self._changed = {**self._in_session, **self._changed}
        self._in_session = {}
        self._forgotten.clear()

    @property
    def has_partitions(self) -> bool:
        """Whether the next request would name a partition, or continue a session that has one."""
        return bool(self._in_session or self._changed)

    @property
    def can_interrupt(self) -> bool:
        """Whether the next request would change the session that the leader has."""
        return self._id != 0 and bool(self._changed or self._forgotten)

    def build(self) -> tuple[FetchRequest, int]:
        """The next request and its version."""
        self.request_number += 1
        with_ids = all(fetch.state.topic_id != ZERO_UUID for fetch in self._changed.values())
        if not with_ids and self.topics:
            # A session names all topics in one way: by id, or by name if the controller has not given an id yet.
            self.reset()
        if self._epoch == 0:
            self.topics = {}
            self._changed = {**self._in_session, **self._changed}
            with_ids = all(fetch.state.topic_id != ZERO_UUID for fetch in self._changed.values())
        elif not self.topics:
            # The open session names topics by name.
            with_ids = False
        changed, self._changed = self._changed, {}
        forgotten, self._forgotten = self._forgotten, {}
        self._in_session.update(changed)
        partitions = [self._describe(tp, fetch) for tp, fetch in _by_topic(changed)]
        if with_ids:
            for tp, fetch in changed.items():
                self.topics[fetch.state.topic_id] = tp.topic
        config = self._config
        request = FetchRequest(
            config.broker_id,
            self._broker_epoch.epoch,
            # The request that opens a session does not wait, so that there soon is a session to interrupt.
            config.replica_fetch_wait_max_ms if self._id or self._refused else 0,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            0,
            self._id,
            self._epoch,
            partitions,
            [(tp.topic, fetch.state.topic_id, tp.partition) for tp, fetch in _by_topic(forgotten)],
        )
        if self._id:
            self._epoch = self._epoch + 1 if self._epoch < _MAX_EPOCH else 1
        return request, WITH_TOPIC_IDS if with_ids else WITHOUT_TOPIC_IDS

    def _describe(self, tp: TopicPartition, fetch: PartitionFetch) -> FetchPartition:
        fetch.sent_in = self.request_number
        replica_log = fetch.partition.log
        epoch = replica_log.latest_epoch
        return FetchPartition(
            tp.topic,
            fetch.state.topic_id,
            tp.partition,
            fetch.leader_epoch,
            fetch.offset,
            -1 if epoch is None else epoch,
            replica_log.log_start_offset,
            self._config.replica_fetch_max_bytes,
        )

    def answered(self, session_id: int) -> None:
        """The leader responded; after a full request it may have opened a session."""
        self._refused = session_id == 0
        if self._id == 0 and session_id:
            self._id = session_id
            self._epoch = 1


def _by_topic(partitions: dict[TopicPartition, PartitionFetch]) -> Iterable[tuple[TopicPartition, PartitionFetch]]:
    """Partitions of one topic side by side, because a request lists them by topic."""
    if len(partitions) < 2:
        return partitions.items()
    return sorted(partitions.items(), key=lambda item: item[0])
