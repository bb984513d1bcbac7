"""One ``GroupMetadata`` with short forms of its requests, a manual clock, and the answers."""

from __future__ import annotations

from typing import Any

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.group_metadata import GroupLimits, GroupMetadata
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeavingMember,
    StoreGeneration,
    SyncAnswer,
    SyncRequest,
)

RANGE = (("range", b"topics"),)
LIMITS = GroupLimits(initial_rebalance_delay_ms=3_000)


class Room:
    """Members are called by short names: the id of member ``a`` is ``a-1`` (its second one ``a-2``).

    ``answers`` by ticket, which every request is given in order from 1 on. Stores wait in ``stores``, unless
    ``durable`` is set: then they are durable at once.
    """

    def __init__(self, limits: GroupLimits = LIMITS, *, durable: bool = True) -> None:
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
