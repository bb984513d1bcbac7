"""A broker's metadata cache follows ZooKeeper without any request of the controller."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import pytest
from twisted.python.failure import Failure

from kafkalite.broker.metadata_watcher import CALM, PACE, PATIENCE, RETRY, MetadataWatcher
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.tasks import deferred
from kafkalite.common.types import TopicPartition
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.brokers import BrokerStore
from kafkalite.zk.stores.paths import ensure, set_or_create
from kafkalite.zk.stores.topics import TopicStore
from kafkalite.zk.zk_client import ConnectionLostError, Watch
from kafkalite.zk.znodes.brokers import encode_broker
from kafkalite.zk.znodes.topics import TopicAssignment, encode_state, encode_topic, state_path, topic_path

FIRST = uuid.UUID(int=1)
SECOND = uuid.UUID(int=2)
PARTITION = TopicPartition("t", 0)


class RecordingSink:
    """Records the states and deletions that replication would get."""

    def __init__(self) -> None:
        self.states: list[LeaderAndIsr] = []
        self.deleted: dict[str, uuid.UUID] = {}
        self.broker_changes = 0

    async def apply_states(self, states: Sequence[LeaderAndIsr]) -> None:
        self.states.extend(states)

    async def topics_gone(self, topics: Mapping[str, uuid.UUID]) -> None:
        self.deleted.update(topics)

    def brokers_changed(self) -> None:
        self.broker_changes += 1


class MetadataWatcherFixture:
    """A ZooKeeper, a client that writes to it, and the metadata watcher of a broker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.zookeeper = MemoryZooKeeper()
        self.writer = self.zookeeper.client()
        self.client: MemoryZkClient = self.zookeeper.client()
        self.cache = MetadataCache()
        self.sink = RecordingSink()
        self.cache.on_brokers.append(self.sink.brokers_changed)
        self.watcher = MetadataWatcher(
            BrokerStore(self.client, self.clock), TopicStore(self.client), self.cache, self.sink, self.clock
        )

    def write(self, path: str, data: bytes) -> None:
        deferred(set_or_create(self.writer, path, data))

    def topic(self, topic_id: uuid.UUID, *replicas: int) -> None:
        self.write(topic_path("t"), encode_topic(TopicAssignment(topic_id, {0: PartitionAssignment(replicas)})))

    def state(self, leader: int, leader_epoch: int, *isr: int) -> None:
        self.write(state_path(PARTITION), encode_state(LeaderAndIsr("t", 0, FIRST, leader, leader_epoch, isr, 1)))

    def register(self, broker_id: int) -> MemoryZkClient:
        client = self.zookeeper.client()
        broker = Broker(broker_id, (Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9000 + broker_id),))
        deferred(BrokerStore(client, self.clock).register(broker))
        return client

    def leader(self) -> int | None:
        state = self.cache.state(PARTITION)
        return None if state is None else state.leader


@pytest.fixture
def fixture() -> MetadataWatcherFixture:
    made = MetadataWatcherFixture()
    deferred(ensure(made.writer, "/brokers/topics"))
    return made


def test_start_reads_everything(fixture: MetadataWatcherFixture) -> None:
    fixture.register(1)
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)
    deferred(fixture.watcher.start())
    assert sorted(fixture.cache.brokers) == [1]
    assert fixture.leader() == 1
    assert fixture.cache.topic_id("t") == FIRST
    assert [state.isr for state in fixture.sink.states] == [(1, 2)]


@pytest.mark.parametrize("path", ["/brokers/ids", "/brokers/topics", topic_path("t"), state_path(PARTITION)])
def test_a_start_that_a_lost_connection_interrupted_is_repeated(fixture: MetadataWatcherFixture, path: str) -> None:
    fixture.register(1)
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)

    def cut(_name: str, read: str) -> None:
        if read == path:
            fixture.client.before = None
            fixture.client.lose_connection()

    fixture.client.before = cut
    failures: list[Failure] = []
    deferred(fixture.watcher.start()).addErrback(failures.append)
    assert isinstance(failures[0].value, ConnectionLostError)
    fixture.client.reconnect()
    deferred(fixture.watcher.start())
    assert sorted(fixture.cache.brokers) == [1]
    assert fixture.leader() == 1
    fixture.state(2, 1, 2)
    fixture.clock.advance(PACE)
    assert fixture.leader() == 2, "it is watched"


