"""Lists, describes and deletes groups, and removes expired offsets and the groups that they leave empty.

Answers to: ``kafka.coordinator.group.GroupCoordinator.{handleListGroups,handleDescribeGroup,handleDeleteGroups}`` and
``GroupMetadataManager.cleanupGroupMetadata``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.coordinator.group.coordinated_group import CoordinatedGroup
from kafkalite.coordinator.group.group_metadata_manager import GroupMetadataManager
from kafkalite.coordinator.group.group_offsets import GroupOffsets
from kafkalite.coordinator.group.old_consumers import OldConsumers
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import (
    GroupDescription,
    GroupListing,
    OffsetDeleteRequest,
    OffsetErrors,
)
from kafkalite.coordinator.offsets.offset_manager import OffsetManager
from kafkalite.zk.stores.claims import Claim, ClaimLostError
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError, ZkError

log = logging.getLogger(__name__)
CLASSIC = "classic"


class GroupAdmin:
    """Serves administrators' requests, and expires offsets."""

    def __init__(
        self,
        broker_id: int,
        host: GroupMetadataManager,
        store: GroupStore,
        offsets: OffsetManager,
        group_offsets: GroupOffsets,
        old: OldConsumers,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._host = host
        self._store = store
        self._offsets = offsets
        self._group_offsets = group_offsets
        self._old = old
        self._clock = clock

    async def describe(self, group: str) -> GroupDescription:
        """Describe one group; the state of a group that does not exist is Dead."""
        try:
            hosted = await self._host.obtain(group, create=False)
            if hosted is None or not await self._is_something(hosted):
                return GroupDescription(group, state=GroupState.DEAD.value)
        except ApiError as error:
            return GroupDescription(group, error.code)
        return hosted.core.description()

    async def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[GroupListing]:
        """The groups that this broker coordinates, and those without a coordinator that it would claim.

        The filters ignore case; an empty filter accepts every group. Raises :class:`ApiError` while ZooKeeper is away.
        """
        if types and CLASSIC not in (kind.lower() for kind in types):
            return []
        found = [hosted.core.listing() for hosted in self._host.hosted.values()]
        try:
            found += await gather([self._unclaimed(name) for name in await self._ours_unclaimed()])
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None
        wanted = {state.lower() for state in states}
        return [each for each in found if not wanted or each.state.lower() in wanted]

    async def delete(self, group: str) -> ErrorCode:
        """Delete a group without members, with its offsets."""
        try:
            hosted = await self._host.obtain(group, create=False)
            if hosted is None or not await self._is_something(hosted):
                return ErrorCode.GROUP_ID_NOT_FOUND
            if await self._has_members(hosted):
                return ErrorCode.NON_EMPTY_GROUP
            await self._remove(hosted, with_offsets=True)
        except ApiError as error:
            return error.code
        except ZkError as error:
            log.warning("group %s could not be deleted: %s", group, error)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.info("group %s is deleted", group)
        return ErrorCode.NONE

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetErrors:
        """Delete offsets, and a group without members with its last offset. Raises :class:`ApiError`."""
        answers = await self._group_offsets.delete(request)
        hosted = self._host.hosted.get(request.group)
        if hosted is not None and ErrorCode.NONE in answers.values():
            try:
                await self._remove_if_nothing_is_left(hosted)
            except (ApiError, ZkError) as error:
                # The offsets are deleted as requested; the next expiration removes the group.
                log.info("group %s: its last offset was deleted, the group stays for now: %s", request.group, error)
        return answers

    async def expire(self) -> None:
        """Remove expired offsets, and groups without members and offsets. Raises ``ZkError``."""
        for name in [*self._host.hosted, *await self._ours_unclaimed()]:
            claimed_before = name in self._host.hosted
            try:
                hosted = await self._host.obtain(name, create=False)
                if hosted is None or await self._expire(hosted) or claimed_before or hosted.core.members:
                    continue
                # No client has asked for the group, so this broker need not keep its claim.
                await self._host.release(hosted)
            except (ConnectionLostError, SessionExpiredError):
                raise
            except (ApiError, ZkError) as error:
                log.info("offsets of group %s were not looked at: %s", name, error)

    # Inside

    async def _expire(self, hosted: CoordinatedGroup) -> bool:
        """Remove one group's expired offsets; returns whether the group was removed with them."""
        core = hosted.core
        if core.state is GroupState.EMPTY:
            topics = frozenset[str]()
        elif core.state is GroupState.STABLE:
            subscribed = core.subscribed_topics()
            if subscribed is None:
                return False
            topics = frozenset(subscribed)
        else:
            return False
        empty_since = core.empty_since_ms if core.state is GroupState.EMPTY else None
        try:
            gone = await self._offsets.expire(
                core.name, hosted.claim, lambda topic: topic in topics, self._clock.time_ms(), empty_since
            )
        except ClaimLostError:
            hosted.lost()
            raise
        if gone:
            log.info("group %s: %d offsets are past their retention and removed", core.name, len(gone))
        return await self._remove_if_nothing_is_left(hosted)

    async def _remove_if_nothing_is_left(self, hosted: CoordinatedGroup) -> bool:
        """Remove the group if it has neither members nor offsets; returns whether it was removed."""
        name = hosted.core.name
        if await self._has_members(hosted) or await self._group_offsets.any(name):
            return False
        # Keep offsets that come meanwhile: old consumers, and commits of version 0, do not ask this broker.
        await self._remove(hosted, with_offsets=False)
        log.info("group %s has neither members nor offsets any more and is removed", name)
        return True

    async def _is_something(self, hosted: CoordinatedGroup) -> bool:
        """Whether the group exists; a claim alone, without members or offsets, does not make a group."""
        core = hosted.core
        if core.generation or not core.is_vacant:
            return True
        return await self._old_consumers(hosted) or await self._group_offsets.any(core.name)

    async def _has_members(self, hosted: CoordinatedGroup) -> bool:
        if await self._old_consumers(hosted):
            return True
        return not hosted.core.is_vacant

    async def _old_consumers(self, hosted: CoordinatedGroup) -> bool:
        try:
            return bool(await self._old.live(hosted.core.name))
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None

    async def _remove(self, hosted: CoordinatedGroup, *, with_offsets: bool) -> None:
        async def remove(claim: Claim) -> None:
            await self._offsets.delete_group(hosted.core.name, claim, with_offsets=with_offsets)

        if not hosted.core.is_vacant:
            # A member joined while this broker waited for ZooKeeper.
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        await self._host.delete(hosted, remove)

    async def _ours_unclaimed(self) -> list[str]:
        """The groups without a coordinator that placement gives to this broker."""
        names = [name for name in await self._offsets.groups() if name not in self._host.hosted]
        found = await gather([self._host.find(name) for name in names])
        # A claim of this broker's former session counts as unclaimed, too; this broker will claim the group again.
        return [name for name, broker in zip(names, found, strict=True) if broker == self._broker_id]

    async def _unclaimed(self, name: str) -> GroupListing:
        generation, has_members = await self._store.overview(name)
        state = GroupState.STABLE if has_members else GroupState.EMPTY
        return GroupListing(name, generation.protocol_type, state.value)
