"""How members come to agree: joins, deaths, expired sessions, owners that are slow to let go."""

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
BROKER = Broker(1, (Endpoint("CONTROLPLANE", "PLAINTEXT", "h", 1), Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092)), None)


class Fetches:
    """What a fetcher was asked."""

    def __init__(self) -> None:
        self.brokers: list[str] = []
        self.generation = 0
        self.starts: Mapping[TopicPartition, int | None] = {}

    def meet(self, brokers: list[str]) -> None:
        self.brokers = brokers

    def fetch(self, generation: int, starts: Mapping[TopicPartition, int | None]) -> None:
        self.generation, self.starts = generation, starts


class Member:
    """A member with all that it needs, except a network."""

    def __init__(self, house: House, name: str, wanted: Subscription, **settings: Any) -> None:
        self.client: MemoryZkClient = house.server.client()
        config = ConsumerConfig("zk", "g", **{"auto_commit_interval_ms": 1000, **settings})
        self.stream, self.fetches = Stream(100), Fetches()
        registry = Registry(self.client, "g", name)
        self.rebalancer = Rebalancer(registry, wanted, self.stream, self.fetches, house.clock, config)
        self.client.add_listener(self.rebalancer.on_session)
        self.outcome: list[object] = []
        deferred(self.rebalancer.start()).addBoth(self.outcome.append)

    @property
    def owned(self) -> str:
        """Its partitions, as digits."""
        return "".join(str(tp.partition) for tp in sorted(self.rebalancer.owned))

    @property
    def failure(self) -> BaseException:
        """What :meth:`Rebalancer.start` raised."""
        [failure] = self.outcome
        assert isinstance(failure, Failure) and failure.value is not None
        return failure.value

    def read(self, partition: int, *offsets: int) -> None:
        """Let these records come, and read them (the last one is in hand)."""
        tp = TopicPartition("t", partition)
        self.stream.put(self.fetches.generation, tp, [Record("t", partition, o, -1, None, b"") for o in offsets])
        for _ in offsets:
            assert self.stream.next(0) is not None


class House:
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
def house() -> House:
    return House()


def test_one_member_owns_all(house: House) -> None:
    house.set(f"{GROUP}/offsets/t/2", b"17")
    one = house.member("one")
    assert one.outcome == [None] and one.owned == "0123"
    assert house.owners() == dict.fromkeys(range(4), "one-0")
    assert one.fetches.brokers == ["h:9092"]
    assert one.fetches.starts == {TopicPartition("t", p): 17 if p == 2 else None for p in range(4)}
    assert house.data(f"{GROUP}/ids/one") == (
        '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1700000000000"}'
    )


def test_members_share_and_go_on_where_the_other_stopped(house: House) -> None:
    one = house.member("one")
    one.read(3, 0, 1, 2)
    two = house.member("two")
    assert (one.owned, two.owned) == ("01", "23")
    assert house.owners() == {0: "one-0", 1: "one-0", 2: "two-0", 3: "two-0"}
    assert house.offset(3) == "2", "the record in hand is not committed"
    assert two.fetches.starts == {TopicPartition("t", 2): None, TopicPartition("t", 3): 2}
    assert set(one.fetches.starts) == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_a_member_dies(house: House) -> None:
    one, two = house.member("one"), house.member("two")
    house.server.expire(one.client.session)  # it does not come back: its listener hears nothing any more
    one.client.close()
    assert two.owned == "0123"
    assert house.owners() == dict.fromkeys(range(4), "two-0")


# trap: kafkalite/consumer/rebalancer.py: A ZooKeeper consumer commits in a new session what it read in the expired one.
def test_its_own_session_expires(house: House) -> None:
    one, two = house.member("one"), house.member("two")
    one.read(0, 0, 1, 2, 3)
    one.client.expire_session()
    assert (one.owned, two.owned) == ("01", "23")
    assert house.owners() == {0: "one-0", 1: "one-0", 2: "two-0", 3: "two-0"}
    assert house.offset(0) is None, "what it had read in its old life is not committed in the new one"
    assert one.fetches.starts == {TopicPartition("t", 0): None, TopicPartition("t", 1): None}
    one.read(1, 0, 1)
    house.clock.advance(1.0)
    assert house.offset(1) == "1"


