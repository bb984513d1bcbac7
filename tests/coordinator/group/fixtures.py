"""The group coordinators of three brokers with one ZooKeeper in memory; one group without a broker."""

from __future__ import annotations

from typing import Any

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker as BrokerInfo
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.coordinated_group import CoordinatedGroup
from kafkalite.coordinator.group.group_coordinator import GroupCoordinator
from kafkalite.coordinator.group.group_metadata import GroupConfig, GroupMetadata
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeavingMember,
    OffsetCommitRequest,
    StoreGeneration,
    SyncAnswer,
    SyncRequest,
)
from kafkalite.coordinator.offsets.offset_manager import OffsetConfig, OffsetManager
from kafkalite.coordinator.placement import preferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.stores.paths import ensure, ensure_paths
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.znodes.consumers import ids_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata
from tests.support import Started, run

G = "g"
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
# A subscription of version 0 to the topic "t", as a consumer writes it.
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"


class Broker:
    """One broker's group coordinator, with short forms of the clients' requests."""

    def __init__(self, fixture: GroupCoordinatorFixture, broker_id: int) -> None:
        self.id = broker_id
        self.client: MemoryZkClient = fixture.server.client()
        claims = ClaimStore(self.client, fixture.clock)
        self.offsets = OffsetManager(
            self.client,
            fixture.clock,
            fixture.offset_config,
            lambda tp: tp in fixture.partitions,
            TransactionStore(self.client, 50),
        )
        self.groups = GroupCoordinator(
            broker_id,
            claims,
            GroupStore(self.client),
            self.offsets,
            fixture.metadata,
            fixture.clock,
            fixture.config,
            18.0,
        )
        self.client.add_listener(self.groups.on_session)

    @property
    def coordinated(self) -> dict[str, CoordinatedGroup]:
        """The groups that this broker coordinates."""
        return self.groups._groups.coordinated

    def join(self, client: str, member_id: str = "", group: str = G, **fields: Any) -> Started:
        values = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (("range", SUBSCRIPTION),),
            **fields,
        }
        return Started(self.groups.join(JoinRequest(group, member_id, client, "/127.0.0.1", **values)))

    def sync(self, member_id: str, generation: int, group: str = G, **fields: Any) -> Started:
        assignments = fields.pop("assignments", {})
        return Started(self.groups.sync(SyncRequest(group, member_id, generation, assignments, **fields)))

    def heartbeat(self, member_id: str, generation: int, group: str = G, instance_id: str | None = None) -> ErrorCode:
        error = run(self.groups.heartbeat(HeartbeatRequest(group, member_id, generation, instance_id)))
        assert isinstance(error, ErrorCode)
        return error

    def commit(self, offset: int, member_id: str = "", generation: int = -1, group: str = G) -> ErrorCode:
        request = OffsetCommitRequest(group, {T0: OffsetAndMetadata(offset)}, member_id, generation)
        answer = run(self.groups.offsets.commit(request))
        assert set(answer) == {T0}
        error = answer[T0]
        assert isinstance(error, ErrorCode)
        return error

    def fetch(self, group: str = G) -> dict[TopicPartition, int]:
        found = run(self.groups.offsets.fetch(group, None))
        offsets = {}
        for tp, value in found.items():
            assert isinstance(value, OffsetAndMetadata), value
            offsets[tp] = value.offset
        return offsets

    def find(self, group: str = G) -> int | None:
        found = run(self.groups.find(group))
        assert found is None or isinstance(found, int)
        return found


class GroupCoordinatorFixture:
    """Three brokers on one ZooKeeper."""

    def __init__(self, offset_config: OffsetConfig | None = None) -> None:
        self.server = MemoryZooKeeper()
        self.clock = ManualClock()
        self.config = GroupConfig(max_size=100)
        self.offset_config = offset_config or OffsetConfig()
        self.partitions = {T0, T1, U0}
        self.tools = self.server.client()
        run(ensure_paths(self.tools))
        self.metadata = MetadataCache(self.clock.monotonic)
        self.brokers = {broker_id: Broker(self, broker_id) for broker_id in (1, 2, 3)}
        self.alive({1, 2, 3})

    def alive(self, brokers: set[int]) -> None:
        self.metadata.update_brokers({broker_id: BrokerInfo(broker_id, ()) for broker_id in brokers})

    def preferred(self, group: str = G) -> Broker:
        """The broker that placement gives ``group``."""
        broker_id = preferred(group, self.metadata.brokers)
        assert broker_id is not None
        return self.brokers[broker_id]

    def others(self, group: str = G) -> list[Broker]:
        return [broker for broker in self.brokers.values() if broker is not self.preferred(group)]

    def kill(self, broker: Broker) -> Broker:
        """``broker`` dies with its session; returns the next coordinator of ``g``."""
        self.alive(set(self.metadata.brokers) - {broker.id})
        broker.client.lose_connection()
        self.server.expire(broker.client.session)
        return self.preferred()

    def stable(self, *clients: str, broker: Broker | None = None, **fields: Any) -> dict[str, str]:
        """``clients`` form generation 1 of ``g``; returns their member ids."""
        broker = broker or self.preferred()
        joins = {client: broker.join(client, **fields) for client in clients}
        self.clock.advance(6.0)
        ids = {client: join.result.member_id for client, join in joins.items()}
        leader = next(iter(joins.values())).result.leader
        assignments = {member_id: member_id.encode() for member_id in ids.values()}
        syncs = [broker.sync(each, 1) for each in ids.values() if each != leader]
        syncs.append(broker.sync(leader, 1, assignments=assignments))
        assert all(each.result.error is ErrorCode.NONE for each in syncs)
        return ids

    def old_consumer(self, group: str = G, name: str = "old") -> MemoryZkClient:
        """A ZooKeeper consumer of 2017 that lives in ``group`` until its session ends."""
        client = self.server.client()
        run(ensure(client, ids_path(group)))
        run(client.create(f"{ids_path(group)}/{name}", b"{}", ephemeral=True))
        return client


