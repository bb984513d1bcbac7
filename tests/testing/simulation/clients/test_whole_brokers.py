"""All kinds of clients on three whole brokers, one of which is killed; and what an administrator asks of them."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.testing.history import events
from kafkalite.testing.history.checker import check
from kafkalite.testing.simulation.clients.admin import BROKER, TOPIC, Admin
from kafkalite.testing.simulation.clients.administrator import Administrator, AdministratorSettings
from kafkalite.testing.simulation.clients.consumer_coordinator import MembershipSettings
from kafkalite.testing.simulation.clients.consumer_protocol import STICKY
from kafkalite.testing.simulation.clients.fetcher import FetchSettings
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.member import Member, MemberSettings
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.clients.reader import Reader, ReaderSettings
from kafkalite.testing.simulation.clients.sender import SenderSettings
from kafkalite.testing.simulation.clients.transactional_producer import TransactionalProducer, TransactionalSettings
from kafkalite.testing.simulation.clients.transformer import Transformer, TransformerSettings
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.workload import CLIENTS
from kafkalite.testing.simulation.world import World

E = ErrorCode
COMPACT = {
    "cleanup.policy": "compact",
    "segment.bytes": "2048",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "segment.ms": "1000",
}


class Stage:
    """A cluster, its clients, and what they note."""

    def __init__(self, seed: int, world: World, cluster: SimCluster) -> None:
        self.world = world
        self.cluster = cluster
        self.events: list[events.Event] = []
        self.violations: list[str] = []
        self.ended: list[str] = []
        self.names: list[str] = []
        self.seed = seed

    def host(self, name: str) -> ClientHost:
        node = self.cluster.client_node(name)
        return ClientHost(
            node.clock, node.rng, node.connect, self.events.append, self.violations.append, self.cluster.bootstrap
        )

    def start(self, kind: Callable[[ClientHost, Any], Any], settings: Any) -> Any:
        """Run a client on a machine of its own."""
        client = kind(self.host(settings.name), settings)

        async def run() -> None:
            await client.run()
            self.ended.append(settings.name)

        self.names.append(settings.name)
        self.cluster.client_node(settings.name).spawn(run, settings.name)
        return client

    def stop(self, *clients: Any) -> None:
        """Stop clients, and see them end."""
        names = [client.settings.name for client in clients]
        for client in clients:
            client.stop()
        assert self.world.run_until(lambda: all(name in self.ended for name in names), self.world.now + 40.0), (
            names,
            self.ended,
        )

    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)

    def do(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """The result of an administrator's call."""
        results: list[Any] = []

        async def run() -> None:
            results.append(await work())

        self.cluster.client_node("admin").spawn(run, "the administrator")
        assert self.world.run_until(lambda: bool(results), self.world.now + 30.0), self.world.failures
        return results[0]

    def leader(self, partition: TopicPartition) -> int:
        """The leader in the view of a broker that serves; -1: none."""
        for broker in self.cluster.brokers.values():
            state = broker.services.metadata.state(partition) if broker.services is not None else None
            if state is not None:
                return state.leader
        return -1

    def verifies_transactions(self) -> list[bool]:
        """For each broker, whether it checks batches of transactions."""
        found = (broker.services for broker in self.cluster.brokers.values())
        return [services.transactions.verifier.is_enabled for services in found if services is not None]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@contextmanager
def stage(seed: int) -> Iterator[tuple[Stage, Admin]]:
    with World(seed) as world, SimCluster(world) as cluster:
        cluster.start_all()
        found = Stage(seed, world, cluster)
        yield found, Admin(found.host("admin"), "admin")


def run_all(seed: int) -> Stage:
    """One history with every kind of client; the leader of one partition is killed and comes back."""
    with stage(seed) as (found, admin):
        for topic, partitions, configs in (("t", 3, {}), ("target", 2, {}), ("keys", 1, COMPACT), ("old", 1, {})):
            assert found.do(lambda topic=topic, n=partitions, c=configs: admin.create_topic(topic, n, 3, c)) is E.NONE  # type: ignore[misc]
        readers = [
            found.start(
                Reader, ReaderSettings(isolation.value, ("t", "target", "keys", "old"), FetchSettings(isolation))
            )
            for isolation in events.Isolation
        ]
        writers = [
            found.start(Producer, ProducerSettings("idempotent", ("t",), sender=SenderSettings(codec=1))),
            found.start(
                Producer, ProducerSettings("plain", ("t",), idempotent=False, sender=SenderSettings(in_flight=1))
            ),
            found.start(Producer, ProducerSettings("keyed", ("keys",), keys=4, tombstones=0.2)),
            found.start(Producer, ProducerSettings("old", ("old", "spare"), rate=2.0)),
            found.start(TransactionalProducer, TransactionalSettings("tx", "id", ("t",))),
            found.start(
                Administrator,
                AdministratorSettings("operator", ("t", "target"), ("old",), ("spare",), ("pipe",), rate=1.0),
            ),
        ]
        members = [
            found.start(Member, MemberSettings("member", MembershipSettings("eager", ("t", "keys")))),
            found.start(Member, MemberSettings("sticky", MembershipSettings("sticky", ("t",), None, STICKY))),
            found.start(Transformer, TransformerSettings("pipe", "pipe", MembershipSettings("pipe", ("t",)), "target")),
        ]
        found.run(4.0)
        leader = found.leader(TopicPartition("t", 0))
        found.cluster.kill(leader)
        found.run(3.0)
        found.cluster.start(leader)
        found.run(3.0)
        found.stop(*writers)
        found.run(3.0)
        found.stop(*members)
        found.stop(*readers)
        assert not found.world.failures, found.world.failures
        return found