# trap: kafkalite/broker/metadata_watcher.py: A topic is deleted and made again while the broker reads the list of
# topics without it; the broker drops the new topic's replicas, which the controller has already requested, for good.
@pytest.mark.parametrize("known", [True, False], ids=["served", "assignment only"])
def test_a_topic_that_is_made_again_during_the_listing_is_not_gone(
    fixture: MetadataWatcherFixture, known: bool
) -> None:
    fixture.topic(FIRST, 1)
    if known:
        fixture.state(1, 0, 1)
    deferred(fixture.watcher.start())
    if known:
        deferred(fixture.writer.delete(state_path(PARTITION)))
        deferred(fixture.writer.delete(state_path(PARTITION).removesuffix("/state")))
        deferred(fixture.writer.delete(topic_path("t") + "/partitions"))
    deferred(fixture.writer.delete(topic_path("t")))
    requested = LeaderAndIsr("t", 0, SECOND, 1, 0, (1,), 1, assignment=PartitionAssignment((1,)))
    listings: list[str] = []

    def request_in_the_second_listing(_name: str, path: str) -> None:
        listings.append(path)
        if listings.count("/brokers/topics") == 2:
            fixture.cache.apply([requested])

    fixture.client.before = request_in_the_second_listing
    fixture.clock.advance(PACE)
    assert fixture.cache.topic_id("t") == SECOND
    assert fixture.sink.deleted == ({"t": FIRST} if known else {})


def test_a_new_topic_is_seen_although_its_state_is_written_later(fixture: MetadataWatcherFixture) -> None:
    deferred(fixture.watcher.start())
    fixture.topic(FIRST, 1)
    fixture.clock.advance(PACE)
    assert fixture.leader() is None
    fixture.state(1, 0, 1)
    fixture.clock.advance(PACE)
    assert fixture.leader() == 1


# trap: kafkalite/broker/metadata_watcher.py: With thousands of watches an event is missed: an event only invalidates;
# the next pass reads and arms the watch again.
def test_each_of_many_leader_changes_is_seen(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)
    deferred(fixture.watcher.start())
    for epoch in range(1, 21):
        fixture.state(1 + epoch % 2, epoch, 1, 2)
        fixture.clock.advance(PACE)
        assert fixture.leader() == 1 + epoch % 2, f"leader epoch {epoch}"


# trap: kafkalite/broker/metadata_watcher.py: Every leader change would be read twice: states that the controller's
# requests cover are not read as well.
def test_states_are_not_read_while_the_controller_speaks(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)
    deferred(fixture.watcher.start())
    fixture.client.requests = 0
    for epoch in range(1, 11):
        fixture.watcher.controller_spoke()
        fixture.state(2, epoch, 1, 2)
        fixture.clock.advance(PACE)
    assert fixture.client.requests == 0
    fixture.clock.advance(CALM)
    assert fixture.client.requests == 1
    assert fixture.leader() == 2
    fixture.state(1, 11, 1, 2)
    fixture.clock.advance(PACE)
    assert fixture.leader() == 1, "afterwards there is no delay"


def test_a_controller_that_never_pauses_does_not_stop_the_reads_of_states(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)
    deferred(fixture.watcher.start())
    fixture.state(2, 1, 1, 2)
    for _ in range(int((PATIENCE + PACE) / 0.01) + 1):
        fixture.watcher.controller_spoke()
        fixture.clock.advance(0.01)
    assert fixture.leader() == 2


def test_a_broker_that_goes_is_noticed(fixture: MetadataWatcherFixture) -> None:
    gone = fixture.register(1)
    fixture.register(2)
    deferred(fixture.watcher.start())
    gone.expire_session()
    fixture.clock.advance(PACE)
    assert sorted(fixture.cache.brokers) == [2]
    assert fixture.sink.broker_changes == 2


def test_a_broker_that_moves_is_noticed(fixture: MetadataWatcherFixture) -> None:
    """Its znode is rewritten in the same session."""
    broker = fixture.register(1)
    deferred(fixture.watcher.start())
    moved = Broker(1, (Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 9),))
    for times in (1, 2):
        deferred(broker.set("/brokers/ids/1", encode_broker(moved, times)))
        fixture.clock.advance(PACE)
        endpoint = fixture.cache.brokers[1].endpoint("PLAINTEXT")
        assert endpoint is not None and endpoint.host == "elsewhere"
        assert fixture.sink.broker_changes == 2, "written a second time it says nothing new"


@pytest.mark.parametrize("requests", range(1, 4))
def test_a_pass_that_fails_midway_is_repeated(fixture: MetadataWatcherFixture, requests: int) -> None:
    """Whichever request is the first to be lost: nothing stays unread, and no watch stays unset."""
    deferred(fixture.watcher.start())
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)
    left = requests

    def lose_one() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            fixture.client.lose_connection()

    fixture.client.before = lambda *_: lose_one()
    fixture.clock.advance(PACE)
    fixture.client.reconnect()
    fixture.clock.advance(RETRY)
    fixture.clock.advance(PACE)
    assert fixture.leader() == 1
    fixture.state(2, 1, 1, 2)
    fixture.clock.advance(PACE)
    assert fixture.leader() == 2


