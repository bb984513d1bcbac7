"""One suite of consumer group tests for every client library, with processes of members for each library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, Producer

from integration.harness.admin import admin
from integration.harness.clients import fresh_topic
from integration.harness.members import BEGINNING, END, Committed, Event, Member, MemberHost, Partition, Record
from integration.harness.raw import RawClient
from integration.harness.wait import wait_for
from integration.harness.wire import leaders
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

SHORT_SESSION: dict[str, Any] = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 300}
"""Session timeout and heartbeat interval of members that a test kills."""
TAKEOVER = 20.0
"""Seconds within which other members own the partitions of a dead member: its session, and slack for a busy machine."""
SOON = 25.0
"""Seconds within which the coordinator notices that a member left; the member's session would last twice as long."""


SESSION_MS = 60000
"""Session timeout of all other members."""


class Ground:
    """A fresh group, its topics, and the records that are written to them."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.bootstrap = cluster.bootstrap
        self._brokers = [cluster.address(broker_id) for broker_id in cluster.broker_ids]
        self.group = fresh_topic("group")
        self._members: list[Member] = []
        self._numbers = count()

    def topic(self, partitions: int, records: int = 0) -> str:
        """A fresh topic; ``records`` in each partition."""
        topic = fresh_topic("grouped")
        Confluent().create_topic(self.bootstrap, topic, partitions, 1, {})
        # Wait for each broker's metadata, because a group leader that gets no partitions assigns none, and
        # kafka-python's leader does not refresh its metadata for minutes.
        for address in self._brokers:
            with RawClient(address) as client:
                wait_for(partial(_all_led, client, topic, partitions), f"{address} knows {topic}")
        if records:
            self.write(topic, range(partitions), records)
        return topic

    def write(self, topic: str, partitions: Iterable[int], records: int) -> list[str]:
        """Write ``records`` records to each partition; returns their values, which are all different."""
        sent = [(partition, f"{topic} {next(self._numbers)}") for partition in partitions for _ in range(records)]
        errors: list[object] = []
        producer = _producer(self.bootstrap)
        for partition, value in sent:
            told = lambda error, _: errors.append(error) if error else None  # noqa: E731
            producer.produce(topic, value.encode(), partition=partition, on_delivery=told)
        assert producer.flush(30) == 0 and not errors, errors
        return [value for _, value in sent]

    def join(
        self, host: MemberHost, *topics: str, assignor: str = "range", group: str | None = None, **config: Any
    ) -> Member:
        """A new member of the group, or of another group; ``config`` has underscores for dots."""
        named = {"session.timeout.ms": SESSION_MS, **{name.replace("_", "."): value for name, value in config.items()}}
        member = host.open(self.bootstrap, group or self.group, topics, assignor=assignor, config=named)
        self._members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Close the member."""
        self._members.remove(member)
        member.close()

    def forget(self, *members: Member) -> None:
        """Do not close ``members`` at the end, because their process is dead."""
        for member in members:
            self._members.remove(member)

    def end(self) -> None:
        """Close the members that have not left."""
        for member in self._members:
            member.close()


@cache
def _producer(bootstrap: str) -> Producer:
    """One producer for all tests, because a new one takes half a second to start."""
    return Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "max.in.flight": 1, "log_level": 0})


def parts(topic: str, *numbers: int) -> set[Partition]:
    """Partitions of a topic."""
    return {(topic, number) for number in numbers}


def wait_shares(members: Sequence[Member], partitions: set[Partition], shares: Sequence[int], timeout: float) -> None:
    """Wait until the group is stable and ``members`` own each of ``partitions`` once, in ``shares`` of any order."""

    def shared() -> bool:
        owned = [member.assignment for member in members]
        return sorted(map(len, owned)) == sorted(shares) and set().union(*owned) == partitions and settled(members)

    try:
        wait_for(shared, f"shares of {sorted(shares)}", timeout)
    except AssertionError as error:
        state = {member.name: (sorted(member.assignment), member.errors[-3:]) for member in members}
        raise AssertionError(f"{error}: {state}") from None


def settled(members: Sequence[Member]) -> bool:
    """Whether the group is stable, and the coordinator and each member agree on the member's assignment."""
    group = members[0].group
    described = admin(members[0].bootstrap).describe_consumer_groups([group])[group].result(10)
    owned = {
        member.member_id: {(one.topic, one.partition) for one in member.assignment.topic_partitions}
        for member in described.members
    }
    stable = described.state is ConsumerGroupState.STABLE
    return stable and all(owned.get(member.member_id) == member.assignment for member in members)


