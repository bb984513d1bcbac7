"""The stores against the ZooKeeper twin."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.common.types import TopicPartition
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.brokers import BrokerIdInUse, BrokerStore, ProducerIdStore
from kafkalite.zk.stores.claims import Claim, ClaimLostError, ClaimStore, write_claimed
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.controller import AdminStore, ControllerStore, NotificationStore
from kafkalite.zk.stores.feeds import KEEP_MS
from kafkalite.zk.stores.paths import ensure_paths, set_or_create
from kafkalite.zk.stores.topics import IsrStore, TopicStore
from kafkalite.zk.zk_client import (
    BadVersionError,
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SetData,
    ZkError,
)
from kafkalite.zk.znodes import admin
from kafkalite.zk.znodes import topics as znodes
from kafkalite.zk.znodes.claims import CLUSTER, CONTROLLER_CLAIM
from kafkalite.zk.znodes.topics import TopicAssignment
from tests.support import run

ID = uuid.UUID(int=7)
TP = TopicPartition("t", 0)


class StoresFixture:
    """A tree, a clock and one client."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.server = MemoryZooKeeper()
        self.client = self.server.client()
        run(ensure_paths(self.client))

    def controller(self) -> ControllerStore:
        return ControllerStore(self.client)

    def claim(self, broker_id: int = 1, client: MemoryZkClient | None = None) -> Claim:
        claims = ClaimStore(client or self.client, self.clock, CONTROLLER_CLAIM)
        claim = run(claims.claim(CLUSTER, broker_id))
        assert isinstance(claim, Claim)
        return claim

    def topic(self, partitions: int = 1, topic_id: uuid.UUID | None = ID) -> TopicAssignment:
        assignment = TopicAssignment(topic_id, {i: PartitionAssignment((1, 2)) for i in range(partitions)})
        run(TopicStore(self.client).create("t", assignment, {}))
        return assignment

    def states(self, count: int = 1) -> list[LeaderAndIsr]:
        return [LeaderAndIsr("t", index, ID, 1, 0, (1, 2), 1) for index in range(count)]


@pytest.fixture
def fixture() -> StoresFixture:
    return StoresFixture()


def broker(broker_id: int = 1) -> Broker:
    return Broker(broker_id, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), "r1")


def test_cluster_id_is_made_once(fixture: StoresFixture) -> None:
    first = run(BrokerStore(fixture.client, fixture.clock).cluster_id())
    assert len(first) == 22
    assert run(BrokerStore(fixture.server.client(), fixture.clock).cluster_id()) == first


def test_generated_ids_are_unique_and_above_the_reserved(fixture: StoresFixture) -> None:
    store = BrokerStore(fixture.client, fixture.clock)
    assert [run(store.generate_id(1000)) for _ in range(2)] == [1001, 1002]


def test_registration_is_live_until_unregistered(fixture: StoresFixture) -> None:
    store = BrokerStore(fixture.client, fixture.clock)
    epoch, _ = run(store.register(broker()))
    live, version = run(store.live())
    assert live == {1: Broker(1, broker().endpoints, "r1", epoch, epoch)}
    run(store.unregister())
    assert run(store.live()) == ({}, version + 1)


def test_a_list_of_brokers_is_at_least_as_new_as_its_version_says(fixture: StoresFixture) -> None:
    store = BrokerStore(fixture.client, fixture.clock)
    run(store.register(broker()))
    _, before = run(store.live())
    other = BrokerStore(fixture.server.client(), fixture.clock)

    def register(name: str, path: str) -> None:
        if (name, path) == ("get_children", "/brokers/ids"):
            fixture.client.before = None
            run(other.register(replace(broker(), id=2)))

    fixture.client.before = register
    live, version = run(store.live())
    assert (sorted(live), version) == ([1, 2], before), "the broker that came meanwhile is in the list"


def test_registering_again_in_the_same_session_keeps_the_epoch(fixture: StoresFixture) -> None:
    store = BrokerStore(fixture.client, fixture.clock)
    assert run(store.register(broker())) == run(store.register(broker()))