# trap: kafkalite/broker/metadata_watcher.py: A burst of watch events would be a burst of passes: it is one pass.
def test_a_burst_of_events_is_one_pass(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)
    deferred(fixture.watcher.start())
    fixture.sink.states.clear()
    fixture.state(2, 1, 1, 2)
    fixture.state(1, 2, 1, 2)
    fixture.state(2, 3, 1, 2)
    fixture.clock.advance(PACE)
    assert [state.leader_epoch for state in fixture.sink.states] == [3]


def test_a_reassignment_is_handed_on(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)
    deferred(fixture.watcher.start())
    fixture.topic(FIRST, 1, 2, 3)
    fixture.clock.advance(PACE)
    assert fixture.sink.states[-1].replicas == (1, 2, 3)


def test_a_deleted_topic_is_forgotten_and_its_successor_starts_fresh(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1)
    fixture.state(1, 7, 1)
    deferred(fixture.watcher.start())
    for path in (
        state_path(PARTITION),
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions",
        topic_path("t"),
    ):
        deferred(fixture.writer.delete(path))
    fixture.clock.advance(PACE)
    assert fixture.sink.deleted == {"t": FIRST}
    assert fixture.leader() is None
    fixture.topic(SECOND, 1)
    fixture.state(1, 0, 1)
    fixture.clock.advance(PACE)
    assert fixture.cache.topic_id("t") == SECOND
    assert fixture.sink.states[-1].topic_id == SECOND
    assert fixture.sink.states[-1].leader_epoch == 0


# trap: kafkalite/broker/metadata_watcher.py: A listing of topics is older than the controller's request, and a new
# topic is taken for deleted.
def test_a_topic_that_is_newer_than_the_listing_is_kept(
    fixture: MetadataWatcherFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller tells of a new topic while a broker that is far from ZooKeeper waits for a listing."""
    listings = [["older"]]
    names = TopicStore.names

    async def stale_names(store: TopicStore, watch: Watch | None = None) -> list[str]:
        current = await names(store, watch)
        return listings.pop() if listings else current

    monkeypatch.setattr(TopicStore, "names", stale_names)
    fixture.topic(FIRST, 1)
    fixture.state(1, 0, 1)
    fixture.cache.apply([LeaderAndIsr("t", 0, FIRST, 1, 0, (1,), 1)])
    deferred(fixture.watcher.start())
    assert fixture.sink.deleted == {}
    assert fixture.leader() == 1
    fixture.state(2, 1, 2)
    fixture.clock.advance(PACE)
    assert fixture.leader() == 2


# trap: kafkalite/broker/metadata_watcher.py: The network holds a request of the controller back until its topic is
# gone: the broker lists the topics again.
def test_a_request_about_a_topic_that_is_gone_leaves_nothing(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1)
    fixture.state(1, 0, 1)
    deferred(fixture.watcher.start())
    held = LeaderAndIsr("late", 0, SECOND, 1, 0, (1,), 1)
    fixture.cache.apply([held])
    fixture.watcher.controller_named(["late", "t"])
    fixture.clock.advance(PACE)
    assert sorted(fixture.cache.topics) == ["t"]
    assert fixture.sink.deleted == {"late": SECOND}
    assert fixture.cache.apply([held]) == [], "the same request once more"


# trap: kafkalite/broker/metadata_watcher.py: A lost connection drops every one-shot watch and reports each of them: the
# broker reads everything again in one paced pass.
def test_changes_during_a_lost_connection_are_read_afterwards(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1, 2)
    fixture.state(1, 0, 1, 2)
    deferred(fixture.watcher.start())
    fixture.client.lose_connection()
    fixture.state(2, 1, 2)
    fixture.clock.advance(1.0)
    assert fixture.leader() == 1
    fixture.client.reconnect()
    fixture.clock.advance(RETRY + PACE)
    assert fixture.leader() == 2


def test_a_malformed_znode_hides_nothing_else(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1)
    fixture.state(1, 0, 1)
    fixture.write(topic_path("broken"), b"{")
    deferred(fixture.watcher.start())
    assert fixture.leader() == 1


def test_a_topic_that_waits_for_its_deletion_does_not_come_back(fixture: MetadataWatcherFixture) -> None:
    fixture.topic(FIRST, 1)
    fixture.state(1, 0, 1)
    deferred(fixture.watcher.start())
    fixture.cache.remove_topics(["t"])
    fixture.sink.states.clear()
    fixture.state(1, 1, 1)
    fixture.clock.advance(PACE)
    assert fixture.sink.states == []
    assert fixture.leader() is None
