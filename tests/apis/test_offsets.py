"""OffsetCommit, OffsetFetch and OffsetDelete in every version, over the offsets in ZooKeeper."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import pytest

from kafkalite.apis.dispatch import Dispatcher
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.values import (
    FetchedOffsets,
    OffsetCommitRequest,
    OffsetErrors,
)
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.zk_client import ConnectionLostError
from kafkalite.zk.znodes.consumers import group_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata
from tests.apis.helpers import FakeBroker, struct

COMMIT, FETCH, DELETE = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
COMMIT_VERSIONS = range(SUPPORTED[COMMIT].min, SUPPORTED[COMMIT].max + 1)
FETCH_VERSIONS = range(SUPPORTED[FETCH].min, SUPPORTED[FETCH].max + 1)


class Groups:
    """A coordinator of every group that does not begin with ``other``."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.commits: list[OffsetCommitRequest] = []
        self.required_stable: list[bool] = []
        self.failure: Exception | None = None
        self._claims = ClaimStore(broker.zookeeper.client(), broker.clock)
        self.offsets = self.admin = self

    def check(self, group: str) -> None:
        if self.failure is not None:
            raise self.failure
        if group.startswith("other"):
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    async def commit(self, request: OffsetCommitRequest) -> OffsetErrors:
        self.commits.append(request)
        claims = ClaimStore(self.broker.zookeeper.clients[0], self.broker.clock)
        claim = await claims.claim(group_path(request.group), 1)
        return await self.broker.offsets.commit(request.group, request.offsets, claim)

    async def fetch(
        self, group: str, partitions: Sequence[TopicPartition] | None, *, require_stable: bool
    ) -> FetchedOffsets:
        self.check(group)
        self.required_stable.append(require_stable)
        return await self.broker.offsets.fetch(group, partitions)

    async def delete_offsets(self, group: str, partitions: Sequence[TopicPartition]) -> OffsetErrors:
        self.check(group)
        return {tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if tp.partition else ErrorCode.NONE for tp in partitions}


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.groups = Groups(broker)
    services = dataclasses.replace(broker.services, groups=cast("Any", broker.groups))
    broker.dispatcher = Dispatcher(services)
    return broker


def commit(broker: FakeBroker, version: int, offsets: dict[TopicPartition, int], **fields: Any) -> dict[Any, int]:
    """Commit with everything that the version has a field for; the errors."""
    partitions: dict[str, list[Any]] = {}
    for tp, offset in offsets.items():
        partitions.setdefault(tp.topic, []).append(
            struct(
                COMMIT,
                "OffsetCommitRequestTopic.OffsetCommitRequestPartition",
                version,
                partition_index=tp.partition,
                committed_offset=offset,
                committed_leader_epoch=3,
                commit_timestamp=1234 if version == 1 else -1,
                committed_metadata="m",
            )
        )
    topics = [
        struct(COMMIT, "OffsetCommitRequestTopic", version, name=name, partitions=parts)
        for name, parts in partitions.items()
    ]
    wanted = {
        "group_id": "g",
        "topics": topics,
        "generation_id_or_member_epoch": 5,
        "member_id": "member",
        "group_instance_id": "static" if version >= 7 else None,
        "retention_time_ms": 1000 if version in (2, 3, 4) else -1,
        **fields,
    }
    answer = broker.call(COMMIT, version, **wanted)
    return {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}


def fetch(broker: FakeBroker, version: int, topics: dict[str, list[int]] | None, group: str = "g") -> Any:
    """The error of the group, and (offset, leader epoch, metadata, error) by partition."""
    name = "OffsetFetchRequestTopic" if version < 8 else "OffsetFetchRequestGroup.OffsetFetchRequestTopics"
    asked = (
        None
        if topics is None
        else [struct(FETCH, name, version, name=topic, partition_indexes=indexes) for topic, indexes in topics.items()]
    )
    if version < 8:
        answer = found = broker.call(FETCH, version, group_id=group, topics=asked, require_stable=version >= 7)
    else:
        groups = [struct(FETCH, "OffsetFetchRequestGroup", version, group_id=group, topics=asked)]
        found = broker.call(FETCH, version, groups=groups, require_stable=True)
        [answer] = found.groups
        assert answer.group_id == group
    values = {
        (t.name, p.partition_index): (
            p.committed_offset,
            p.committed_leader_epoch if version >= 5 else None,
            p.metadata,
            p.error_code,
        )
        for t in answer.topics
        for p in t.partitions
    }
    return (answer.error_code if version >= 2 else None), values


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_commit(broker: FakeBroker, version: int) -> None:
    assert commit(broker, version, {T0: 7, TopicPartition("x", 0): 1, TopicPartition("t", 9): 1}) == {
        ("t", 0): 0,
        ("t", 9): UNKNOWN,
        ("x", 0): UNKNOWN,
    }
    [stored] = cast("list[OffsetAndMetadata]", list(_run(broker.offsets.fetch("g", None)).values()))
    if version == 0:
        assert stored == OffsetAndMetadata(7) and broker.groups.commits == []
        return
    now = broker.clock.time_ms()
    epoch = 3 if version >= 6 else -1
    timestamp = 1234 if version == 1 else now
    assert stored == OffsetAndMetadata(7, epoch, "m", timestamp, now + 1000 if version in (2, 3, 4) else -1)
    [request] = broker.groups.commits
    assert (request.group, request.generation, request.member_id) == ("g", 5, "member")
    assert request.instance_id == ("static" if version >= 7 else None)


