"""Offsets and lag of the groups that this broker coordinates, taken together at a scrape.

Answers to: nothing in Kafka; ``kafka_exporter`` asks brokers from outside: ListGroups, OffsetFetch, ListOffsets.
Deterministic (connections are a port).

A coordinator knows the offsets of its groups, but not where partitions end that other brokers lead: it asks their
leaders, one request a leader. Nothing is asked between scrapes, and the offsets are read before the ends, so that no
lag is negative.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future, gather, spawn
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.replication.leader_endpoint import LeaderConnection
from kafkalite.replication.results import LATEST_TIMESTAMP, READ_UNCOMMITTED, OffsetResult
from kafkalite.zk.zk_client import ZkError
from kafkalite.zk.znodes.offsets import OffsetAndMetadata

log = logging.getLogger(__name__)

NO_OFFSET: Final = -1
"""The offset of a partition without a commit, in a topic that the group reads: kafka_exporter's."""
LEAST_AGE: Final = 5.0
"""Seconds for which a sample serves all scrapes."""
PAUSE: Final = 50
"""No new sample for this many times as long as reading the offsets took: at most 2 % of the time is spent on it."""
MOST_WAIT: Final = 0.5
"""Seconds for which a scrape waits for a new sample; then it shows the latest one."""
TIMEOUT: Final = 5.0
"""Seconds for which a leader may be silent."""
_VERSION: Final = 5


class GroupCounts(Protocol):
    """:class:`kafkalite.coordinator.group.group_admin.GroupAdmin`, as far as it is asked here."""

    def member_counts(self) -> Awaitable[Mapping[str, int]]: ...


class CommittedOffsets(Protocol):
    """:class:`kafkalite.coordinator.offsets.offset_manager.OffsetManager`, as far as it is asked here."""

    def fetch(
        self, group: str, partitions: Sequence[TopicPartition] | None
    ) -> Awaitable[Mapping[TopicPartition, OffsetAndMetadata | ErrorCode]]: ...


