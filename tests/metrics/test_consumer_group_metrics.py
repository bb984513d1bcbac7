"""Offsets and lags of groups: what the coordinator reads, asks of leaders, and shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import Part, TopicPartition
from kafkalite.metrics.consumer_group_metrics import ConsumerGroupMetricsCollector
from kafkalite.metrics.consumer_group_sampler import LEAST_AGE, MOST_WAIT, PAUSE, TIMEOUT, ConsumerGroupSampler
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, encode_response
from kafkalite.replication.results import OffsetResult
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.zk_client import ConnectionLostError
from kafkalite.zk.znodes.offsets import OffsetAndMetadata
from tests.metrics.test_collectors import values

ME = 1
Found = Mapping[TopicPartition, OffsetAndMetadata | ErrorCode]


class FakeLeader:
    """A broker that answers ListOffsets from ``ends``; without them its connection breaks."""

    def __init__(self, ends: Mapping[tuple[str, int], int]) -> None:
        self.ends = dict(ends)
        self.asked: list[list[tuple[str, int]]] = []
        self.connects = 0
        self.closed = 0
        self.is_silent = False
        self.waiting: Future[memoryview] = Future()

    async def connect(self) -> None:
        self.connects += 1

    def close(self) -> None:
        self.closed += 1

    async def send(self, api_key: int, version: int, body: list[Part] | bytes, timeout: float) -> memoryview:
        assert (api_key, timeout) == (ApiKey.LIST_OFFSETS, TIMEOUT)
        if self.is_silent:
            return await self.waiting
        if not self.ends:
            raise ConnectionLost("killed")
        assert isinstance(body, bytes)
        request = decode_request(ApiKey.LIST_OFFSETS, version, memoryview(body))
        assert isinstance(request, messages.ListOffsetsRequest)
        # The high watermark, not the last stable offset, and not the end that only followers see.
        assert (request.replica_id, request.isolation_level) == (-1, 0)
        named = [(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
        assert {each.timestamp for topic in request.topics for each in topic.partitions} == {-1}
        self.asked.append(named)
        kind = messages.ListOffsetsResponse.ListOffsetsTopicResponse
        topics = [
            kind(
                version=version,
                name=name,
                partitions=[
                    kind.ListOffsetsPartitionResponse(
                        version=version,
                        partition_index=number,
                        error_code=0 if (name, number) in self.ends else 6,
                        timestamp=-1,
                        offset=self.ends.get((name, number), -1),
                        leader_epoch=0,
                    )
                ],
            )
            for name, number in named
        ]
        response = messages.ListOffsetsResponse(version=version, throttle_time_ms=0, topics=topics)
        return memoryview(encode_response(ApiKey.LIST_OFFSETS, version, response))


class GroupsFixture:
    """A coordinator of groups ``g`` and ``h``: broker 1 leads ``t-0``, broker 2 ``t-1`` and ``t-2``, none ``u-0``."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.counts = {"h": 0, "g": 2}
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata | ErrorCode]] = {
            "g": {TopicPartition("t", 0): OffsetAndMetadata(7), TopicPartition("t", 1): OffsetAndMetadata(10)},
            "h": {TopicPartition("u", 0): OffsetAndMetadata(3), TopicPartition("deleted", 0): OffsetAndMetadata(1)},
        }
        self.reads = 0
        self.seconds_of_a_read = 0.0
        self.failure: Exception | None = None
        self.leader = FakeLeader({("t", 1): 110, ("t", 2): 5})
        self.metadata = MetadataCache()
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 1)
        self.metadata.update_brokers({each: Broker(each, (endpoint,)) for each in (ME, 2)})
        self.metadata.apply(
            LeaderAndIsr(
                topic, number, leader=leader, leader_epoch=0, isr=(ME, 2), assignment=PartitionAssignment((ME, 2))
            )
            for topic, number, leader in (("t", 0, ME), ("t", 1, 2), ("t", 2, 2), ("u", 0, -1))
        )
        self.sampler = ConsumerGroupSampler(ME, self, self, self, self.metadata, self.connect, self.clock)

    async def member_counts(self) -> dict[str, int]:
        if self.failure is not None:
            raise self.failure
        self.reads += 1
        self.clock.advance(self.seconds_of_a_read)
        return self.counts

    async def fetch(self, group: str, partitions: Sequence[TopicPartition] | None) -> Found:
        assert partitions is None
        return self.offsets[group]

    def list_offset(self, tp: TopicPartition, timestamp: int, isolation: int | None) -> OffsetResult:
        assert (tp, timestamp, isolation) == (TopicPartition("t", 0), -1, 0)
        return OffsetResult(ErrorCode.NONE, offset=9)

    def connect(self, broker: Broker) -> FakeLeader:
        assert broker.id == 2
        return self.leader

    def scrape(self) -> dict[tuple[str, ...], float]:
        """What the page shows of groups, without the common prefix."""
        work = deferred(self.sampler.refresh())
        assert work.called
        return self.shown()

    def shown(self) -> dict[tuple[str, ...], float]:
        found = values(ConsumerGroupMetricsCollector(self.sampler))
        return {(key[0].removeprefix("kafka_consumergroup_"), *key[1:]): value for key, value in found.items()}