RANGE = (("range", b"topics"),)
LIMITS = GroupConfig(initial_rebalance_delay_ms=3_000)


class GroupFixture:
    """One ``GroupMetadata``, short forms of its requests, a manual clock, and the answers.

    Members are called by short names: the id of member ``a`` is ``a-1`` (its second one ``a-2``).

    ``answers`` by ticket, which every request is given in order from 1 on. Stores wait in ``stores``, unless
    ``durable`` is set: then they are durable at once.
    """

    def __init__(self, limits: GroupConfig = LIMITS, *, durable: bool = True) -> None:
        self.group = GroupMetadata("g", limits)
        self.now = 100.0
        self.durable = durable
        self.answers: dict[int, JoinAnswer | SyncAnswer] = {}
        self.stores: list[StoreGeneration] = []
        self.kept: StoreGeneration | None = None
        """The last store that became durable."""
        self._tickets = 0
        self.ids: dict[str, int] = {}
        """The number of member ids that each client got."""

    # Requests

    def join(self, client: str, member_id: str = "", **fields: Any) -> int:
        values: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            **fields,
        }
        number = self.ids[client] = self.ids.get(client, 0) + 1
        ticket = self._ticket()
        request = JoinRequest("g", member_id, client, "/127.0.0.1", **values)
        self.group.join(ticket, request, f"{client}-{number}", self.now)
        self._settle()
        return ticket

    def sync(self, member_id: str, generation: int | None = None, **fields: Any) -> int:
        ticket = self._ticket()
        number = self.group.generation if generation is None else generation
        request = SyncRequest("g", member_id, number, fields.pop("assignments", {}), **fields)
        self.group.sync(ticket, request, self.now)
        self._settle()
        return ticket

    def heartbeat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        number = self.group.generation if generation is None else generation
        return self.group.heartbeat(HeartbeatRequest("g", member_id, number, instance_id), self.now)

    def leave(self, *members: str | LeavingMember) -> LeaveAnswer:
        leaving = [each if isinstance(each, LeavingMember) else LeavingMember(each) for each in members]
        answer = self.group.leave(leaving, self.now)
        self._settle()
        return answer

    def commit(
        self, member_id: str = "", generation: int = -1, instance_id: str | None = None, *, transactional: bool = False
    ) -> ErrorCode:
        return self.group.check_commit(member_id, generation, instance_id, self.now, transactional=transactional)

    # Time and durability

    def advance(self, seconds: float) -> None:
        """Let time pass; ``tick`` is called only at ``wakes_at``."""
        end = self.now + seconds
        while self.group.wakes_at <= end:
            self.now = max(self.now, self.group.wakes_at)
            self.group.tick(self.now)
            self._settle()
        self.now = end

    def write(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest waiting store becomes durable or fails."""
        store = self.stores.pop(0)
        if error is ErrorCode.NONE:
            self.kept = store
        self.group.stored(store, error, self.now)
        self._settle()

    def die(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        self.group.die(error)
        self._settle()

    # Answers and state

    def joined(self, ticket: int) -> JoinAnswer:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinAnswer)
        return answer

    def synced(self, ticket: int) -> SyncAnswer:
        answer = self.answers[ticket]
        assert isinstance(answer, SyncAnswer)
        return answer

    def state(self) -> GroupState:
        return self.group.state

    @property
    def open_tickets(self) -> set[int]:
        return set(range(1, self._tickets + 1)) - set(self.answers)

    # Whole conversations

    def stable(self, *clients: str, **fields: Any) -> None:
        """``clients`` form a stable group, with ``to <member id>`` as each one's assignment."""
        for client in clients:
            self.join(client, **fields)
        while self.state() is GroupState.PREPARING_REBALANCE:
            self.advance(self.group.wakes_at - self.now)
        self.assign()

    def assign(self) -> dict[str, int]:
        """All members sync, the leader last."""
        leader = self.group.members.leader
        tickets = {each.member_id: self.sync(each.member_id) for each in self.group.members if each.member_id != leader}
        assignments = {each.member_id: f"to {each.member_id}".encode() for each in self.group.members}
        tickets[leader] = self.sync(leader, assignments=assignments)
        return tickets

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def _settle(self) -> None:
        for effect in self.group.take_effects():
            if isinstance(effect, StoreGeneration):
                self.stores.append(effect)
            else:
                assert effect.ticket not in self.answers, "a request is answered once"
                self.answers[effect.ticket] = effect.answer
        if self.durable:
            while self.stores:
                self.write()