def wait_offsets(member: Member, partition: Partition, offsets: Sequence[int], since: int = 0) -> None:
    """Wait until ``member``, after its first ``since`` records, has read exactly ``offsets`` of ``partition``."""

    def read() -> list[int]:
        return [r.offset for r in member.records[since:] if (r.topic, r.partition) == partition]

    wait_for(lambda: len(read()) >= len(offsets), f"{member.name} reads {len(offsets)} of {partition}")
    assert read() == list(offsets), member.errors


def values(records: Iterable[Record]) -> Counter[str]:
    """How often each value was read."""
    return Counter(record.value for record in records)


def wait_values(members: Sequence[Member], size: int, needed: Set[str] = frozenset()) -> None:
    """Wait until ``members`` together have read ``size`` records, among them all values in ``needed``."""

    def read() -> bool:
        found = values(record for member in members for record in member.records)
        return found.total() >= size and needed <= set(found)

    wait_for(read, f"{[member.name for member in members]} read {size} records")


def since(member: Member, mark: int) -> list[Event]:
    """Callbacks after the first ``mark`` events of ``member``."""
    return [event for event in member.events[mark:] if event.kind in ("assigned", "revoked", "lost")]


@pytest.fixture
def ground(shared_cluster: LocalCluster) -> Iterator[Ground]:
    """A fresh group on the shared cluster, closed at the end."""
    found = Ground(shared_cluster)
    yield found
    found.end()


@pytest.fixture(scope="class")
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberHost]:
    """The process with the members of a suite."""
    with request.cls.new_host(tmp_path_factory.mktemp("host") / "members.log") as started:
        yield started


@pytest.fixture
def doomed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemberHost]:
    """A process with members that the test kills."""
    with request.cls.new_host(tmp_path / "doomed.log") as started:
        yield started


