"""The stores against the ZooKeeper twin."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.common.types import TopicPartition
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.admin import AdminStore
from kafkalite.zk.stores.brokers import BrokerIdInUse, BrokerStore
from kafkalite.zk.stores.claims import Claim, ClaimLostError, ClaimStore, write_claimed
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.controller import ControllerStore
from kafkalite.zk.stores.feeds import KEEP_MS
from kafkalite.zk.stores.isr import IsrStore
from kafkalite.zk.stores.notifications import NotificationStore
from kafkalite.zk.stores.paths import ensure_paths, set_or_create
from kafkalite.zk.stores.producer_ids import ProducerIdStore
from kafkalite.zk.stores.topics import TopicStore
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

ID = uuid.UUID(int=7)
TP = TopicPartition("t", 0)


def run(work: Any) -> Any:
    """The result of ``work``, which must be complete."""
    results: list[Any] = []
    failures: list[BaseException] = []
    deferred(work).addCallbacks(results.append, lambda failure: failures.append(failure.value))
    if failures:
        raise failures[0]
    assert results, "not complete"
    return results[0]


class House:
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
def house() -> House:
    return House()


def broker(broker_id: int = 1) -> Broker:
    return Broker(broker_id, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), "r1")


def test_cluster_id_is_made_once(house: House) -> None:
    first = run(BrokerStore(house.client, house.clock).cluster_id())
    assert len(first) == 22
    assert run(BrokerStore(house.server.client(), house.clock).cluster_id()) == first


def test_generated_ids_are_unique_and_above_the_reserved(house: House) -> None:
    store = BrokerStore(house.client, house.clock)
    assert [run(store.generate_id(1000)) for _ in range(2)] == [1001, 1002]


def test_registration_is_live_until_unregistered(house: House) -> None:
    store = BrokerStore(house.client, house.clock)
    epoch, _ = run(store.register(broker()))
    live = run(store.live())
    assert live == {1: Broker(1, broker().endpoints, "r1", epoch, epoch)}
    run(store.unregister())
    assert run(store.live()) == {}


def test_registering_again_in_the_same_session_keeps_the_epoch(house: House) -> None:
    store = BrokerStore(house.client, house.clock)
    assert run(store.register(broker())) == run(store.register(broker()))


# trap: kafkalite/zk/stores/brokers.py: A broker that comes back within its session timeout meets its own old znode: it
# waits for the znode to go.
def test_a_dead_incarnation_is_waited_for(house: House) -> None:
    old = house.server.client()
    run(BrokerStore(old, house.clock).register(broker()))
    got: list[Any] = []
    store = BrokerStore(house.client, house.clock, conflict_wait=10)
    deferred(store.register(broker())).addCallback(got.append)
    house.clock.advance(9)
    assert got == []
    house.server.expire(old.session)
    assert got == [(run(store.live())[1].epoch, house.client.session)]


def test_a_live_owner_of_the_id_is_refused_by_name(house: House) -> None:
    run(BrokerStore(house.server.client(), house.clock).register(broker()))
    failures: list[Any] = []
    store = BrokerStore(house.client, house.clock, conflict_wait=10)
    deferred(store.register(broker())).addErrback(lambda failure: failures.append(failure.value))
    house.clock.advance(11)
    assert isinstance(failures[0], BrokerIdInUse) and "broker id 1" in str(failures[0])


def test_topic_is_created_with_its_configuration_once(house: House) -> None:
    store = TopicStore(house.client)
    assignment = house.topic(2)
    assert run(store.names()) == ["t"]
    assert run(store.assignment("t")) == (assignment, 0)
    assert run(store.assignments(["t", "gone"])) == {"t": (assignment, 0)}
    with pytest.raises(ApiError) as error:
        house.topic()
    assert error.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["x" * 300, "a b", "é"])
def test_a_topic_that_kafka_does_not_allow_is_ignored(
    house: House, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = TopicStore(house.client)
    assignment = house.topic()
    run(house.client.create(znodes.topic_path(name), znodes.encode_topic(assignment)))
    for _ in range(3):
        assert run(store.names()) == ["t"]
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert repr(name) in said and f"delete the znode {znodes.topic_path(name)}" in said


def test_overrides_left_behind_are_overwritten_at_creation(house: House) -> None:
    config = ConfigStore(house.client, house.clock.time_ms)
    run(config.set_topic("t", {"retention.ms": "1"}))
    run(TopicStore(house.client).create("t", TopicAssignment(ID, {}), {"segment.bytes": "2"}))
    assert run(config.topic("t")) == {"segment.bytes": "2"}


def test_topic_creation_makes_missing_parents() -> None:
    client = MemoryZooKeeper().client()
    run(TopicStore(client).create("t", TopicAssignment(ID, {}), {}))
    assert run(TopicStore(client).names()) == ["t"]


def test_states_carry_id_and_assignment_and_leave_out_missing_ones(house: House) -> None:
    assignment = house.topic(3)
    run(house.controller().create_states(house.claim(), house.states(2)))
    states = run(TopicStore(house.client).states({"t": assignment}))
    assert sorted(states) == [TP, TopicPartition("t", 1)]
    assert states[TP].topic_id == ID and states[TP].replicas == (1, 2) and states[TP].mzxid > 0


def test_watch_of_a_missing_state_sees_its_creation(house: House) -> None:
    house.topic()
    events: list[Any] = []
    assert run(TopicStore(house.client).state(TP, watch=events.append)) is None
    run(house.controller().create_states(house.claim(), house.states()))
    assert [event.path for event in events] == [znodes.state_path(TP)]


# trap: kafkalite/zk/stores/claims.py: The version of an ephemeral claim proves nothing, because the znode is made
# anew: writes check the version of the persistent epoch.
def test_writes_after_another_claim_are_refused(house: House) -> None:
    house.topic()
    claim = house.claim()
    run(house.controller().create_states(claim, house.states()))
    run(house.client.delete("/controller"))
    assert house.claim(2, house.server.client()).epoch == 2
    state = house.states()[0].with_(leader=2, zk_version=0)
    for work in (
        house.controller().update_states(claim, [state]),
        house.controller().create_states(claim, house.states(2)),
        house.controller().delete_topic(claim, "t"),
        write_claimed(house.client, claim, [[SetData("/brokers/topics/t", b"")]]),
    ):
        with pytest.raises(ClaimLostError):
            run(work)
    assert run(TopicStore(house.client).state(TP)).leader == 1


def test_writes_of_an_earlier_session_are_never_sent(house: House) -> None:
    house.topic()
    claim = house.claim()
    house.client.expire_session()
    with pytest.raises(SessionExpiredError):
        run(house.controller().create_states(claim, house.states()))
    assert znodes.state_path(TP) not in house.server.paths()


def test_a_thousand_partitions_go_in_bounded_transactions(house: House) -> None:
    house.topic(1000)
    claim = house.claim()
    before = house.client.requests
    created = run(house.controller().create_states(claim, house.states(1000)))
    assert len(created) == 1000 and all(state.zk_version == 0 for state in created.values())
    assert house.client.requests - before <= 15
    updated = run(house.controller().update_states(claim, [s.with_(leader=2) for s in created.values()]))
    assert {state.zk_version for state in updated.values()} == {1}
    assert all(state.mzxid > 0 for state in updated.values())


# trap: kafkalite/zk/stores/controller.py: One failed operation fails the whole multi: the others are tried again
# without it.
def test_one_stale_state_does_not_spoil_the_others(house: House) -> None:
    house.topic(300)
    claim = house.claim()
    created = run(house.controller().create_states(claim, house.states(300)))
    run(house.client.set(znodes.state_path(TopicPartition("t", 5)), b"{}"))
    updated = run(house.controller().update_states(claim, created.values()))
    stale = {tp.partition for tp, result in updated.items() if isinstance(result, ZkError)}
    assert stale == {5} and isinstance(updated[TopicPartition("t", 5)], BadVersionError)


def test_existing_states_are_reported_where_partitions_are_added(house: House) -> None:
    house.topic(3)
    claim = house.claim()
    run(house.controller().create_states(claim, house.states(1)))
    result = run(house.controller().create_states(claim, house.states(3)))
    assert isinstance(result[TP], NodeExistsError)
    assert result[TopicPartition("t", 2)].zk_version == 0


def test_deleted_topic_leaves_nothing(house: House) -> None:
    house.topic(250)
    claim = house.claim()
    run(house.controller().create_states(claim, house.states(250)))
    run(AdminStore(house.client).create_delete_topic("t"))
    run(house.controller().delete_topic(claim, "t"))
    assert [path for path in house.server.paths() if path.endswith("/t") or "/t/" in path] == []


# trap: kafkalite/zk/stores/controller.py: The committed offsets of a deleted topic would count for its successor with
# the same name: they go with the paths.
def test_what_groups_keep_of_a_deleted_topic_goes_too(house: House) -> None:
    house.topic()
    claim = house.claim()
    for path in ("/consumers/g/offsets/t/0", "/consumers/h/owners/t/0", "/consumers/g/offsets/u/0"):
        run(set_or_create(house.client, path, b"1"))
    run(house.controller().delete_topic(claim, "t"))
    left = [path for path in house.server.paths("/consumers/") if path.rsplit("/", 1)[-1] in ("0", "t", "u")]
    assert left == ["/consumers/g/offsets/u", "/consumers/g/offsets/u/0"]


def test_topic_overrides_and_wish_go_in_one_transaction(house: House) -> None:
    """Where the last of it is refused, the topic is still there to be deleted again."""
    house.topic()
    claim = house.claim()
    run(house.controller().create_states(claim, house.states()))
    run(AdminStore(house.client).create_delete_topic("t"))
    run(set_or_create(house.client, "/admin/delete_topics/t/foreign", b""))
    with pytest.raises(NotEmptyError):
        run(house.controller().delete_topic(claim, "t"))
    assert "/brokers/topics/t" in house.server.paths() and "/config/topics/t" in house.server.paths()
    run(house.client.delete("/admin/delete_topics/t/foreign"))
    run(house.controller().delete_topic(claim, "t"))
    assert [path for path in house.server.paths() if path.endswith("/t") or "/t/" in path] == []


def test_isr_is_written_conditionally(house: House) -> None:
    house.topic()
    run(house.controller().create_states(house.claim(), house.states()))
    store = IsrStore(house.client)
    state = house.states()[0].with_(zk_version=0, isr=(1,))
    written = run(store.update(state, house.client.session))
    assert (written.zk_version, written.isr) == (1, (1,)) and written.mzxid > 0
    assert run(store.update(state)) == written, "the same again is the answer that was lost"
    with pytest.raises(BadVersionError):
        run(store.update(state.with_(isr=(1, 2))))


# trap: kafkalite/zk/stores/isr.py: A leader of a deleted topic would write the ISR of its successor with the same name:
# leaders compare the topic id.
def test_isr_of_an_earlier_incarnation_of_the_topic_is_not_written(house: House) -> None:
    house.topic(topic_id=uuid.UUID(int=8))
    run(house.controller().create_states(house.claim(), house.states()))
    with pytest.raises(BadVersionError):
        run(IsrStore(house.client).update(house.states()[0].with_(zk_version=0, isr=(1,))))
    assert run(TopicStore(house.client).state(TP)).isr == (1, 2)


# trap: kafkalite/zk/stores/isr.py: A leader's ISR change that was queued in one session would be made in the next: the
# change is bound to its session.
def test_isr_of_another_session_is_not_written(house: House) -> None:
    house.topic()
    run(house.controller().create_states(house.claim(), house.states()))
    session = house.client.session
    house.client.expire_session()
    with pytest.raises(SessionExpiredError):
        run(IsrStore(house.client).update(house.states()[0].with_(zk_version=0, isr=(1,)), session))


# trap: kafkalite/zk/stores/isr.py: An ISR change whose outcome a lost connection left unknown is taken for made.
def test_isr_outcome_unknown_then_known(house: House) -> None:
    house.topic()
    run(house.controller().create_states(house.claim(), house.states()))
    store = IsrStore(house.client)
    state = house.states()[0].with_(zk_version=0, isr=(1,), topic_id=uuid.UUID(int=0))
    outcome: list[Any] = []
    house.client.black_hole(apply=True)
    deferred(store.update(state)).addErrback(lambda failure: outcome.append(failure.value))
    house.client.lose_connection()
    assert isinstance(outcome[0], ConnectionLostError)
    house.client.reconnect()
    assert run(store.update(state)).zk_version == 1


def test_isr_changes_reach_the_controller_once(house: House) -> None:
    events: list[Any] = []
    store = NotificationStore(house.client)
    assert run(store.isr_changes(events.append)) == ([], [])
    run(IsrStore(house.client).notify([TP, TopicPartition("u", 1)]))
    run(IsrStore(house.client).notify([TP]))
    names, partitions = run(store.isr_changes())
    assert len(events) == 1 and partitions == [TP, TopicPartition("u", 1)]
    for name in names:
        run(house.client.delete(f"/isr_change_notification/{name}"))
    assert run(store.isr_changes()) == ([], [])


def test_log_dir_events(house: House) -> None:
    store = NotificationStore(house.client)
    run(store.create_log_dir_event(3))
    names, brokers = run(store.log_dir_events())
    assert brokers == [3]
    for name in names:
        run(house.client.delete(f"/log_dir_event_notification/{name}"))
    assert run(store.log_dir_events()) == ([], [])


def test_malformed_notifications_are_removed_like_others(house: House) -> None:
    run(house.client.create("/isr_change_notification/isr_change_", b"nonsense", sequence=True))
    names, partitions = run(NotificationStore(house.client).isr_changes())
    assert len(names) == 1 and partitions == []


def test_config_overrides_and_word_of_them(house: House) -> None:
    other = house.server.client()
    seen: list[tuple[str, str]] = []
    run(ConfigStore(house.client, house.clock.time_ms).set_topic("old", {}))
    feed = run(ConfigStore(other, house.clock.time_ms).watch_changes(lambda *what: seen.append(what)))
    store = ConfigStore(house.client, house.clock.time_ms)
    run(store.set_topic("t", {"retention.ms": "5"}))
    run(store.set_broker("<default>", {"log.retention.ms": "6"}))
    run(store.set_entity("users", "alice/clients/c1", {"producer_byte_rate": "7"}))
    assert seen == [("topics", "t"), ("brokers", "<default>"), ("users", "alice/clients/c1")]
    assert run(store.topic("t")) == {"retention.ms": "5"} and run(store.topic("none")) == {}
    assert run(store.entities("brokers")) == {"<default>": {"log.retention.ms": "6"}}
    feed.stop()
    run(store.set_topic("t", {}))
    assert len(seen) == 3


def test_changes_made_while_away_are_seen_or_said_to_be_missed(house: House) -> None:
    other = house.server.client()
    seen: list[tuple[str, str]] = []
    run(ConfigStore(other, house.clock.time_ms).watch_changes(lambda *what: seen.append(what)))
    store = ConfigStore(house.client, house.clock.time_ms)
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
    house.server.expire(other.session)
    assert len(seen) == 3, "nothing could be read yet"
    other.reconnect()
    assert seen[3:] == [("*", "")]


def test_a_change_that_could_not_be_acted_upon_is_not_forgotten(house: House) -> None:
    other = house.server.client()
    seen: list[tuple[str, str]] = []
    feed = run(ConfigStore(other, house.clock.time_ms).watch_changes(lambda *what: seen.append(what)))
    run(ConfigStore(house.client, house.clock.time_ms).set_topic("t", {}))
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


def test_requests_of_the_zookeeper_tools(house: House) -> None:
    store = AdminStore(house.client)
    events: list[Any] = []
    assert run(store.reassign_partitions(events.append)) == {}
    run(house.client.create(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TP: (2, 1)})))
    assert len(events) == 1 and run(store.reassign_partitions()) == {TP: (2, 1)}
    run(house.client.set(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TopicPartition("t", 1): (1,)})))
    assert list(run(store.reassign_partitions())) == [TopicPartition("t", 1)]
    run(house.client.delete(admin.REASSIGN_PARTITIONS))
    assert run(store.reassign_partitions()) == {}
    assert run(store.preferred_replica_election()) is None
    run(house.client.create("/admin/preferred_replica_election", b'{"partitions":[{"topic":"t","partition":0}]}'))
    assert run(store.preferred_replica_election()) == [TP]
    run(store.create_delete_topic("t"))
    run(store.create_delete_topic("t"))
    assert run(store.delete_topics()) == ["t"]
    run(house.client.delete("/admin/delete_topics/t"))
    assert run(store.delete_topics()) == []


def test_producer_id_blocks_never_overlap(house: House) -> None:
    a, b = ProducerIdStore(house.client), ProducerIdStore(house.server.client())
    raced: list[range] = []

    def race(name: str, _: str) -> None:
        if name == "set" and not raced:
            raced.append(run(b.allocate(2)))

    assert run(a.allocate(1)) == range(1000)
    house.client.before = race
    assert run(a.allocate(1)) == range(2000, 3000)
    assert raced == [range(1000, 2000)]


def test_requests_without_a_connection_fail_at_once(house: House) -> None:
    house.client.lose_connection()
    with pytest.raises(ConnectionLostError):
        run(TopicStore(house.client).names())
    with pytest.raises(NoNodeError):
        run(house.server.client().get("/none"))