# trap: kafkalite/zk/stores/brokers.py: A broker that comes back within its session timeout meets its own old znode: it
# waits for the znode to go.
def test_a_dead_incarnation_is_waited_for(fixture: StoresFixture) -> None:
    old = fixture.server.client()
    run(BrokerStore(old, fixture.clock).register(broker()))
    got: list[Any] = []
    store = BrokerStore(fixture.client, fixture.clock, conflict_wait=10)
    deferred(store.register(broker())).addCallback(got.append)
    fixture.clock.advance(9)
    assert got == []
    fixture.server.expire(old.session)
    assert got == [(run(store.live())[0][1].epoch, fixture.client.session)]


def test_a_live_owner_of_the_id_is_refused_by_name(fixture: StoresFixture) -> None:
    run(BrokerStore(fixture.server.client(), fixture.clock).register(broker()))
    failures: list[Any] = []
    store = BrokerStore(fixture.client, fixture.clock, conflict_wait=10)
    deferred(store.register(broker())).addErrback(lambda failure: failures.append(failure.value))
    fixture.clock.advance(11)
    assert isinstance(failures[0], BrokerIdInUse) and "broker id 1" in str(failures[0])


def test_topic_is_created_with_its_configuration_once(fixture: StoresFixture) -> None:
    store = TopicStore(fixture.client)
    assignment = fixture.topic(2)
    assert run(store.names()) == ["t"]
    assert run(store.assignment("t")) == (assignment, 0)
    assert run(store.assignments(["t", "gone"])) == {"t": (assignment, 0)}
    with pytest.raises(ApiError) as error:
        fixture.topic()
    assert error.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["x" * 300, "a b", "é"])