class LocalOffsets(Protocol):
    """:class:`kafkalite.replication.offset_queries.OffsetQueries`, as far as it is asked here."""

    def list_offset(self, tp: TopicPartition, timestamp: int, isolation: int | None) -> OffsetResult: ...


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One group: members, and the committed offset of each partition of each topic that it reads."""

    members: int
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ConsumerGroupSample:
    """All groups at one moment. ``ends``: high watermarks; a partition is missing if its leader did not answer.

    ``taken_at``: when the offsets were read, in seconds of the clock.
    """

    taken_at: float
    groups: Mapping[str, GroupSample] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


class ConsumerGroupSampler:
    """Takes samples when :meth:`refresh` is called, not more often than :data:`LEAST_AGE` and :data:`PAUSE` allow.

    ``connect`` opens a connection to a broker; it stays open for the next samples.
    """

    def __init__(
        self,
        broker_id: int,
        groups: GroupCounts,
        offsets: CommittedOffsets,
        local: LocalOffsets,
        metadata: MetadataCache,
        connect: Callable[[Broker], LeaderConnection],
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._groups = groups
        self._offsets = offsets
        self._local = local
        self._metadata = metadata
        self._connect = connect
        self._clock = clock
        self._connections: dict[Broker, LeaderConnection] = {}
        self._waiting: list[Future[None]] = []
        self._running = False
        self._due = 0.0
        self._closed = False
        self.latest: ConsumerGroupSample | None = None
        """``None`` before the first sample, and if ZooKeeper did not answer: another broker may have the groups."""

    async def refresh(self) -> None:
        """Take a new sample if it is time; wait for the one that is being taken, at most :data:`MOST_WAIT`."""
        if not self._running and not self._closed and self._clock.monotonic() >= self._due:
            self._running = True
            spawn(self._sample(), "reading the offsets of groups for metrics")
        if self._running:
            done: Future[None] = Future()
            self._waiting.append(done)
            timer = self._clock.call_later(MOST_WAIT, self._give_up, done)
            await done
            timer.cancel()

    def close(self) -> None:
        """Take no more samples, and close the connections."""
        self._closed = True
        self.latest = None
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    @property
    def age(self) -> float:
        """Seconds since the offsets of the latest sample were read; 0 without one."""
        return 0.0 if self.latest is None else self._clock.monotonic() - self.latest.taken_at

    # Inside

    def _give_up(self, done: Future[None]) -> None:
        if done in self._waiting:
            self._waiting.remove(done)
            done.callback(None)

    async def _sample(self) -> None:
        began = self._clock.monotonic()
        sample = None
        try:
            groups = await self._read_groups()
            read = self._clock.monotonic()
            self._due = read + max(LEAST_AGE, PAUSE * (read - began))
            ends = await self._ends({tp for group in groups.values() for tp in group.offsets})
            sample = ConsumerGroupSample(began, groups, ends)
        except (ApiError, ZkError) as error:
            self._due = self._clock.monotonic() + LEAST_AGE
            log.info("the metrics of groups are left out: %s", error)
        finally:
            self._running = False
            if not self._closed:
                self.latest = sample
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done.callback(None)

    async def _read_groups(self) -> dict[str, GroupSample]:
        counts = await self._groups.member_counts()
        groups = {}
        # One group after the other, because all at once would hold up the reads of clients.
        for name, members in sorted(counts.items()):
            found = await self._offsets.fetch(name, None)
            groups[name] = GroupSample(members, self._of_known_topics(found))
        return groups

    def _of_known_topics(
        self, found: Mapping[TopicPartition, OffsetAndMetadata | ErrorCode]
    ) -> dict[TopicPartition, int]:
        offsets = {
            TopicPartition(topic, number): NO_OFFSET
            for topic in sorted({tp.topic for tp in found})
            for number in sorted(self._metadata.partitions(topic))
        }
        for tp, value in found.items():
            if isinstance(value, ErrorCode):
                offsets.pop(tp, None)
            elif tp in offsets:
                offsets[tp] = value.offset
        return offsets

    async def _ends(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        led: dict[Broker, list[TopicPartition]] = {}
        for tp in sorted(wanted):
            state = self._metadata.state(tp)
            if state is None:
                continue
            if state.leader == self._broker_id:
                result = self._local.list_offset(tp, LATEST_TIMESTAMP, READ_UNCOMMITTED)
                if result.error is ErrorCode.NONE:
                    ends[tp] = result.offset
                continue
            leader = self._metadata.broker(state.leader)
            if leader is not None:
                led.setdefault(leader, []).append(tp)
        for found in await gather(self._ask(leader, tps) for leader, tps in led.items()):
            ends |= found
        return ends

    async def _ask(self, leader: Broker, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        try:
            connection = self._connections.get(leader)
            if connection is None:
                connection = self._connect(leader)
                self._connections[leader] = connection
                await connection.connect()
            body = encode_request(ApiKey.LIST_OFFSETS, _VERSION, _request(partitions))
            answer = await connection.send(int(ApiKey.LIST_OFFSETS), _VERSION, body, TIMEOUT)
            return _offsets(decode_response(ApiKey.LIST_OFFSETS, _VERSION, answer))
        except Exception as error:
            # The leader may have died, or move; the groups' other partitions are shown without these.
            log.info("broker %d did not tell where its partitions end: %s", leader.id, error)
            lost = self._connections.pop(leader, None)
            if lost is not None:
                lost.close()
            return {}


def _request(partitions: Iterable[TopicPartition]) -> messages.ListOffsetsRequest:
    kind = messages.ListOffsetsRequest.ListOffsetsTopic
    topics = by_topic(
        (
            tp,
            kind.ListOffsetsPartition(
                version=_VERSION,
                partition_index=tp.partition,
                current_leader_epoch=-1,
                timestamp=LATEST_TIMESTAMP,
            ),
        )
        for tp in partitions
    )
    return messages.ListOffsetsRequest(
        version=_VERSION,
        replica_id=-1,
        isolation_level=READ_UNCOMMITTED,
        topics=[kind(version=_VERSION, name=name, partitions=asked) for name, asked in topics.items()],
    )


def _offsets(answer: object) -> dict[TopicPartition, int]:
    assert isinstance(answer, messages.ListOffsetsResponse)
    return {
        TopicPartition(topic.name, found.partition_index): found.offset
        for topic in answer.topics
        for found in topic.partitions
        if found.error_code == ErrorCode.NONE
    }
