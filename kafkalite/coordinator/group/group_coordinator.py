"""The group coordinator of one broker: serves the requests of group members and of administrators.

Answers to: ``kafka.coordinator.group.{GroupCoordinator,GroupCoordinatorAdapter}``. Reactor shell.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from typing import Final

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.clock import Clock, Timer
from kafkalite.common.config import Config
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather, spawn
from kafkalite.common.types import random_uuid
from kafkalite.coordinator.group.coordinated_group import CoordinatedGroup
from kafkalite.coordinator.group.group_admin import GroupAdmin
from kafkalite.coordinator.group.group_metadata import GroupLimits
from kafkalite.coordinator.group.group_metadata_manager import GroupMetadataManager
from kafkalite.coordinator.group.group_offsets import GroupOffsets
from kafkalite.coordinator.group.old_consumers import OldConsumers
from kafkalite.coordinator.group.values import (
    UNKNOWN_MEMBER,
    FetchedOffsets,
    GroupDescription,
    GroupListing,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeavingMember,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetErrors,
    OffsetFetchRequest,
    SyncAnswer,
    SyncRequest,
    TxnOffsetCommitRequest,
)
from kafkalite.coordinator.offsets.offset_manager import OffsetManager
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.zk_client import SessionState, ZkError

log = logging.getLogger(__name__)
_INVALID: Final = "The group id is empty"


class GroupCoordinator:
    """Serves the groups whose claims this broker holds, and names the coordinators of the others.

    If a group has no coordinator, the broker that :meth:`find` names claims and loads it at the first request. Requests
    for groups of other brokers are answered NOT_COORDINATOR.
    """

    def __init__(
        self,
        broker_id: int,
        claims: ClaimStore,
        groups: GroupStore,
        offsets: OffsetManager,
        metadata: MetadataCache,
        clock: Clock,
        config: Config,
        rng: random.Random | None = None,
    ) -> None:
        self._clock = clock
        self._config = config
        self._rng = rng or random.Random()
        self._old = OldConsumers(groups, self._old_consumers_found)
        session_timeout = config["zookeeper.session.timeout.ms"] / 1000
        self._host = GroupMetadataManager(
            broker_id, claims, groups, metadata, clock, limits_of(config), session_timeout
        )
        self._host.on_claimed = self._claimed
        self._host.on_gone = self._old.forget
        self._manager = offsets
        self._offsets = GroupOffsets(self._host, offsets)
        self._admin = GroupAdmin(broker_id, self._host, groups, offsets, self._offsets, self._old, clock)
        self._expiry: Timer | None = None

    # Life

    def start(self) -> None:
        """Start to remove expired offsets, every ``offsets.retention.check.interval.ms``."""
        delay = self._config["offsets.retention.check.interval.ms"] / 1000
        self._expiry = self._clock.call_later(delay, lambda: spawn(self._expire(), "expiring offsets"))

    async def stop(self) -> None:
        """Release every claim; waiting requests are answered NOT_COORDINATOR."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        await self._host.stop()

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper session changed. When it expires, its claims end, and their groups are dropped from memory."""
        self._host.on_session(state)
        if state is SessionState.CONNECTED:
            self._old.resync()

    def brokers_changed(self) -> None:
        """A broker came or went: nothing to do, for its groups are claimed when somebody asks for them."""

    async def find(self, group: str) -> int | None:
        """The broker that coordinates ``group``, else the one that should; ``None``: no broker. Raises ``ZkError``."""
        return await self._host.find(group)

    # Members

    async def join(self, request: JoinRequest) -> JoinAnswer:
        """Join the group; the answer comes when the group's next generation begins."""
        try:
            self._check_name(request.group)
            hosted = await self._host.obtain(request.group, create=request.member_id == UNKNOWN_MEMBER)
            if hosted is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            await self._refuse_beside_old_consumers(hosted)
        except ApiError as error:
            return JoinAnswer(error.code, request.member_id)
        return await hosted.join(request, f"{request.instance_id or request.client_id}-{random_uuid(self._rng)}")

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        """Send (the leader) or fetch the assignment of a generation; the answer comes once it is durable."""
        try:
            self._check_name(request.group)
            hosted = await self._host.obtain(request.group, create=False)
        except ApiError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Old clients do not know that error in SyncGroup; this one makes them join again.
                return SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
            return SyncAnswer(error.code)
        if hosted is None:
            return SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        return await hosted.sync(request)

    async def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Extend a member's session."""
        hosted = self._host.hosted.get(request.group)
        if hosted is None or not request.group:
            try:
                self._check_name(request.group)
                hosted = await self._host.obtain(request.group, create=False)
            except ApiError as error:
                # While the group loads, its members need not do anything.
                loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                return ErrorCode.NONE if loading else error.code
            if hosted is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return hosted.heartbeat(request)

    async def leave(self, group: str, members: Sequence[LeavingMember]) -> LeaveAnswer:
        """Remove members from the group."""
        try:
            self._check_name(group)
            hosted = await self._host.obtain(group, create=False)
        except ApiError as error:
            return LeaveAnswer(error.code)
        if hosted is None:
            return LeaveAnswer(ErrorCode.NONE, tuple((member, ErrorCode.UNKNOWN_MEMBER_ID) for member in members))
        return hosted.leave(members)

    # Administration

    async def describe(self, groups: Sequence[str]) -> list[GroupDescription]:
        """The state and the members of each group; each description has its own error."""
        return await gather([self._admin.describe(group) for group in groups])

    async def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        """The groups of this broker. Raises ``ApiError`` (COORDINATOR_LOAD_IN_PROGRESS)."""
        return await self._admin.list_groups(states, types)

    async def delete(self, groups: Sequence[str]) -> Mapping[str, ErrorCode]:
        """Delete groups without members, with their offsets."""
        names = list(dict.fromkeys(groups))
        return dict(zip(names, await gather([self._admin.delete(group) for group in names]), strict=True))

    # Offsets

    async def commit_offsets(self, request: OffsetCommitRequest) -> OffsetErrors:
        """Commit offsets; an error of the whole request is returned for each of its partitions."""
        return await self._offsets.commit(request)

    async def txn_commit_offsets(self, request: TxnOffsetCommitRequest) -> OffsetErrors:
        """Stage offsets of a transaction; an error of the whole request is returned for each of its partitions."""
        if not request.group:
            return dict.fromkeys(request.offsets, ErrorCode.INVALID_GROUP_ID)
        return await self._offsets.txn_commit(request)

    async def fetch_offsets(self, request: OffsetFetchRequest) -> FetchedOffsets:
        """Committed offsets. Raises ``ApiError`` for the request as a whole."""
        return await self._offsets.fetch(request)

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetErrors:
        """Delete offsets, and an empty group with its last offset.

        Raises ``ApiError`` (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP …) for the request as a whole.
        """
        self._check_name(request.group)
        return await self._admin.delete_offsets(request)

    # Inside

    @staticmethod
    def _check_name(group: str) -> None:
        """Refuse the empty name: such a group can have offsets, but no members. Raises ``ApiError``."""
        if not group:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, _INVALID)

    def _claimed(self, group: str) -> None:
        self._manager.forget(group)
        self._old.follow(group)

    async def _refuse_beside_old_consumers(self, hosted: CoordinatedGroup) -> None:
        """Refuse modern members beside old consumers, because both would read every partition."""
        if hosted.core.members:
            return
        try:
            old = await self._old.live(hosted.core.name)
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None
        if old:
            log.warning(
                "group %s: a member was refused, because ZooKeeper consumers live in the group: %s. "
                "Stop them first, or give the new consumers a group of their own",
                hosted.core.name, ", ".join(old),
            )  # fmt: skip
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _old_consumers_found(self, group: str, ids: Sequence[str]) -> None:
        hosted = self._host.hosted.get(group)
        if hosted is not None and hosted.core.members:
            log.warning(
                "group %s has %d members that are coordinated here, and ZooKeeper consumers besides (%s): "
                "both read the same partitions. Stop the ones or the others",
                group, len(hosted.core.members), ", ".join(ids),
            )  # fmt: skip

    async def _expire(self) -> None:
        try:
            await self._admin.expire()
        except ZkError as error:
            log.info("expiring offsets: %s", error)
        finally:
            if self._expiry is not None:
                self.start()


def limits_of(config: Config) -> GroupLimits:
    """The limits of groups that ``config`` sets."""
    return GroupLimits(
        config["group.min.session.timeout.ms"],
        config["group.max.session.timeout.ms"],
        config["group.initial.rebalance.delay.ms"],
        config["group.max.size"],
    )