def test_nothing_but_unknown_topics_needs_no_coordinator(broker: FakeBroker) -> None:
    assert commit(broker, 8, {TopicPartition("x", 0): 1}) == {("x", 0): UNKNOWN}
    assert broker.groups.commits == []


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch(broker: FakeBroker, version: int) -> None:
    commit(broker, 9, {T0: 7})
    error, values = fetch(broker, version, {"t": [0, 1], "x": [3]})
    assert not error
    missing = UNKNOWN if version == 0 else ErrorCode.NONE
    assert values == {
        ("t", 0): (7, 3 if version >= 5 else None, "m", 0),
        ("t", 1): (-1, -1 if version >= 5 else None, "", missing),
        ("x", 3): (-1, -1 if version >= 5 else None, "", missing),
    }
    if version:
        assert broker.groups.required_stable[0] == (version >= 7)


@pytest.mark.parametrize("version", FETCH_VERSIONS[2:])
def test_fetch_of_all(broker: FakeBroker, version: int) -> None:
    commit(broker, 9, {T0: 7, T1: 8})
    error, values = fetch(broker, version, None)
    assert error == 0 and {key: value[0] for key, value in values.items()} == {("t", 0): 7, ("t", 1): 8}


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ApiError(ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR),
        (ConnectionLostError(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
def test_fetch_that_fails(broker: FakeBroker, version: int, failure: Exception, code: ErrorCode) -> None:
    broker.groups.failure = failure
    error, values = fetch(broker, version, {"t": [0]})
    if version == 1:
        assert values == {("t", 0): (-1, None, "", code)}
    else:
        assert (error, values) == (code, {})


def test_any_broker_answers_version_0(broker: FakeBroker) -> None:
    broker.groups.failure = ApiError(ErrorCode.NOT_COORDINATOR)
    assert commit(broker, 0, {T0: 5}, group_id="other") == {("t", 0): 0}
    assert fetch(broker, 0, {"t": [0]}, group="other")[1] == {("t", 0): (5, None, "", 0)}


def test_several_groups_at_once(broker: FakeBroker) -> None:
    commit(broker, 9, {T0: 7})
    groups = [struct(FETCH, "OffsetFetchRequestGroup", 8, group_id=name, topics=None) for name in ("g", "other", "new")]
    answer = broker.call(FETCH, 8, groups=groups, require_stable=False)
    assert [(each.group_id, each.error_code, len(each.topics)) for each in answer.groups] == [
        ("g", 0, 1),
        ("other", ErrorCode.NOT_COORDINATOR, 0),
        ("new", 0, 0),
    ]


def test_delete(broker: FakeBroker) -> None:
    def asked(group: str) -> Any:
        kind = "OffsetDeleteRequestTopic"
        both = [struct(DELETE, f"{kind}.OffsetDeleteRequestPartition", 0, partition_index=index) for index in (0, 1)]
        topics = [struct(DELETE, kind, 0, name=name, partitions=both) for name in ("t", "x")]
        return broker.call(DELETE, 0, group_id=group, topics=topics)

    answer = asked("g")
    assert answer.error_code == 0
    assert {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions} == {
        ("t", 0): 0,
        ("t", 1): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("x", 0): UNKNOWN,
        ("x", 1): UNKNOWN,
    }
    assert asked("other").error_code == ErrorCode.NOT_COORDINATOR


def _run(work: Any) -> Any:
    results: list[Any] = []
    deferred(work).addCallback(results.append)
    return results[0]
