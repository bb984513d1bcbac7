"""The driver's offsets: partitions by name, by pattern, one by one; limits within the existing records."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.spark import offset_reader
from kafkalite.spark.batch_reader import BatchReader
from kafkalite.spark.client.cluster import TopicState
from kafkalite.spark.client.errors import AuthenticationError, KafkaClientError
from kafkalite.spark.client.fetch import EARLIEST, LATEST
from kafkalite.spark.offset_reader import OffsetReader
from kafkalite.spark.offsets import OffsetError, OffsetRange
from kafkalite.spark.options import SourceOptions

A0, A1, B0 = TopicPartition("ab", 0), TopicPartition("ab", 1), TopicPartition("b", 0)
TOPICS = {
    "ab": TopicState("ab", {0: 1, 1: 2}),
    "b": TopicState("b", {0: 1}),
    "__internal-b": TopicState("__internal-b", {0: 1}, internal=True),
}
BEGINNING, END = 5, 50


class FakeCluster:
    """A cluster's topics and offsets: record number n came at the time 10 n."""

    def __init__(self) -> None:
        self.topics_there = dict(TOPICS)
        self.errors: dict[str, int] = {}
        self.failures: list[Exception] = []
        self.ends = [END]
        self.closed = 0

    def topics(self, names: Collection[str] | None) -> dict[str, TopicState]:
        if self.failures:
            raise self.failures.pop()
        if names is None:
            return self.topics_there
        unknown = TopicState("", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found = {name: self.topics_there.get(name, unknown) for name in names}
        return {
            name: TopicState(name, state.leaders, self.errors.get(name, state.error), state.internal)
            for name, state in found.items()
        }

    def list_offsets(self, _cluster: object, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        known = {EARLIEST: BEGINNING, LATEST: end}
        return {
            partition: known[at] if at < 0 else -1 if at > END * 10 else max(-(-at // 10), BEGINNING)
            for partition, at in times.items()
        }

    def close(self) -> None:
        self.closed += 1

    def forget(self) -> None:
        """Does nothing, because nothing is cached."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    monkeypatch.setattr(offset_reader, "ClusterConnections", lambda _config: cluster)
    monkeypatch.setattr(offset_reader, "list_offsets", cluster.list_offsets)
    return cluster


def options(**given: str) -> SourceOptions:
    base = {"kafka.bootstrap.servers": "h:1", "fetchOffset.retryIntervalMs": "1"}
    return SourceOptions.parse(base | (given or {"subscribe": "ab"}), streaming=False)


def ranges(**given: str) -> list[OffsetRange]:
    return [task.wanted for task in BatchReader(options(**given)).partitions()]


@pytest.mark.parametrize(
    ("given", "there"),
    [
        ({"subscribe": "ab,b"}, {A0, A1, B0}),
        ({"subscribe": "__internal-b"}, set()),
        ({"subscribePattern": "b$"}, {A0, A1, B0}),
        ({"subscribePattern": "^b"}, {B0}),
        ({"subscribePattern": "x"}, set()),
        ({"assign": '{"ab":[1,7]}'}, {A1}),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_partitions(given: dict[str, str], there: set[TopicPartition]) -> None:
    assert OffsetReader(options(**given)).partitions() == there


def test_a_batch_is_everything(cluster: FakeCluster) -> None:
    assert ranges() == [OffsetRange(A0, BEGINNING, END), OffsetRange(A1, BEGINNING, END)]
    assert cluster.closed == 1


@pytest.mark.usefixtures("cluster")
def test_offsets_of_each() -> None:
    start, end = json.dumps({"ab": {"0": -2, "1": 7}}), json.dumps({"ab": {"0": 9, "1": -1}})
    assert ranges(subscribe="ab", startingOffsets=start, endingOffsets=end) == [
        OffsetRange(A0, BEGINNING, 9),
        OffsetRange(A1, 7, END),
    ]


@pytest.mark.usefixtures("cluster")
def test_times() -> None:
    assert ranges(subscribe="b", startingTimestamp="71", endingTimestamp="9999") == [OffsetRange(B0, 8, END)]
    each = json.dumps({"b": {"0": 200}})
    assert ranges(subscribe="b", startingOffsetsByTimestamp=each) == [OffsetRange(B0, 20, END)]
    late = {"subscribe": "b", "startingTimestamp": "9999"}
    with pytest.raises(OffsetError, match="No offset matched from request of topic-partition b-0 and timestamp 9999"):
        ranges(**late)
    assert ranges(**late, startingOffsetsByTimestampStrategy="latest") == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": '{"ab":{"0":1}}'}, "Specified: ab-0 Assigned: ab-0, ab-1"),
        ({"startingOffsetsByTimestamp": '{"ab":{"0":1}}'}, "timestamp based start offsets .*Specified: ab-0 Assigned"),
        ({"endingOffsetsByTimestamp": '{"ab":{"0":1}}'}, "timestamp based end offsets .*Specified: ab-0 Assigned"),
        (
            {"startingOffsets": '{"ab":{"0":60,"1":1}}'},
            "start offset 60 is greater than the resolved end offset 50",
        ),
    ],
)
def test_limits_that_do_not_fit(cluster: FakeCluster, given: dict[str, str], message: str) -> None:
    with pytest.raises(OffsetError, match=message):
        ranges(subscribe="ab", **given)
    assert cluster.closed == 1, "what cannot be right is not tried again"


def test_an_unknown_topic_is_named(cluster: FakeCluster) -> None:
    with pytest.raises(KafkaClientError, match="topic nobody: This server does not host this topic-partition"):
        ranges(subscribe="nobody,ab")
    cluster.errors["ab"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaClientError, match="topic ab: TOPIC_AUTHORIZATION_FAILED"):
        ranges(subscribe="ab")


def test_three_attempts(cluster: FakeCluster) -> None:
    cluster.failures = [KafkaClientError("no broker"), KafkaClientError("no broker")]
    assert len(ranges()) == 2
    cluster.failures = [KafkaClientError("no broker")] * 3
    with pytest.raises(KafkaClientError, match="no broker"):
        ranges()
    cluster.failures = [KafkaClientError("no broker")] * 2
    with pytest.raises(KafkaClientError):
        ranges(**{"subscribe": "ab", "fetchOffset.numRetries": "2"})


def test_credentials_are_not_tried_again(cluster: FakeCluster) -> None:
    cluster.failures = [AuthenticationError("refused")] * 2
    with pytest.raises(AuthenticationError):
        ranges()
    assert len(cluster.failures) == 1


def test_an_end_before_what_is_known_is_asked_again(cluster: FakeCluster) -> None:
    cluster.ends = [30, 30, END]
    assert OffsetReader(options(subscribe="b")).latest({B0: 40}) == {B0: END}
    cluster.ends = [30]
    assert OffsetReader(options(subscribe="b")).latest({B0: 40}) == {B0: 30}


def test_first_offsets_of_some(cluster: FakeCluster) -> None:
    reader = OffsetReader(options())
    assert reader.earliest() == {A0: BEGINNING, A1: BEGINNING}
    assert reader.earliest([A1, B0]) == {A1: BEGINNING}, "those that are there"
    cluster.failures = [KafkaClientError("not asked")]
    assert reader.earliest([]) == {}