def test_a_suspended_session_goes_on(house: House) -> None:
    one = house.member("one")
    one.read(0, 0, 1)
    generation = one.fetches.generation
    one.client.lose_connection()
    assert one.owned == "0123"
    house.clock.advance(1.0)
    assert house.offset(0) is None
    house.topic("t", 5)
    one.client.reconnect()
    assert one.owned == "01234" and house.offset(0) == "1"
    assert one.fetches.generation > generation


def test_a_connection_that_breaks_while_claiming(house: House) -> None:
    """Whether the claims were made is unknown: they are given back and made anew."""
    one = house.member("one")
    two = Member.__new__(Member)

    def cut(name: str, path: str) -> None:
        if name == "create" and path == f"{GROUP}/owners/t/3":
            two.client.before = None
            two.client.server.deliver(two.client.lose_connection)
            two.client.server.deliver(two.client.reconnect)

    original = house.server.client

    def client() -> MemoryZkClient:
        made = original()
        made.before = cut
        return made

    house.server.client = client  # type: ignore[method-assign]
    two.__init__(house, "two", Subscription.to_topics(["t"]))  # type: ignore[misc]
    assert (one.owned, two.owned) == ("01", "23")
    assert house.owners() == {0: "one-0", 1: "one-0", 2: "two-0", 3: "two-0"}
    assert set(two.fetches.starts) == {TopicPartition("t", 2), TopicPartition("t", 3)}


def stranger(house: House, partition: int) -> MemoryZkClient:
    """An owner of a partition that is not among the members: it has left and not yet released the partition."""
    client = house.server.client()
    deferred(ensure(client, f"{GROUP}/owners/t"))
    deferred(client.create(f"{GROUP}/owners/t/{partition}", b"slow-0", ephemeral=True))
    return client


def test_it_waits_for_an_owner_that_is_slow_to_let_go(house: House) -> None:
    slow = stranger(house, 1)
    one = house.member("one")
    assert one.outcome == [] and one.owned == ""
    assert house.owners() == {1: "slow-0"}, "what it could claim it gave back"
    slow.close()
    assert one.owned == "0123" and one.outcome == [None]


def test_it_gives_up_after_its_retries(house: House) -> None:
    stranger(house, 1)
    one = house.member("one", rebalance_max_retries=3, rebalance_backoff_ms=500)
    house.clock.advance(1.4)
    assert one.outcome == []
    house.clock.advance(0.2)
    assert isinstance(one.failure, ConsumerRebalanceFailedError)
    assert "one can't rebalance after 3 retries: others still own t-1" in str(one.failure)
    with pytest.raises(ConsumerRebalanceFailedError):
        one.stream.next(0)


def test_a_change_while_it_waits_is_a_rebalance_of_its_own(house: House) -> None:
    stranger(house, 1)
    one = house.member("one", rebalance_max_retries=2, rebalance_backoff_ms=1000)
    house.clock.advance(0.5)
    house.topic("t", 5)
    house.clock.advance(1.9)
    assert one.outcome == [], "its retries count from the change"
    house.clock.advance(0.2)
    assert isinstance(one.failure, ConsumerRebalanceFailedError)


def test_a_later_change_begins_anew(house: House) -> None:
    slow = stranger(house, 1)
    one = house.member("one", rebalance_max_retries=1)
    house.clock.advance(3.0)
    assert isinstance(one.failure, ConsumerRebalanceFailedError)
    slow.close()
    assert one.owned == "", "nobody told it: owners are not watched"
    house.topic("t", 5)
    assert one.owned == "01234" and one.stream.next(0) is None


