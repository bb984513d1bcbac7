"""Rebalances after joins, deaths and expired sessions, and with owners that release partitions slowly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.python.failure import Failure

from kafkalite.cluster.model import Broker, Endpoint, PartitionAssignment
from kafkalite.common.tasks import deferred
from kafkalite.common.types import TopicPartition
from kafkalite.consumer.config import ConsumerConfig
from kafkalite.consumer.errors import ConsumerClosedError, ConsumerRebalanceFailedError
from kafkalite.consumer.rebalancer import Rebalancer
from kafkalite.consumer.registry import Registry
from kafkalite.consumer.stream import Record, Stream
from kafkalite.consumer.subscription import Subscription
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.paths import ensure, set_or_create
from kafkalite.zk.zk_client import ConnectionLostError, NoNodeError
from kafkalite.zk.znodes.brokers import broker_path, encode_broker
from kafkalite.zk.znodes.topics import TopicAssignment, encode_topic, topic_path

GROUP = "/consumers/g"
BROKER = Broker(1, (Endpoint("SECURE", "SSL", "h", 1), Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092)), None)


class Fetches:
    """The calls of a fetcher."""

    def __init__(self) -> None:
        self.brokers: list[str] = []
        self.generation = 0
        self.starts: Mapping[TopicPartition, int | None] = {}

    def set_brokers(self, brokers: list[str]) -> None:
        self.brokers = brokers

    def fetch(self, generation: int, starts: Mapping[TopicPartition, int | None]) -> None:
        self.generation, self.starts = generation, starts


class Member:
    """A member with all that it needs, except a network."""

    def __init__(self, fixture: ConsumerGroupFixture, name: str, wanted: Subscription, **settings: Any) -> None:
        self.client: MemoryZkClient = fixture.server.client()
        config = ConsumerConfig("zk", "g", **{"auto_commit_interval_ms": 1000, **settings})
        self.stream, self.fetches = Stream(100), Fetches()
        registry = Registry(self.client, "g", name)
        self.rebalancer = Rebalancer(registry, wanted, self.stream, self.fetches, fixture.clock, config)
        self.client.add_listener(self.rebalancer.on_session)
        self.outcome: list[object] = []
        deferred(self.rebalancer.start()).addBoth(self.outcome.append)

    @property
    def owned(self) -> str:
        """The member's partitions, as digits."""
        return "".join(str(tp.partition) for tp in sorted(self.rebalancer.owned))

    @property
    def failure(self) -> BaseException:
        """The error of :meth:`Rebalancer.start`."""
        [failure] = self.outcome
        assert isinstance(failure, Failure) and failure.value is not None
        return failure.value

    def read(self, partition: int, *offsets: int) -> None:
        """Let these records come, and read them (the last one is in hand)."""
        tp = TopicPartition("t", partition)
        self.stream.put(self.fetches.generation, tp, [Record("t", partition, o, -1, None, b"") for o in offsets])
        for _ in offsets:
            assert self.stream.next(0) is not None


class ConsumerGroupFixture:
    """ZooKeeper in memory with a broker and a topic ``t``."""

    def __init__(self, partitions: int = 4) -> None:
        self.clock = ManualClock()
        self.server = MemoryZooKeeper()
        self.client = self.server.client()
        deferred(ensure(self.client, "/brokers/topics"))
        self.set(broker_path(1), encode_broker(BROKER, 0))
        self.topic("t", partitions)

    def topic(self, name: str, partitions: int) -> None:
        assignment = TopicAssignment(None, dict.fromkeys(range(partitions), PartitionAssignment((1,))))
        self.set(topic_path(name), encode_topic(assignment))

    def set(self, path: str, data: bytes) -> None:
        deferred(set_or_create(self.client, path, data))

    def data(self, path: str) -> str | None:
        try:
            return self.server.data(path).decode()
        except NoNodeError:
            return None

    def offset(self, partition: int) -> str | None:
        return self.data(f"{GROUP}/offsets/t/{partition}")

    def owners(self) -> dict[int, str | None]:
        found = {p: self.data(f"{GROUP}/owners/t/{p}") for p in range(8)}
        return {partition: owner for partition, owner in found.items() if owner is not None}

    def member(self, name: str, wanted: Subscription | None = None, **settings: Any) -> Member:
        return Member(self, name, wanted or Subscription.to_topics(["t"]), **settings)


@pytest.fixture
def fixture() -> ConsumerGroupFixture:
    return ConsumerGroupFixture()


def test_one_member_owns_all(fixture: ConsumerGroupFixture) -> None:
    fixture.set(f"{GROUP}/offsets/t/2", b"17")
    one = fixture.member("one")
    assert one.outcome == [None] and one.owned == "0123"
    assert fixture.owners() == dict.fromkeys(range(4), "one-0")
    assert one.fetches.brokers == ["h:9092"]
    assert one.fetches.starts == {TopicPartition("t", p): 17 if p == 2 else None for p in range(4)}
    assert fixture.data(f"{GROUP}/ids/one") == (
        '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1700000000000"}'
    )


