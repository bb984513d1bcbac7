"""Members of groups: each partition has one reader, and what is committed goes on from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.history.events import (
    Heartbeating,
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetUnknown,
    Owned,
    Positioned,
    Read,
)
from kafkalite.testing.simulation.clients.consumer_coordinator import MembershipSettings
from kafkalite.testing.simulation.clients.consumer_protocol import (
    RANGE,
    STICKY,
    ConsumerProtocolSubscription,
    assign_ranges,
    assign_sticky,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkalite.testing.simulation.clients.member import Member, MemberSettings
from kafkalite.testing.simulation.clients.onlooker import Onlooker, OnlookerSettings
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from tests.testing.simulation.clients.brokers import Brokers, Fault, lose_answer, lose_request, once, swallow

TOPIC = "t"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(4))
P0, P1, P2, P3 = PARTITIONS


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    for number, tp in enumerate(PARTITIONS):
        found.create(tp, ((1, 2, 3), (2, 3, 1))[number % 2])
    yield found
    found.finish()


def producer_of(brokers: Brokers, most: int = 200) -> Producer:
    producer = Producer(brokers.host, ProducerSettings("p", (TOPIC,), rate=4.0, most=most))
    brokers.start(producer)
    return producer


def member_of(
    brokers: Brokers, name: str, protocol: str = RANGE, instance: str | None = None, dawdle: float = 0.0
) -> tuple[Member, list[object]]:
    membership = MembershipSettings("g", (TOPIC,), instance, protocol, rebalance_timeout=2.0)
    member = Member(brokers.host, MemberSettings(name, membership, dawdle=dawdle))
    return member, brokers.start(member)


PROTOCOLS = pytest.mark.parametrize("protocol", [RANGE, STICKY])


@PROTOCOLS
def test_one_member_reads_all_records_and_commits(brokers: Brokers, protocol: str) -> None:
    producer = producer_of(brokers, 100)
    member, ended = member_of(brokers, "a", protocol)
    brokers.run(40)
    assert producer.acknowledged == 100
    assert member.assigned == PARTITIONS
    assert len(brokers.of(Read)) == len({event.record for event in brokers.of(Read)}) == 100
    assert member.commits > 3
    last = {event.partition: event.offset for event in brokers.of(OffsetCommitted)}
    assert sum(last.values()) == 100
    member.stop()
    brokers.run(5)
    assert ended == [None]
    assert brokers.found() == []
    assert brokers.violations == []


@PROTOCOLS
def test_members_come_and_go(brokers: Brokers, protocol: str) -> None:
    producer = producer_of(brokers, 400)
    first, _ = member_of(brokers, "a", protocol)
    brokers.run(6)
    assert first.assigned == PARTITIONS
    second, second_ended = member_of(brokers, "b", protocol)
    brokers.run(10)
    assert len(first.assigned) == len(second.assigned) == 2
    assert sorted({*first.assigned, *second.assigned}) == [*PARTITIONS]
    second.stop()
    brokers.run(6)
    assert second_ended == [None]
    assert sorted(first.assigned) == [*PARTITIONS]
    third, _ = member_of(brokers, "c", protocol)
    brokers.run(8)
    third.kill()
    brokers.run(20)
    assert sorted(first.assigned) == [*PARTITIONS]
    assert max(event.generation for event in brokers.of(Owned)) >= 5
    # The uncommitted records are read again.
    assert len({event.record for event in brokers.of(Read)}) == producer.acknowledged == 400
    assert brokers.found() == []
    assert brokers.violations == []


def test_the_cooperative_protocol_keeps_what_a_member_has(brokers: Brokers) -> None:
    producer_of(brokers, 400)
    first, _ = member_of(brokers, "a", STICKY)
    brokers.run(6)
    member_of(brokers, "b", STICKY)
    brokers.run(10)
    kept = {str(partition) for partition in first.assigned}
    assert len(kept) == 2
    for name in kept:
        assert sum(event.partition == name and event.reader == "a" for event in brokers.of(Positioned)) == 1


def test_a_static_member_comes_back_without_a_rebalance(brokers: Brokers) -> None:
    producer_of(brokers, 300)
    first, _ = member_of(brokers, "a.1", instance="a")
    second, _ = member_of(brokers, "b.1", instance="b")
    brokers.run(12)
    generation = max(event.generation for event in brokers.of(Owned))
    first.kill()
    brokers.run(1)
    again, _ = member_of(brokers, "a.2", instance="a")
    brokers.run(5)
    assert len(again.assigned) == len(second.assigned) == 2
    assert max(event.generation for event in brokers.of(Owned)) == generation
    assert brokers.found() == []
    assert brokers.violations == []


def test_the_second_process_of_a_static_member_evicts_the_first(brokers: Brokers) -> None:
    first, ended = member_of(brokers, "a.1", instance="a")
    brokers.run(5)
    second, _ = member_of(brokers, "a.2", instance="a")
    brokers.run(5)
    assert first.evicted
    assert ended == [None]
    assert second.assigned == PARTITIONS
    assert brokers.violations == []


@pytest.mark.parametrize("instance", [None, "a"])
def test_a_member_that_works_on_through_a_rebalance_learns_that_its_generation_is_over(
    brokers: Brokers, instance: str | None
) -> None:
    producer_of(brokers, 200)
    slow, _ = member_of(brokers, "a.1", instance=instance, dawdle=60.0)
    brokers.run(6)
    quick, _ = member_of(brokers, "b")
    brokers.run(15)
    first = next(event for event in brokers.of(Owned) if event.generation == 2)
    # A static member stays a member without having joined, and keeps its share.
    assert (first.owner, len(first.partitions)) == ("b", 2 if instance else 4)
    assert len(slow.assigned) == len(quick.assigned) == 2
    assert brokers.found() == []
    assert brokers.violations == []


def test_late_requests_of_the_generation_before_are_refused(brokers: Brokers) -> None:
    producer_of(brokers, 100)
    member_of(brokers, "a")
    brokers.run(6)
    member_of(brokers, "b")
    brokers.run(8)
    owned = max(at for at, event in enumerate(brokers.events) if isinstance(event, Owned) and event.owner == "a")
    generation = max(event.generation for event in brokers.of(Owned))
    since = brokers.events[owned:]
    late = [event for event in since if isinstance(event, Heartbeating) and event.generation < generation]
    commits = [event for event in since if isinstance(event, OffsetCommitting) and event.generation < generation]
    assert len(late) == 1
    assert commits
    assert not [event for event in since if isinstance(event, OffsetCommitted) and event.generation < generation]
    assert brokers.found() == []
    assert brokers.violations == []


def test_an_onlooker_is_shown_what_members_commit(brokers: Brokers) -> None:
    producer_of(brokers, 100)
    member_of(brokers, "a")
    onlooker = Onlooker(brokers.host, OnlookerSettings("o", (MembershipSettings("g", (TOPIC,)),), 0.2))
    ended = brokers.start(onlooker)
    brokers.run(40)
    shown = {event.partition: event.offset for event in brokers.of(OffsetFetched) if event.onlooker == "o"}
    assert sum(shown.values()) == 100
    onlooker.stop()
    brokers.run(1)
    assert ended == [None]
    assert brokers.found() == []
    assert brokers.violations == []


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
    ],
)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lose_request, id="request lost"),
        pytest.param(lose_answer, id="answer lost"),
        pytest.param(swallow, id="no answer"),
    ],
)
def test_a_request_that_is_lost_does_no_harm(brokers: Brokers, key: ApiKey, fault: Fault) -> None:
    brokers.faults.append(once(key, fault))
    producer_of(brokers, 200)
    members = [member_of(brokers, name)[0] for name in ("a", "b")]
    brokers.run(60)
    assert brokers.count(key) > 1
    assert sorted(partition for member in members for partition in member.assigned) == [*PARTITIONS]
    assert bool(brokers.of(OffsetUnknown)) is (key is ApiKey.OFFSET_COMMIT)
    last = {event.partition: event.offset for event in brokers.of(OffsetCommitted)}
    assert sum(last.values()) == 200
    assert brokers.found() == []
    assert brokers.violations == []


# Messages between members


def test_subscriptions_and_assignments_come_back_as_they_were() -> None:
    subscription = ConsumerProtocolSubscription(
        ("a", "bé"), (TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("bé", 0))
    )
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assert decode_assignment(encode_assignment(subscription.owned)) == subscription.owned
    assert decode_assignment(b"") == ()


@pytest.mark.parametrize(
    ("members", "instances", "expected"),
    [
        (("m1", "m2"), {}, {"m1": [P0, P1], "m2": [P2, P3]}),
        (("m1", "m2", "m3"), {}, {"m1": [P0, P1], "m2": [P2], "m3": [P3]}),
        (("m1", "m2"), {"m2": "a", "m1": "b"}, {"m2": [P0, P1], "m1": [P2, P3]}),
    ],
)
def test_ranges(
    members: tuple[str, ...], instances: dict[str, str | None], expected: dict[str, list[TopicPartition]]
) -> None:
    found = assign_ranges({member: ConsumerProtocolSubscription((TOPIC,)) for member in members}, {TOPIC: 4}, instances)
    assert found == expected


@pytest.mark.parametrize(
    ("owned", "expected"),
    [
        ({"m1": (), "m2": ()}, {"m1": [P0, P2], "m2": [P1, P3]}),
        # A partition that has to move has no owner until its old owner has released it.
        ({"m1": (P0, P1, P2, P3), "m2": ()}, {"m1": [P0, P1], "m2": []}),
        ({"m1": (P0, P1), "m2": ()}, {"m1": [P0, P1], "m2": [P2, P3]}),
        # Two say that it is theirs.
        ({"m1": (P0, P1), "m2": (P1,)}, {"m1": [P0, P3], "m2": [P2]}),
    ],
)
def test_sticky(owned: dict[str, tuple[TopicPartition, ...]], expected: dict[str, list[TopicPartition]]) -> None:
    subscriptions = {member: ConsumerProtocolSubscription((TOPIC,), partitions) for member, partitions in owned.items()}
    assert assign_sticky(subscriptions, {TOPIC: 4}) == expected