# trap: kafkalite/consumer/rebalancer.py: A ZooKeeper consumer reads its offsets before it owns the partition, and
# misses the last commit of the former owner.
def test_offsets_are_read_after_the_claim(house: House) -> None:
    """What the owner before it committed at the last moment counts."""
    house.set(f"{GROUP}/offsets/t/1", b"7")
    slow = stranger(house, 1)
    one = house.member("one")

    def commit_late(name: str, path: str) -> None:
        if name == "create" and path == f"{GROUP}/owners/t/1":
            one.client.before = None
            house.set(f"{GROUP}/offsets/t/1", b"42")

    one.client.before = commit_late
    slow.close()
    assert one.fetches.starts[TopicPartition("t", 1)] == 42


def test_a_name_that_is_taken(house: House) -> None:
    house.member("one")
    again = house.member("one", rebalance_max_retries=2, rebalance_backoff_ms=100)
    house.clock.advance(1.0)
    assert "ids/one" in str(again.failure)


def test_commits(house: House) -> None:
    one = house.member("one", auto_commit_enable=False)
    one.read(0, 0, 1, 2)
    house.clock.advance(10.0)
    assert house.offset(0) is None
    written: list[Any] = []
    for _ in range(2):
        deferred(one.rebalancer.commit()).addCallback(written.append)
    assert written == [{TopicPartition("t", 0): 2}, {}] and house.offset(0) == "2"
    one.read(0, 3)
    house.member("two")
    assert house.offset(0) == "2", "without auto.commit.enable nobody commits unasked"


def test_automatic_commits(house: House) -> None:
    one = house.member("one", auto_commit_interval_ms=500)
    one.read(0, 0, 1)
    house.clock.advance(0.4)
    assert house.offset(0) is None
    house.clock.advance(0.1)
    assert house.offset(0) == "1"
    house.set(f"{GROUP}/offsets/t/0", b"100")
    house.clock.advance(0.5)
    assert house.offset(0) == "100", "what has not moved is not written again"


def test_an_automatic_commit_that_fails_is_made_later(house: House) -> None:
    one = house.member("one", auto_commit_interval_ms=500)
    one.read(0, 0, 1)

    def refuse(name: str, path: str) -> None:
        if name == "set":
            raise ConnectionLostError(path)

    one.client.before = refuse
    house.clock.advance(0.5)
    assert house.offset(0) is None
    one.client.before = None
    house.clock.advance(0.5)
    assert house.offset(0) == "1"


def test_stopping(house: House) -> None:
    one = house.member("one")
    one.read(0, 0, 1)
    one.stream.settle()
    deferred(one.rebalancer.stop())
    assert house.offset(0) == "2" and one.owned == "" and one.fetches.starts == {}
    house.topic("t", 6)
    house.clock.advance(10.0)
    assert one.owned == "" and one.fetches.starts == {}


def test_stopping_while_it_waits_for_others(house: House) -> None:
    stranger(house, 0)
    one = house.member("one")
    stopped: list[object] = []
    deferred(one.rebalancer.stop()).addBoth(stopped.append)
    assert stopped == [None]
    assert isinstance(one.failure, ConsumerClosedError)


def test_expressions_see_topics_that_are_yet_to_come(house: House) -> None:
    one = house.member("one", Subscription.white_list("new.*"))
    assert one.outcome == [None] and one.owned == ""
    house.topic("new-1", 2)
    assert one.owned == "01"


def test_a_topic_that_is_not_there_yet(house: House) -> None:
    one = house.member("one", Subscription.to_topics(["later"]))
    assert one.outcome == [None] and one.owned == ""
    house.topic("later", 3)
    assert one.owned == "012"


def test_nothing_is_given_back_where_nothing_changes(house: House) -> None:
    one = house.member("one")
    generation = one.fetches.generation
    house.set(broker_path(2), encode_broker(Broker(2, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9093),), None), 0))
    house.member("other", Subscription.to_topics(["elsewhere"]))
    assert one.fetches.generation == generation
    assert one.fetches.brokers == ["h:9092", "h:9093"]


def test_a_member_that_cannot_be_understood(house: House) -> None:
    house.set(f"{GROUP}/ids/odd", b"no JSON")
    one = house.member("one", rebalance_max_retries=1)
    house.clock.advance(3.0)
    assert "odd: not JSON" in str(one.failure)