AGE = ("kafkalite_consumergroup_sample_age_seconds",)
WITHOUT_LEADER_2 = {
    AGE: 0.0,
    ("members", "g"): 2,
    ("current_offset", "g", "t", "0"): 7,
    ("lag", "g", "t", "0"): 2,
    ("current_offset", "g", "t", "1"): 10,
    ("current_offset", "g", "t", "2"): -1,
    ("lag", "g", "t", "2"): -1,
    ("current_offset_sum", "g", "t"): 17,
    ("lag_sum", "g", "t"): 2,
    ("members", "h"): 0,
    ("current_offset", "h", "u", "0"): 3,
    ("current_offset_sum", "h", "u"): 3,
    ("lag_sum", "h", "u"): 0,
}
ALL = {**WITHOUT_LEADER_2, ("lag", "g", "t", "1"): 100, ("lag_sum", "g", "t"): 102}


def test_lag_is_the_leaders_high_watermark_less_the_committed_offset() -> None:
    """A topic that is gone has no series, a partition without a leader no lag, one without a commit -1."""
    fixture = GroupsFixture()
    assert fixture.scrape() == ALL
    # One request for both partitions.
    assert fixture.leader.asked == [[("t", 1), ("t", 2)]]


def test_an_offset_beyond_the_end_is_no_negative_lag() -> None:
    fixture = GroupsFixture()
    fixture.offsets["g"][TopicPartition("t", 1)] = OffsetAndMetadata(500)
    assert fixture.scrape()["lag", "g", "t", "1"] == 0


def test_an_offset_that_cannot_be_read_has_no_series() -> None:
    fixture = GroupsFixture()
    fixture.offsets["g"][TopicPartition("t", 1)] = ErrorCode.UNKNOWN_SERVER_ERROR
    found = fixture.scrape()
    assert not {("current_offset", "g", "t", "1"), ("lag", "g", "t", "1")} & found.keys()
    assert found["lag_sum", "g", "t"] == 2


@pytest.mark.parametrize(("seconds_of_a_read", "pause"), [(0.0, LEAST_AGE), (1.0, PAUSE)])
def test_a_sample_serves_the_next_scrapes(seconds_of_a_read: float, pause: float) -> None:
    fixture = GroupsFixture()
    fixture.seconds_of_a_read = seconds_of_a_read
    fixture.scrape()
    fixture.clock.advance(pause - 0.1)
    assert fixture.scrape()[AGE] == pytest.approx(seconds_of_a_read + pause - 0.1)
    assert fixture.reads == 1
    fixture.clock.advance(0.1)
    assert fixture.scrape()[AGE] == seconds_of_a_read
    assert fixture.reads == 2
    # The connection to the leader stays open.
    assert (fixture.leader.connects, len(fixture.leader.asked)) == (1, 2)


def test_nothing_is_read_before_a_scrape_and_after_the_end() -> None:
    fixture = GroupsFixture()
    fixture.clock.advance(100)
    assert fixture.reads == 0
    fixture.scrape()
    fixture.sampler.close()
    fixture.clock.advance(100)
    assert fixture.scrape() == {AGE: 0.0}
    assert (fixture.reads, fixture.leader.closed) == (1, 1)


def test_a_leader_that_fails_leaves_out_only_its_lags_and_is_asked_again() -> None:
    fixture = GroupsFixture()
    ends, fixture.leader.ends = fixture.leader.ends, {}
    assert fixture.scrape() == WITHOUT_LEADER_2
    assert fixture.leader.closed == 1
    fixture.leader.ends = ends
    fixture.clock.advance(LEAST_AGE)
    assert fixture.scrape() == ALL


# trap: kafkalite/metrics/consumer_group_sampler.py: A leader that hangs holds up the scrapes of all its coordinators,
# and Prometheus takes the healthy brokers for dead: a scrape waits half a second, then shows the former values.
def test_a_silent_leader_holds_up_a_scrape_for_half_a_second() -> None:
    fixture = GroupsFixture()
    fixture.scrape()
    fixture.leader.is_silent = True
    fixture.clock.advance(LEAST_AGE)
    scrapes = [deferred(fixture.sampler.refresh()) for _ in range(2)]
    fixture.clock.advance(MOST_WAIT / 2)
    assert not any(each.called for each in scrapes)
    fixture.clock.advance(MOST_WAIT / 2)
    assert all(each.called for each in scrapes)
    assert fixture.shown() == {**ALL, AGE: LEAST_AGE + MOST_WAIT}
    fixture.leader.waiting.errback(ConnectionLost("no answer in time"))
    assert fixture.shown() == {**WITHOUT_LEADER_2, AGE: MOST_WAIT}


# trap: kafkalite/metrics/consumer_group_sampler.py: A broker that lost ZooKeeper shows its groups on, beside their new
# coordinator, and sums count them twice: it shows none.
def test_without_zookeeper_no_group_is_shown() -> None:
    fixture = GroupsFixture()
    fixture.scrape()
    fixture.clock.advance(LEAST_AGE)
    fixture.failure = ConnectionLostError("/consumers")
    assert fixture.scrape() == {AGE: 0.0}
    fixture.clock.advance(LEAST_AGE)
    fixture.failure = None
    assert fixture.scrape() == ALL