class GroupSuite:
    """The tests; a subclass starts the processes of its library and names the assignors that the library has."""

    assignors: Sequence[str] = ("range", "roundrobin", "sticky")

    @staticmethod
    def new_host(log: Path) -> MemberHost:
        """A process for members of the library."""
        raise NotImplementedError

    def test_join_and_leave(self, ground: Ground, host: MemberHost) -> None:
        """One member owns all partitions, two share them, and one member owns all again when the other leaves."""
        topic = ground.topic(4)
        every = parts(topic, 0, 1, 2, 3)
        first = ground.join(host, topic)
        wait_shares([first], every, [4], SOON)
        assert first.member_id
        alone = first.generation
        second = ground.join(host, topic)
        wait_shares([first, second], every, [2, 2], SOON)
        assert first.generation > alone and first.generation == second.generation
        assert second.member_id not in ("", first.member_id)
        written = ground.write(topic, range(4), 10)
        wait_values([first, second], 40)
        assert values(first.records + second.records) == Counter(written)
        for member in (first, second):
            assert {(record.topic, record.partition) for record in member.records} == member.assignment
        together = first.generation
        ground.leave(second)
        wait_shares([first], every, [4], SOON)
        assert first.generation > together
        assert not first.of("lost")

    def test_death(self, ground: Ground, host: MemberHost, doomed: MemberHost) -> None:
        """After ``kill -9`` a member's session expires, and the other member reads on from its last commit."""
        topic = ground.topic(2, 10)
        every = parts(topic, 0, 1)
        heir = ground.join(host, topic)
        wait_shares([heir], every, [2], SOON)
        dying = ground.join(doomed, topic, **SHORT_SESSION)
        wait_shares([heir, dying], every, [1, 1], SOON)
        [gone] = dying.assignment
        wait_offsets(dying, gone, range(10))
        dying.commit({gone: 6})
        ground.write(topic, range(2), 10)
        wait_offsets(dying, gone, range(20))
        mark = len(heir.records)
        doomed.kill()
        ground.forget(dying)
        wait_shares([heir], every, [2], TAKEOVER)
        wait_offsets(heir, gone, range(6, 20), mark)

    def test_idle_members_take_over(self, ground: Ground, host: MemberHost) -> None:
        """A third member of a group with two partitions gets one when another member leaves."""
        topic = ground.topic(2)
        every = parts(topic, 0, 1)
        members = [ground.join(host, topic) for _ in range(3)]
        wait_shares(members, every, [0, 1, 1], SOON)
        [idle] = [member for member in members if not member.assignment]
        ground.write(topic, range(2), 5)
        for member in members:
            if member is not idle:
                wait_values([member], 5)
                member.commit()
        while len(members) > 1:
            leaving = next(member for member in members if member is not idle)
            ground.leave(leaving)
            members.remove(leaving)
            wait_shares(members, every, [1, 1] if len(members) == 2 else [2], SOON)
            assert idle.assignment
        written = ground.write(topic, range(2), 5)
        wait_values([idle], 10)
        assert values(idle.records) == Counter(written)

    def test_static_members_restart_without_a_rebalance(self, ground: Ground, host: MemberHost) -> None:
        """A restarted member with an instance id keeps its partitions without a rebalance, also if it is the leader."""
        topic = ground.topic(4, 5)
        every = parts(topic, 0, 1, 2, 3)
        leader = ground.join(host, topic, group_instance_id="one")
        wait_shares([leader], every, [4], SOON)
        other = ground.join(host, topic, group_instance_id="two")
        wait_shares([leader, other], every, [2, 2], SOON)
        for name in ("two", "one"):
            stays, goes = (leader, other) if name == "two" else (other, leader)
            wait_values([goes], 10)
            goes.commit()
            had, generation, mark = goes.assignment, goes.generation, len(stays.events)
            ground.leave(goes)
            back = ground.join(host, topic, group_instance_id=name)
            wait_shares([back], had, [2], SOON)
            assert back.generation == generation
            assert back.member_id != goes.member_id
            written = ground.write(topic, range(4), 5)
            wait_values([back, stays], 20, set(written))
            assert set(values(back.records)) < set(written) and max(values(back.records).values()) == 1
            assert not since(stays, mark) and stays.generation == generation
            leader, other = (stays, back) if name == "two" else (back, stays)
        assert not leader.errors + other.errors

    def test_cooperative_rebalance(self, ground: Ground, host: MemberHost) -> None:
        """Only the partitions that move are revoked; the others are read throughout the rebalance."""
        if "cooperative-sticky" not in self.assignors:
            pytest.skip("the library has eager assignors only")
        topic = ground.topic(4)
        every = parts(topic, 0, 1, 2, 3)
        first = ground.join(host, topic, assignor="cooperative-sticky")
        wait_shares([first], every, [4], SOON)
        mark = len(first.events)
        second = ground.join(host, topic, assignor="cooperative-sticky")
        wait_shares([first, second], every, [2, 2], SOON)
        revoked = [event.partitions for event in since(first, mark) if event.kind == "revoked" and event.partitions]
        assert revoked == [second.assignment]
        assert all(event.partitions >= first.assignment for event in first.of("assignment"))
        mark = len(first.events)
        moved = second.assignment
        ground.leave(second)
        wait_shares([first], every, [4], SOON)
        got = [(event.kind, event.partitions) for event in since(first, mark) if event.partitions]
        assert got == [("assigned", moved)]

    @pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
    def test_assignors(self, ground: Ground, host: MemberHost, assignor: str) -> None:
        """Each assignor divides two topics of three partitions as in Kafka."""
        if assignor not in self.assignors:
            pytest.skip(f"the library has no {assignor}")
        one, two = sorted([ground.topic(3), ground.topic(3)])
        every = parts(one, 0, 1, 2) | parts(two, 0, 1, 2)
        members = [ground.join(host, one, two, assignor=assignor) for _ in range(2)]
        wait_shares(members, every, [4, 2] if assignor == "range" else [3, 3], SOON)
        shares = [member.assignment for member in members]
        if assignor == "range":
            assert sorted(shares, key=len)[1] == parts(one, 0, 1) | parts(two, 0, 1)
        elif assignor == "roundrobin":
            assert parts(one, 0, 2) | parts(two, 1) in shares
        members.append(ground.join(host, one, two, assignor=assignor))
        wait_shares(members, every, [2, 2, 2], SOON)
        if assignor == "sticky":
            assert all(member.assignment < share for member, share in zip(members, shares, strict=False))

    def test_every_group_sees_every_message(self, ground: Ground, host: MemberHost) -> None:
        """Three groups on two topics, one of them with two members; one poll gives records of both topics."""
        topics = [ground.topic(3), ground.topic(2)]
        written = [
            value for topic, size in zip(topics, (3, 2), strict=True) for value in ground.write(topic, range(size), 8)
        ]
        groups = {ground.group: 2, fresh_topic("group"): 1, fresh_topic("group"): 1}
        for group, size in groups.items():
            members = [ground.join(host, *topics, group=group) for _ in range(size)]
            every = parts(topics[0], 0, 1, 2) | parts(topics[1], 0, 1)
            wait_shares(members, every, [5] if size == 1 else [3, 2], SOON)
            wait_values(members, len(written), set(written))
            if size == 1:
                assert values(members[0].records) == Counter(written), "read more than once, or not at all"
                # Write more until one poll has both topics, because on a loaded machine a poll may have only one.
                while not any(len({record.topic for record in poll}) == 2 for poll in members[0].polls):
                    written += [value for topic in topics for value in ground.write(topic, [0], 1)]
                    wait_values(members, len(written), set(written))

    def test_rewind_and_skip(self, ground: Ground, host: MemberHost) -> None:
        """A member seeks back, forward, to the beginning and to the end."""
        topic = ground.topic(1, 20)
        member = ground.join(host, topic)
        partition = (topic, 0)
        wait_offsets(member, partition, range(20))
        for offset, first in ((5, 5), (17, 17), (BEGINNING, 0)):
            mark = len(member.records)
            member.seek(partition, offset)
            wait_offsets(member, partition, range(first, 20), mark)
        member.seek(partition, 3)
        member.seek(partition, END)
        ground.write(topic, [0], 4)
        wait_for(lambda: member.records[-1].offset == 23, "the new ones are read")
        assert [record.offset for record in member.records[-5:]] == [19, 20, 21, 22, 23]

    def test_earliest_and_latest(self, ground: Ground, host: MemberHost) -> None:
        """Without a commit a member reads from the first record, or from the first record after it joined."""
        topic = ground.topic(1, 10)
        early = ground.join(host, topic, auto_offset_reset="earliest")
        late = ground.join(host, topic, group=fresh_topic("group"), auto_offset_reset="latest")
        wait_offsets(early, (topic, 0), range(10))
        wait_shares([late], parts(topic, 0), [1], SOON)
        # Compare with the first offset that it read, because the test cannot see the end offset at which it began.
        wait_for(lambda: ground.write(topic, [0], 1) and len(late.records) >= 3, "the late one reads")
        offsets = [record.offset for record in late.records]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets))) and offsets[0] >= 10

    def test_manual_commits(self, ground: Ground, host: MemberHost) -> None:
        """The next member begins at the committed offsets, and reads the committed metadata."""
        topic = ground.topic(2, 20)
        zero, one = (topic, 0), (topic, 1)
        first = ground.join(host, topic)
        wait_values([first], 40)
        assert first.committed([zero, one]) == {}
        first.commit({zero: (7, "half way, übrigens")})
        assert first.committed([zero, one]) == {zero: Committed(7, "half way, übrigens")}
        ground.leave(first)
        second = ground.join(host, topic)
        wait_offsets(second, zero, range(7, 20))
        wait_offsets(second, one, range(20))
        second.commit()
        assert second.committed([zero, one]) == {zero: Committed(20, ""), one: Committed(20, "")}
        second.commit({one: 3})
        ground.leave(second)
        third = ground.join(host, topic)
        wait_offsets(third, one, range(3, 20))
        ground.write(topic, [0], 3)
        wait_offsets(third, zero, range(20, 23))

    def test_automatic_commits(self, ground: Ground, host: MemberHost, doomed: MemberHost) -> None:
        """A member commits by its interval, so that a commit outlives ``kill -9``, and when it closes."""
        topic = ground.topic(1, 20)
        partition = (topic, 0)
        first = ground.join(doomed, topic, enable_auto_commit=True, auto_commit_interval_ms=200, **SHORT_SESSION)
        wait_offsets(first, partition, range(20))
        wait_for(lambda: first.committed([partition]).get(partition) == Committed(20, ""), "it is committed")
        doomed.kill()
        ground.forget(first)
        second = ground.join(host, topic, enable_auto_commit=True, auto_commit_interval_ms=600000)
        wait_shares([second], {partition}, [1], TAKEOVER)
        ground.write(topic, [0], 5)
        wait_offsets(second, partition, range(20, 25))
        ground.leave(second)
        third = ground.join(host, topic)
        wait_shares([third], {partition}, [1], SOON)
        assert third.committed([partition])[partition].offset == 25
        ground.write(topic, [0], 1)
        wait_offsets(third, partition, [25])


def _all_led(client: RawClient, topic: str, partitions: int) -> bool:
    return sum(leader >= 0 for leader in leaders(client, topic).values()) == partitions