def test_all_kinds_of_clients_outlive_a_killed_leader() -> None:
    found = run_all(1)
    assert found.violations == []
    assert check(found.events) == []
    assert len(found.of(events.Acked)) > 300
    assert len(found.of(events.Committed)) > 5
    assert len(found.of(events.OffsetCommitted)) > 20
    assert len(found.of(events.Derived)) > 20
    assert {event.isolation for event in found.of(events.Read)} == set(events.Isolation)


def test_one_seed_is_one_history() -> None:
    assert run_all(2).events == run_all(2).events


def test_the_requests_of_an_administrator_are_answered() -> None:
    with stage(3) as (found, admin):
        t0 = TopicPartition("t", 0)
        assert found.do(lambda: admin.create_topic("t", 0, assignment=[(1, 2, 3), (2, 3, 1)])) is E.NONE
        assert found.do(lambda: admin.create_topic("t", 1)) is E.TOPIC_ALREADY_EXISTS
        assert found.do(lambda: admin.create_topic("u", 1, 7)) is E.INVALID_REPLICATION_FACTOR
        found.run(1.0)
        seen = found.do(lambda: admin.describe(3, ("t",)))["t"]
        assert [(view.leader, view.replicas) for view in seen.values()] == [(1, (1, 2, 3)), (2, (2, 3, 1))]
        assert found.do(lambda: admin.create_partitions("t", 3)) is E.NONE
        assert found.do(lambda: admin.create_partitions("t", 2)) is E.INVALID_PARTITIONS
        assert found.do(lambda: admin.reassign({t0: (3, 1)})) is E.NONE
        found.run(3.0)
        assert found.do(admin.reassignments) == {}
        assert found.do(lambda: admin.describe(2, ("t",)))["t"][0].replicas == (3, 1)
        assert found.do(lambda: admin.reassign({t0: None})) is E.NO_REASSIGNMENT_IN_PROGRESS
        found.do(lambda: admin.elect_leaders([t0]))
        found.run(1.0)
        assert found.do(lambda: admin.describe(2, ("t",)))["t"][0].leader == 3
        assert found.do(lambda: admin.elect_leaders([t0])) is E.ELECTION_NOT_NEEDED
        assert found.do(lambda: admin.alter_configs(TOPIC, "t", {"segment.bytes": "4096"})) is E.NONE
        assert found.do(lambda: admin.alter_configs(TOPIC, "t", {"segment.bytes": "much"})) is E.INVALID_CONFIG
        assert found.do(lambda: admin.alter_configs(BROKER, "2", {"background.threads": "8"})) is E.NONE
        off = {"transaction.partition.verification.enable": "false"}
        assert found.do(lambda: admin.alter_configs(BROKER, "", off)) is E.NONE
        assert found.verifies_transactions() == [True, True, True]
        found.run(1.0)
        assert found.verifies_transactions() == [False, False, False]
        producer = found.start(Producer, ProducerSettings("p", ("t",), rate=20.0, most=60))
        found.run(5.0)
        found.stop(producer)
        end = found.do(lambda: admin.end_offset(t0))
        assert end > 5
        assert found.do(lambda: admin.delete_records(t0, end - 2)) is E.NONE
        assert found.do(lambda: admin.delete_records(t0, end + 5)) is E.OFFSET_OUT_OF_RANGE
        member = found.start(Member, MemberSettings("m", MembershipSettings("g", ("t",))))
        found.run(4.0)
        assert found.do(lambda: admin.delete_group("g")) is E.NON_EMPTY_GROUP
        assert found.do(admin.list_groups) == {"g": "Stable"}
        found.stop(member)
        found.run(1.0)
        assert found.do(lambda: admin.delete_group("g")) is E.NONE
        assert found.do(lambda: admin.delete_group("g")) is E.GROUP_ID_NOT_FOUND
        assert found.do(lambda: admin.delete_topic("t", 3)) is E.NONE
        assert found.do(lambda: admin.delete_topic("t", 3)) is E.UNKNOWN_TOPIC_OR_PARTITION
        assert found.violations == []
        assert check(found.events) == []


@pytest.mark.parametrize("code", [E.UNKNOWN_SERVER_ERROR, E.INVALID_REQUEST])
def test_a_forbidden_answer_to_an_administrator_is_a_violation(code: ErrorCode) -> None:
    with stage(4) as (found, _):
        operator = Administrator(found.host("operator"), AdministratorSettings("operator", weights={"elect": 1.0}))

        async def refuse() -> ErrorCode:
            return code

        operator._actions["elect"] = refuse
        found.cluster.client_node("operator").spawn(operator.run, "operator")
        found.run(3.0)
        operator.kill()
        assert any(code.name in text for text in found.violations)


def test_administrator_that_is_stopped_does_not_wait_for_its_next_action() -> None:
    """A history waits 20 s for its clients, and some pauses between two actions are longer."""
    with stage(5) as (found, _):
        settings = AdministratorSettings("operator", rate=0.0001, weights={"delete": 1.0})
        operator = found.start(Administrator, settings)
        found.run(1.0)
        operator.stop()
        found.run(1.0)
        assert found.ended == ["operator"]


def test_the_administrator_of_spare_topics_deletes_one_every_few_seconds() -> None:
    """Sixty histories had two deletions before there was this client, and a planted bug of deletions was not found."""
    with stage(6) as (found, _):
        name = "spare-administrator"
        operator = found.start(
            lambda host, _: CLIENTS[name].make(host, name, random.Random(6)), AdministratorSettings(name)
        )
        found.run(12.0)
        found.stop(operator)
        assert operator.done["delete"] >= 3
        assert found.violations == []