def test_members_share_and_continue_at_the_commits_of_the_other(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one")
    one.read(3, 0, 1, 2)
    two = fixture.member("two")
    assert (one.owned, two.owned) == ("01", "23")
    assert fixture.owners() == {0: "one-0", 1: "one-0", 2: "two-0", 3: "two-0"}
    assert fixture.offset(3) == "2", "the record in hand is not committed"
    assert two.fetches.starts == {TopicPartition("t", 2): None, TopicPartition("t", 3): 2}
    assert set(one.fetches.starts) == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_a_member_dies(fixture: ConsumerGroupFixture) -> None:
    one, two = fixture.member("one"), fixture.member("two")
    fixture.server.expire(one.client.session)  # it does not come back: its listener hears nothing any more
    one.client.close()
    assert two.owned == "0123"
    assert fixture.owners() == dict.fromkeys(range(4), "two-0")


# trap: kafkalite/consumer/rebalancer.py: A ZooKeeper consumer commits in a new session what it read in the expired one.
def test_its_own_session_expires(fixture: ConsumerGroupFixture) -> None:
    one, two = fixture.member("one"), fixture.member("two")
    one.read(0, 0, 1, 2, 3)
    one.client.expire_session()
    assert (one.owned, two.owned) == ("01", "23")
    assert fixture.owners() == {0: "one-0", 1: "one-0", 2: "two-0", 3: "two-0"}
    assert fixture.offset(0) is None, "what it had read in its old life is not committed in the new one"
    assert one.fetches.starts == {TopicPartition("t", 0): None, TopicPartition("t", 1): None}
    one.read(1, 0, 1)
    fixture.clock.advance(1.0)
    assert fixture.offset(1) == "1"


def test_a_suspended_session_continues(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one")
    one.read(0, 0, 1)
    generation = one.fetches.generation
    one.client.lose_connection()
    assert one.owned == "0123"
    fixture.clock.advance(1.0)
    assert fixture.offset(0) is None
    fixture.topic("t", 5)
    one.client.reconnect()
    assert one.owned == "01234" and fixture.offset(0) == "1"
    assert one.fetches.generation > generation


def test_a_connection_that_breaks_while_claiming(fixture: ConsumerGroupFixture) -> None:
    """The outcome of the claims is unknown, so the member releases them and claims again."""
    one = fixture.member("one")
    two = Member.__new__(Member)

    def cut(name: str, path: str) -> None:
        if name == "create" and path == f"{GROUP}/owners/t/3":
            two.client.before = None
            two.client.server.deliver(two.client.lose_connection)
            two.client.server.deliver(two.client.reconnect)

    original = fixture.server.client

    def client() -> MemoryZkClient:
        made = original()
        made.before = cut
        return made

    fixture.server.client = client  # type: ignore[method-assign]
    two.__init__(fixture, "two", Subscription.to_topics(["t"]))  # type: ignore[misc]
    assert (one.owned, two.owned) == ("01", "23")
    assert fixture.owners() == {0: "one-0", 1: "one-0", 2: "two-0", 3: "two-0"}
    assert set(two.fetches.starts) == {TopicPartition("t", 2), TopicPartition("t", 3)}


def stranger(fixture: ConsumerGroupFixture, partition: int) -> MemoryZkClient:
    """An owner of a partition that is not among the members: it has left and not yet released the partition."""
    client = fixture.server.client()
    deferred(ensure(client, f"{GROUP}/owners/t"))
    deferred(client.create(f"{GROUP}/owners/t/{partition}", b"slow-0", ephemeral=True))
    return client


def test_a_member_waits_for_an_owner_that_releases_slowly(fixture: ConsumerGroupFixture) -> None:
    slow = stranger(fixture, 1)
    one = fixture.member("one")
    assert one.outcome == [] and one.owned == ""
    assert fixture.owners() == {1: "slow-0"}, "what it could claim it gave back"
    slow.close()
    assert one.owned == "0123" and one.outcome == [None]


def test_a_rebalance_fails_after_its_retries(fixture: ConsumerGroupFixture) -> None:
    stranger(fixture, 1)
    one = fixture.member("one", rebalance_max_retries=3, rebalance_backoff_ms=500)
    fixture.clock.advance(1.4)
    assert one.outcome == []
    fixture.clock.advance(0.2)
    assert isinstance(one.failure, ConsumerRebalanceFailedError)
    assert "one can't rebalance after 3 retries: other members still own t-1" in str(one.failure)
    with pytest.raises(ConsumerRebalanceFailedError):
        one.stream.next(0)


def test_a_change_while_it_waits_is_a_rebalance_of_its_own(fixture: ConsumerGroupFixture) -> None:
    stranger(fixture, 1)
    one = fixture.member("one", rebalance_max_retries=2, rebalance_backoff_ms=1000)
    fixture.clock.advance(0.5)
    fixture.topic("t", 5)
    fixture.clock.advance(1.9)
    assert one.outcome == [], "its retries count from the change"
    fixture.clock.advance(0.2)
    assert isinstance(one.failure, ConsumerRebalanceFailedError)


def test_a_later_change_starts_a_new_rebalance(fixture: ConsumerGroupFixture) -> None:
    slow = stranger(fixture, 1)
    one = fixture.member("one", rebalance_max_retries=1)
    fixture.clock.advance(3.0)
    assert isinstance(one.failure, ConsumerRebalanceFailedError)
    slow.close()
    assert one.owned == "", "nobody told it: owners are not watched"
    fixture.topic("t", 5)
    assert one.owned == "01234" and one.stream.next(0) is None


# trap: kafkalite/consumer/rebalancer.py: A ZooKeeper consumer reads its offsets before it owns the partition, and
# misses the last commit of the former owner.
def test_offsets_are_read_after_the_claim(fixture: ConsumerGroupFixture) -> None:
    """The new owner begins at the last commit of the former owner."""
    fixture.set(f"{GROUP}/offsets/t/1", b"7")
    slow = stranger(fixture, 1)
    one = fixture.member("one")

    def commit_late(name: str, path: str) -> None:
        if name == "create" and path == f"{GROUP}/owners/t/1":
            one.client.before = None
            fixture.set(f"{GROUP}/offsets/t/1", b"42")

    one.client.before = commit_late
    slow.close()
    assert one.fetches.starts[TopicPartition("t", 1)] == 42


def test_a_name_that_is_taken(fixture: ConsumerGroupFixture) -> None:
    fixture.member("one")
    again = fixture.member("one", rebalance_max_retries=2, rebalance_backoff_ms=100)
    fixture.clock.advance(1.0)
    assert "ids/one" in str(again.failure)


def test_commits(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one", auto_commit_enable=False)
    one.read(0, 0, 1, 2)
    fixture.clock.advance(10.0)
    assert fixture.offset(0) is None
    written: list[Any] = []
    for _ in range(2):
        deferred(one.rebalancer.commit()).addCallback(written.append)
    assert written == [{TopicPartition("t", 0): 2}, {}] and fixture.offset(0) == "2"
    one.read(0, 3)
    fixture.member("two")
    assert fixture.offset(0) == "2", "without auto.commit.enable the consumer commits nothing unasked"


def test_automatic_commits(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one", auto_commit_interval_ms=500)
    one.read(0, 0, 1)
    fixture.clock.advance(0.4)
    assert fixture.offset(0) is None
    fixture.clock.advance(0.1)
    assert fixture.offset(0) == "1"
    fixture.set(f"{GROUP}/offsets/t/0", b"100")
    fixture.clock.advance(0.5)
    assert fixture.offset(0) == "100", "what has not moved is not written again"


def test_an_automatic_commit_that_fails_is_made_later(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one", auto_commit_interval_ms=500)
    one.read(0, 0, 1)

    def refuse(name: str, path: str) -> None:
        if name == "set":
            raise ConnectionLostError(path)

    one.client.before = refuse
    fixture.clock.advance(0.5)
    assert fixture.offset(0) is None
    one.client.before = None
    fixture.clock.advance(0.5)
    assert fixture.offset(0) == "1"


def test_stopping(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one")
    one.read(0, 0, 1)
    one.stream.settle()
    deferred(one.rebalancer.stop())
    assert fixture.offset(0) == "2" and one.owned == "" and one.fetches.starts == {}
    fixture.topic("t", 6)
    fixture.clock.advance(10.0)
    assert one.owned == "" and one.fetches.starts == {}


def test_stopping_while_it_waits_for_others(fixture: ConsumerGroupFixture) -> None:
    stranger(fixture, 0)
    one = fixture.member("one")
    stopped: list[object] = []
    deferred(one.rebalancer.stop()).addBoth(stopped.append)
    assert stopped == [None]
    assert isinstance(one.failure, ConsumerClosedError)


def test_expressions_see_topics_that_are_yet_to_come(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one", Subscription.white_list("new.*"))
    assert one.outcome == [None] and one.owned == ""
    fixture.topic("new-1", 2)
    assert one.owned == "01"


def test_a_topic_that_is_not_there_yet(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one", Subscription.to_topics(["later"]))
    assert one.outcome == [None] and one.owned == ""
    fixture.topic("later", 3)
    assert one.owned == "012"


def test_no_partition_is_released_without_a_change(fixture: ConsumerGroupFixture) -> None:
    one = fixture.member("one")
    generation = one.fetches.generation
    fixture.set(broker_path(2), encode_broker(Broker(2, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9093),), None), 0))
    fixture.member("other", Subscription.to_topics(["elsewhere"]))
    assert one.fetches.generation == generation
    assert one.fetches.brokers == ["h:9092", "h:9093"]


def test_a_member_that_cannot_be_understood(fixture: ConsumerGroupFixture) -> None:
    fixture.set(f"{GROUP}/ids/odd", b"no JSON")
    one = fixture.member("one", rebalance_max_retries=1)
    fixture.clock.advance(3.0)
    assert "odd: not JSON" in str(one.failure)