def test_a_topic_that_kafka_does_not_allow_is_ignored(
    fixture: StoresFixture, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = TopicStore(fixture.client)
    assignment = fixture.topic()
    run(fixture.client.create(znodes.topic_path(name), znodes.encode_topic(assignment)))
    for _ in range(3):
        assert run(store.names()) == ["t"]
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert repr(name) in said and f"delete the znode {znodes.topic_path(name)}" in said


def test_overrides_left_behind_are_overwritten_at_creation(fixture: StoresFixture) -> None:
    config = ConfigStore(fixture.client, fixture.clock.time_ms)
    run(config.set_topic("t", {"retention.ms": "1"}))
    run(TopicStore(fixture.client).create("t", TopicAssignment(ID, {}), {"segment.bytes": "2"}))
    assert run(config.topic("t")) == {"segment.bytes": "2"}


def test_topic_creation_makes_missing_parents() -> None:
    client = MemoryZooKeeper().client()
    run(TopicStore(client).create("t", TopicAssignment(ID, {}), {}))
    assert run(TopicStore(client).names()) == ["t"]


def test_states_carry_id_and_assignment_and_leave_out_missing_ones(fixture: StoresFixture) -> None:
    assignment = fixture.topic(3)
    run(fixture.controller().create_states(fixture.claim(), fixture.states(2)))
    states = run(TopicStore(fixture.client).states({"t": assignment}))
    assert sorted(states) == [TP, TopicPartition("t", 1)]
    assert states[TP].topic_id == ID and states[TP].replicas == (1, 2) and states[TP].mzxid > 0


def test_watch_of_a_missing_state_sees_its_creation(fixture: StoresFixture) -> None:
    fixture.topic()
    events: list[Any] = []
    assert run(TopicStore(fixture.client).state(TP, watch=events.append)) is None
    run(fixture.controller().create_states(fixture.claim(), fixture.states()))
    assert [event.path for event in events] == [znodes.state_path(TP)]


# trap: kafkalite/zk/stores/claims.py: The version of an ephemeral claim proves nothing, because the znode is
# recreated: writes check the version of the persistent epoch.
def test_writes_after_another_claim_are_refused(fixture: StoresFixture) -> None:
    fixture.topic()
    claim = fixture.claim()
    run(fixture.controller().create_states(claim, fixture.states()))
    run(fixture.client.delete("/controller"))
    assert fixture.claim(2, fixture.server.client()).epoch == 2
    state = fixture.states()[0].with_(leader=2, zk_version=0)
    for work in (
        fixture.controller().update_states(claim, [state]),
        fixture.controller().create_states(claim, fixture.states(2)),
        fixture.controller().delete_topic(claim, "t"),
        write_claimed(fixture.client, claim, [[SetData("/brokers/topics/t", b"")]]),
    ):
        with pytest.raises(ClaimLostError):
            run(work)
    stored = run(TopicStore(fixture.client).state(TP))
    assert stored is not None and stored.leader == 1


def test_writes_of_an_earlier_session_are_never_sent(fixture: StoresFixture) -> None:
    fixture.topic()
    claim = fixture.claim()
    fixture.client.expire_session()
    with pytest.raises(SessionExpiredError):
        run(fixture.controller().create_states(claim, fixture.states()))
    assert znodes.state_path(TP) not in fixture.server.paths()


def written(results: dict[TopicPartition, LeaderAndIsr | ZkError]) -> dict[TopicPartition, LeaderAndIsr]:
    """The states, of which no write failed."""
    states = {tp: result for tp, result in results.items() if isinstance(result, LeaderAndIsr)}
    assert states == results
    return states


def test_a_thousand_partitions_go_in_bounded_transactions(fixture: StoresFixture) -> None:
    fixture.topic(1000)
    claim = fixture.claim()
    before = fixture.client.requests
    created = written(run(fixture.controller().create_states(claim, fixture.states(1000))))
    assert len(created) == 1000 and all(state.zk_version == 0 for state in created.values())
    assert fixture.client.requests - before <= 15
    updated = written(run(fixture.controller().update_states(claim, [s.with_(leader=2) for s in created.values()])))
    assert {state.zk_version for state in updated.values()} == {1}
    assert all(state.mzxid > 0 for state in updated.values())


# trap: kafkalite/zk/stores/controller.py: One failed operation fails the whole multi: the others are tried again
# without it.
def test_one_stale_state_does_not_spoil_the_others(fixture: StoresFixture) -> None:
    fixture.topic(300)
    claim = fixture.claim()
    created = written(run(fixture.controller().create_states(claim, fixture.states(300))))
    run(fixture.client.set(znodes.state_path(TopicPartition("t", 5)), b"{}"))
    updated = run(fixture.controller().update_states(claim, created.values()))
    stale = {tp.partition for tp, result in updated.items() if isinstance(result, ZkError)}
    assert stale == {5} and isinstance(updated[TopicPartition("t", 5)], BadVersionError)


def test_existing_states_are_reported_where_partitions_are_added(fixture: StoresFixture) -> None:
    fixture.topic(3)
    claim = fixture.claim()
    run(fixture.controller().create_states(claim, fixture.states(1)))
    result = run(fixture.controller().create_states(claim, fixture.states(3)))
    assert isinstance(result[TP], NodeExistsError)
    added = result[TopicPartition("t", 2)]
    assert isinstance(added, LeaderAndIsr) and added.zk_version == 0


def test_deleted_topic_leaves_nothing(fixture: StoresFixture) -> None:
    fixture.topic(250)
    claim = fixture.claim()
    run(fixture.controller().create_states(claim, fixture.states(250)))
    run(AdminStore(fixture.client).create_delete_topic("t"))
    run(fixture.controller().delete_topic(claim, "t"))
    assert [path for path in fixture.server.paths() if path.endswith("/t") or "/t/" in path] == []


# trap: kafkalite/zk/stores/controller.py: The committed offsets of a deleted topic would count for its successor with
# the same name: they go with the paths.
def test_what_groups_keep_of_a_deleted_topic_goes_too(fixture: StoresFixture) -> None:
    fixture.topic()
    claim = fixture.claim()
    for path in ("/consumers/g/offsets/t/0", "/consumers/h/owners/t/0", "/consumers/g/offsets/u/0"):
        run(set_or_create(fixture.client, path, b"1"))
    run(fixture.controller().delete_topic(claim, "t"))
    left = [path for path in fixture.server.paths("/consumers/") if path.rsplit("/", 1)[-1] in ("0", "t", "u")]
    assert left == ["/consumers/g/offsets/u", "/consumers/g/offsets/u/0"]


def test_topic_overrides_and_request_go_in_one_transaction(fixture: StoresFixture) -> None:
    """Where the last of it is refused, the topic is still there to be deleted again."""
    fixture.topic()
    claim = fixture.claim()
    run(fixture.controller().create_states(claim, fixture.states()))
    run(AdminStore(fixture.client).create_delete_topic("t"))
    run(set_or_create(fixture.client, "/admin/delete_topics/t/foreign", b""))
    with pytest.raises(NotEmptyError):
        run(fixture.controller().delete_topic(claim, "t"))
    assert "/brokers/topics/t" in fixture.server.paths() and "/config/topics/t" in fixture.server.paths()
    run(fixture.client.delete("/admin/delete_topics/t/foreign"))
    run(fixture.controller().delete_topic(claim, "t"))
    assert [path for path in fixture.server.paths() if path.endswith("/t") or "/t/" in path] == []


def test_a_topic_is_being_deleted_from_the_request_until_it_is_gone_and_then_on(fixture: StoresFixture) -> None:
    fixture.topic()
    claim = fixture.claim()
    run(fixture.controller().create_states(claim, fixture.states()))
    store = AdminStore(fixture.client)
    assert not run(store.is_being_deleted("t"))
    run(AdminStore(fixture.client).create_delete_topic("t"))
    assert run(store.is_being_deleted("t"))
    run(fixture.controller().delete_topic(claim, "t"))
    assert run(store.is_being_deleted("t"))


def test_a_topic_whose_deletion_ends_between_the_two_reads_is_being_deleted(fixture: StoresFixture) -> None:
    fixture.topic()
    claim = fixture.claim()
    run(fixture.controller().create_states(claim, fixture.states()))
    run(AdminStore(fixture.client).create_delete_topic("t"))
    reader, reads = fixture.server.client(), list[str]()

    def complete(_: str, path: str) -> None:
        reads.append(path)
        if len(reads) == 2:
            run(fixture.controller().delete_topic(claim, "t"))

    reader.before = complete
    assert run(AdminStore(reader).is_being_deleted("t"))


def test_isr_is_written_conditionally(fixture: StoresFixture) -> None:
    fixture.topic()
    run(fixture.controller().create_states(fixture.claim(), fixture.states()))
    store = IsrStore(fixture.client)
    state = fixture.states()[0].with_(zk_version=0, isr=(1,))
    written = run(store.update(state, fixture.client.session))
    assert (written.zk_version, written.isr) == (1, (1,)) and written.mzxid > 0
    assert run(store.update(state)) == written, "the same again is the answer that was lost"
    with pytest.raises(BadVersionError):
        run(store.update(state.with_(isr=(1, 2))))


# trap: kafkalite/zk/stores/topics.py: A leader of a deleted topic would write the ISR of its successor with the same
# name: leaders compare the topic id.
def test_isr_of_an_earlier_incarnation_of_the_topic_is_not_written(fixture: StoresFixture) -> None:
    fixture.topic(topic_id=uuid.UUID(int=8))
    run(fixture.controller().create_states(fixture.claim(), fixture.states()))
    with pytest.raises(BadVersionError):
        run(IsrStore(fixture.client).update(fixture.states()[0].with_(zk_version=0, isr=(1,))))
    stored = run(TopicStore(fixture.client).state(TP))
    assert stored is not None and stored.isr == (1, 2)


# trap: kafkalite/zk/stores/topics.py: A leader's ISR change that was queued in one session would be made in the next:
# the change is bound to its session.
def test_isr_of_another_session_is_not_written(fixture: StoresFixture) -> None:
    fixture.topic()
    run(fixture.controller().create_states(fixture.claim(), fixture.states()))
    session = fixture.client.session
    fixture.client.expire_session()
    with pytest.raises(SessionExpiredError):
        run(IsrStore(fixture.client).update(fixture.states()[0].with_(zk_version=0, isr=(1,)), session))


# trap: kafkalite/zk/stores/topics.py: An ISR change whose outcome a lost connection left unknown is taken for made.
def test_isr_outcome_unknown_then_known(fixture: StoresFixture) -> None:
    fixture.topic()
    run(fixture.controller().create_states(fixture.claim(), fixture.states()))
    store = IsrStore(fixture.client)
    state = fixture.states()[0].with_(zk_version=0, isr=(1,), topic_id=uuid.UUID(int=0))
    outcome: list[Any] = []
    fixture.client.black_hole(apply=True)
    deferred(store.update(state)).addErrback(lambda failure: outcome.append(failure.value))
    fixture.client.lose_connection()
    assert isinstance(outcome[0], ConnectionLostError)
    fixture.client.reconnect()
    assert run(store.update(state)).zk_version == 1


def test_isr_changes_reach_the_controller_once(fixture: StoresFixture) -> None:
    events: list[Any] = []
    store = NotificationStore(fixture.client)
    assert run(store.isr_changes(events.append)) == ([], [])
    run(IsrStore(fixture.client).notify([TP, TopicPartition("u", 1)]))
    run(IsrStore(fixture.client).notify([TP]))
    names, partitions = run(store.isr_changes())
    assert len(events) == 1 and partitions == [TP, TopicPartition("u", 1)]
    for name in names:
        run(fixture.client.delete(f"/isr_change_notification/{name}"))
    assert run(store.isr_changes()) == ([], [])


def test_log_dir_events(fixture: StoresFixture) -> None:
    store = NotificationStore(fixture.client)
    run(store.create_log_dir_event(3))
    names, brokers = run(store.log_dir_events())
    assert brokers == [3]
    for name in names:
        run(fixture.client.delete(f"/log_dir_event_notification/{name}"))
    assert run(store.log_dir_events()) == ([], [])


def test_malformed_notifications_are_removed_like_others(fixture: StoresFixture) -> None:
    run(fixture.client.create("/isr_change_notification/isr_change_", b"nonsense", sequence=True))
    names, partitions = run(NotificationStore(fixture.client).isr_changes())
    assert len(names) == 1 and partitions == []


def test_config_overrides_and_word_of_them(fixture: StoresFixture) -> None:
    other = fixture.server.client()
    seen: list[tuple[str, str]] = []
    run(ConfigStore(fixture.client, fixture.clock.time_ms).set_topic("old", {}))
    (feed,) = run(ConfigStore(other, fixture.clock.time_ms).watch_changes(seen.append))
    store = ConfigStore(fixture.client, fixture.clock.time_ms)
    run(store.set_topic("t", {"retention.ms": "5"}))
    run(store.set_broker("<default>", {"log.retention.ms": "6"}))
    run(store.set_entity("users", "alice/clients/c1", {"producer_byte_rate": "7"}))
    assert seen == [("topics", "t"), ("brokers", "<default>"), ("users", "alice/clients/c1")]
    assert run(store.topic("t")) == {"retention.ms": "5"} and run(store.topic("none")) == {}
    assert run(store.entities("brokers")) == {"<default>": {"log.retention.ms": "6"}}
    feed.stop()
    run(store.set_topic("t", {}))
    assert len(seen) == 3


def test_changes_made_while_away_are_seen_or_said_to_be_missed(fixture: StoresFixture) -> None:
    other = fixture.server.client()
    seen: list[tuple[str, str]] = []
    run(ConfigStore(other, fixture.clock.time_ms).watch_changes(seen.append))
    store = ConfigStore(fixture.client, fixture.clock.time_ms)
    other.lose_connection()
    run(store.set_topic("t", {}))
    assert seen == []
    other.reconnect()
    assert seen == [("topics", "t")]
    other.expire_session()
    assert seen[1:] == [("*", "")]
    run(store.set_topic("u", {}))
    assert seen[2:] == [("topics", "u")]
    other.lose_connection()
    fixture.server.expire(other.session)
    assert len(seen) == 3, "nothing could be read yet"
    other.reconnect()
    assert seen[3:] == [("*", "")]


def test_a_change_that_could_not_be_acted_upon_is_not_forgotten(fixture: StoresFixture) -> None:
    other = fixture.server.client()
    seen: list[tuple[str, str]] = []
    (feed,) = run(ConfigStore(other, fixture.clock.time_ms).watch_changes(seen.append))
    run(ConfigStore(fixture.client, fixture.clock.time_ms).set_topic("t", {}))
    other.lose_connection()
    feed.missed()
    assert seen == [("topics", "t")]
    other.reconnect()
    assert seen[1:] == [("*", "")]
    feed.missed()
    assert seen[2:] == [("*", "")], "at once, where there is a connection already"
    other.lose_connection()
    other.reconnect()
    assert len(seen) == 3


def test_old_change_notifications_are_removed() -> None:
    clock = ManualClock()
    server = MemoryZooKeeper(clock)
    client = server.client()
    store = ConfigStore(client, clock.time_ms)
    deferred(ensure_paths(client))
    clock.advance(1)
    deferred(store.watch_changes(lambda *_: None))
    clock.advance(1)
    deferred(store.set_topic("t", {}))
    clock.advance(KEEP_MS / 1000 + 1)
    assert len(server.paths("/config/changes/")) == 1
    deferred(store.set_topic("u", {}))
    clock.advance(1)
    assert server.paths("/config/changes/") == ["/config/changes/config_change_0000000001"]


def test_requests_of_the_zookeeper_tools(fixture: StoresFixture) -> None:
    store = AdminStore(fixture.client)
    events: list[Any] = []
    assert run(store.reassign_partitions(events.append)) == {}
    run(fixture.client.create(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TP: (2, 1)})))
    assert len(events) == 1 and run(store.reassign_partitions()) == {TP: (2, 1)}
    run(fixture.client.set(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TopicPartition("t", 1): (1,)})))
    assert list(run(store.reassign_partitions())) == [TopicPartition("t", 1)]
    run(fixture.client.delete(admin.REASSIGN_PARTITIONS))
    assert run(store.reassign_partitions()) == {}
    assert run(store.preferred_replica_election()) is None
    run(fixture.client.create("/admin/preferred_replica_election", b'{"partitions":[{"topic":"t","partition":0}]}'))
    assert run(store.preferred_replica_election()) == [TP]
    run(store.create_delete_topic("t"))
    run(store.create_delete_topic("t"))
    assert run(store.delete_topics()) == ["t"]
    run(fixture.client.delete("/admin/delete_topics/t"))
    assert run(store.delete_topics()) == []


def test_producer_id_blocks_never_overlap(fixture: StoresFixture) -> None:
    a, b = ProducerIdStore(fixture.client), ProducerIdStore(fixture.server.client())
    raced: list[range] = []

    def race(name: str, _: str) -> None:
        if name == "set" and not raced:
            raced.append(run(b.allocate(2)))

    assert run(a.allocate(1)) == range(1000)
    fixture.client.before = race
    assert run(a.allocate(1)) == range(2000, 3000)
    assert raced == [range(1000, 2000)]


def test_requests_without_a_connection_fail_at_once(fixture: StoresFixture) -> None:
    fixture.client.lose_connection()
    with pytest.raises(ConnectionLostError):
        run(TopicStore(fixture.client).names())
    with pytest.raises(NoNodeError):
        run(fixture.server.client().get("/none"))
