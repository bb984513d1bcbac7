"""The group coordinator of one broker: serves the requests of group members and of administrators.

Answers to: ``kafka.coordinator.group.{GroupCoordinator,GroupCoordinatorAdapter}``. Reactor shell.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Sequence

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.events import EventRecorder, ignore_event
from kafkalite.common.tasks import spawn
from kafkalite.common.types import random_uuid
from kafkalite.coordinator.group.coordinated_group import CoordinatedGroup
from kafkalite.coordinator.group.group_admin import GroupAdmin
from kafkalite.coordinator.group.group_metadata import GroupConfig
from kafkalite.coordinator.group.group_metadata_manager import GroupMetadataManager, check_name
from kafkalite.coordinator.group.group_offsets import GroupOffsets
from kafkalite.coordinator.group.group_stats import GroupStats
from kafkalite.coordinator.group.old_consumers import OldConsumers
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import (
    UNKNOWN_MEMBER,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from kafkalite.coordinator.offsets.offset_manager import OffsetManager
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.zk_client import SessionState, ZkError

log = logging.getLogger(__name__)


class GroupCoordinator:
    """Serves the groups whose claims this broker holds, and names the coordinators of the others.

    If a group has no coordinator, the broker that :meth:`find` names claims and loads it at the first request. Requests
    for groups of other brokers are answered NOT_COORDINATOR.

    ``offsets`` serves the requests for offsets, ``admin`` those of administrators. ``session_timeout``: that of the
    ZooKeeper session, in seconds.
    """

    def __init__(
        self,
        broker_id: int,
        claims: ClaimStore,
        store: GroupStore,
        offsets: OffsetManager,
        metadata: MetadataCache,
        clock: Clock,
        config: GroupConfig,
        session_timeout: float,
        rng: random.Random | None = None,
        record: EventRecorder = ignore_event,
    ) -> None:
        self._clock = clock
        self._rng = rng or random.Random()
        self._old = OldConsumers(store, self._old_consumers_found)
        self._groups = GroupMetadataManager(
            broker_id,
            claims,
            store,
            metadata,
            clock,
            config,
            session_timeout,
            on_claimed=self._claimed,
            on_gone=self._old.forget,
            record=record,
        )
        self._offset_manager = offsets
        self.offsets = GroupOffsets(self._groups, offsets)
        self.admin = GroupAdmin(broker_id, self._groups, store, offsets, self.offsets, self._old, clock)
        self._expiry: Timer | None = None

    @property
    def stats(self) -> GroupStats:
        """What this coordinator did since the broker's start."""
        return self._groups.stats

    def states(self) -> Counter[GroupState]:
        """How many of the groups that this broker coordinates are in each state."""
        return Counter(coordinated.core.state for coordinated in self._groups.coordinated.values())

    # Life

    def start(self) -> None:
        """Start to remove expired offsets, every :attr:`OffsetConfig.retention_check_interval_ms`."""
        delay = self._offset_manager.config.retention_check_interval_ms / 1000
        self._expiry = self._clock.call_later(delay, lambda: spawn(self._expire(), "expiring offsets"))

    async def stop(self) -> None:
        """Release every claim; waiting requests are answered NOT_COORDINATOR."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        await self._groups.stop()

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper session changed. When it expires, its claims end, and their groups are dropped from memory."""
        self._groups.on_session(state)
        if state is SessionState.CONNECTED:
            self._old.resync()

    async def find(self, group: str) -> int | None:
        """The broker that coordinates ``group``, else the one that should; ``None``: no broker. Raises ``ZkError``."""
        return await self._groups.find(group)

    # Members

    async def join(self, request: JoinRequest) -> JoinAnswer:
        """Join the group; the answer comes when the group's next generation begins."""
        try:
            check_name(request.group)
            coordinated = await self._groups.obtain(request.group, create=request.member_id == UNKNOWN_MEMBER)
            if coordinated is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            await self._refuse_beside_old_consumers(coordinated)
        except ApiError as error:
            return JoinAnswer(error.code, request.member_id)
        return await coordinated.join(request, f"{request.instance_id or request.client_id}-{random_uuid(self._rng)}")

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        """Send (the leader) or fetch the assignment of a generation; the answer comes once it is durable."""
        try:
            check_name(request.group)
            coordinated = await self._groups.obtain(request.group, create=False)
        except ApiError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Old clients do not know that error in SyncGroup; this one makes them join again.
                return SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
            return SyncAnswer(error.code)
        if coordinated is None:
            return SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        return await coordinated.sync(request)

    async def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Extend a member's session."""
        coordinated = self._groups.coordinated.get(request.group)
        if coordinated is None or not request.group:
            try:
                check_name(request.group)
                coordinated = await self._groups.obtain(request.group, create=False)
            except ApiError as error:
                # While the group loads, its members need not do anything.
                loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                return ErrorCode.NONE if loading else error.code
            if coordinated is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return coordinated.heartbeat(request)

    async def leave(self, group: str, members: Sequence[LeavingMember]) -> LeaveAnswer:
        """Remove members from the group."""
        try:
            check_name(group)
            coordinated = await self._groups.obtain(group, create=False)
        except ApiError as error:
            return LeaveAnswer(error.code)
        if coordinated is None:
            return LeaveAnswer(ErrorCode.NONE, tuple((member, ErrorCode.UNKNOWN_MEMBER_ID) for member in members))
        return coordinated.leave(members)

    # Inside

    def _claimed(self, group: str) -> None:
        self._offset_manager.forget(group)
        self._old.follow(group)

    async def _refuse_beside_old_consumers(self, coordinated: CoordinatedGroup) -> None:
        """Refuse modern members beside old consumers, because both would read every partition."""
        if coordinated.core.members:
            return
        try:
            old = await self._old.live(coordinated.core.name)
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None
        if old:
            log.warning(
                "group %s: a member was refused, because ZooKeeper consumers live in the group: %s. "
                "Stop them first, or give the new consumers a group of their own",
                coordinated.core.name, ", ".join(old),
            )  # fmt: skip
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _old_consumers_found(self, group: str, ids: Sequence[str]) -> None:
        coordinated = self._groups.coordinated.get(group)
        if coordinated is not None and coordinated.core.members:
            log.warning(
                "group %s has %d members that are coordinated here, and ZooKeeper consumers besides (%s): "
                "both read the same partitions. Stop the ones or the others",
                group, len(coordinated.core.members), ", ".join(ids),
            )  # fmt: skip

    async def _expire(self) -> None:
        try:
            await self.admin.expire()
        except ZkError as error:
            log.info("expiring offsets: %s", error)
        finally:
            if self._expiry is not None:
                self.start()
