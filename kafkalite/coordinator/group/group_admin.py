"""Lists, describes and deletes groups, and removes expired offsets and the groups that they leave empty.

Answers to: ``kafka.coordinator.group.GroupCoordinator.{handleListGroups,handleDescribeGroup,handleDeleteGroups}`` and
``GroupMetadataManager.cleanupGroupMetadata``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.coordinated_group import CoordinatedGroup
from kafkalite.coordinator.group.group_metadata_manager import GroupMetadataManager
from kafkalite.coordinator.group.group_offsets import GroupOffsets
from kafkalite.coordinator.group.old_consumers import OldConsumers
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import GroupDescription, GroupListing, OffsetErrors
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
        groups: GroupMetadataManager,
        store: GroupStore,
        offsets: OffsetManager,
        group_offsets: GroupOffsets,
        old: OldConsumers,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._groups = groups
        self._store = store
        self._offsets = offsets
        self._group_offsets = group_offsets
        self._old = old
        self._clock = clock

    async def describe(self, groups: Sequence[str]) -> list[GroupDescription]:
        """The state and the members of each group, each with its own error; a group that does not exist is Dead."""
        return await gather([self._describe(group) for group in groups])

    async def _describe(self, group: str) -> GroupDescription:
        try:
            coordinated = await self._groups.obtain(group, create=False)
            if coordinated is None or not await self._is_something(coordinated):
                return GroupDescription(group, state=GroupState.DEAD.value)
        except ApiError as error:
            return GroupDescription(group, error.code)
        return coordinated.core.description()

    async def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        """The groups that this broker coordinates, and those without a coordinator that it would claim.

        The filters ignore case; an empty filter accepts every group. Raises :class:`ApiError`
        (COORDINATOR_LOAD_IN_PROGRESS) while ZooKeeper is away.
        """
        if types and CLASSIC not in (kind.lower() for kind in types):
            return []
        found = [coordinated.core.listing() for coordinated in self._groups.coordinated.values()]
        try:
            found += await gather([self._unclaimed(name) for name in await self._ours_unclaimed()])
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None
        wanted = {state.lower() for state in states}
        return [each for each in found if not wanted or each.state.lower() in wanted]

    async def member_counts(self) -> dict[str, int]:
        """The number of members of each group of :meth:`list_groups`; 0 for those without a coordinator.

        Raises ``ZkError``.
        """
        counts = {name: len(coordinated.core.members) for name, coordinated in self._groups.coordinated.items()}
        return dict.fromkeys(await self._ours_unclaimed(), 0) | counts

    async def delete(self, groups: Sequence[str]) -> Mapping[str, ErrorCode]:
        """Delete groups without members, with their offsets."""
        names = list(dict.fromkeys(groups))
        return dict(zip(names, await gather([self._delete(group) for group in names]), strict=True))

    async def _delete(self, group: str) -> ErrorCode:
        try:
            coordinated = await self._groups.obtain(group, create=False)
            if coordinated is None or not await self._is_something(coordinated):
                return ErrorCode.GROUP_ID_NOT_FOUND
            if await self._has_members(coordinated):
                return ErrorCode.NON_EMPTY_GROUP
            await self._remove(coordinated, with_offsets=True)
        except ApiError as error:
            return error.code
        except ZkError as error:
            log.warning("group %s could not be deleted: %s", group, error)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.info("group %s is deleted", group)
        return ErrorCode.NONE

    async def delete_offsets(self, group: str, partitions: Sequence[TopicPartition]) -> OffsetErrors:
        """Delete offsets, and a group without members with its last offset.

        Raises :class:`ApiError` (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP …) for the request as a whole.
        """
        answers = await self._group_offsets.delete(group, partitions)
        coordinated = self._groups.coordinated.get(group)
        if coordinated is not None and ErrorCode.NONE in answers.values():
            try:
                await self._remove_if_nothing_is_left(coordinated)
            except (ApiError, ZkError) as error:
                # The offsets are deleted as requested; the next expiration removes the group.
                log.info("group %s: its last offset was deleted, the group stays for now: %s", group, error)
        return answers

    async def expire(self) -> None:
        """Remove expired offsets, and groups without members and offsets. Raises ``ZkError``."""
        for name in [*self._groups.coordinated, *await self._ours_unclaimed()]:
            claimed_before = name in self._groups.coordinated
            try:
                coordinated = await self._groups.obtain(name, create=False)
                if coordinated is None or await self._expire(coordinated) or claimed_before or coordinated.core.members:
                    continue
                # No client has asked for the group, so this broker need not keep its claim.
                await self._groups.release(coordinated)
            except (ConnectionLostError, SessionExpiredError):
                raise
            except (ApiError, ZkError) as error:
                log.info("offsets of group %s were not looked at: %s", name, error)

    # Inside

    async def _expire(self, coordinated: CoordinatedGroup) -> bool:
        """Remove one group's expired offsets; returns whether the group was removed with them."""
        core = coordinated.core
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
                core.name, coordinated.claim, lambda topic: topic in topics, self._clock.time_ms(), empty_since
            )
        except ClaimLostError:
            coordinated.lost()
            raise
        if gone:
            log.info("group %s: %d offsets are past their retention and removed", core.name, len(gone))
        return await self._remove_if_nothing_is_left(coordinated)

    async def _remove_if_nothing_is_left(self, coordinated: CoordinatedGroup) -> bool:
        """Remove the group if it has neither members nor offsets; returns whether it was removed."""
        name = coordinated.core.name
        if await self._has_members(coordinated) or await self._group_offsets.any(name):
            return False
        # Keep offsets that come meanwhile: old consumers, and commits of version 0, do not ask this broker.
        await self._remove(coordinated, with_offsets=False)
        log.info("group %s has neither members nor offsets any more and is removed", name)
        return True

    async def _is_something(self, coordinated: CoordinatedGroup) -> bool:
        """Whether the group exists; a claim alone, without members or offsets, does not make a group."""
        core = coordinated.core
        if core.generation or not core.is_vacant:
            return True
        return await self._old_consumers(coordinated) or await self._group_offsets.any(core.name)

    async def _has_members(self, coordinated: CoordinatedGroup) -> bool:
        if await self._old_consumers(coordinated):
            return True
        return not coordinated.core.is_vacant

    async def _old_consumers(self, coordinated: CoordinatedGroup) -> bool:
        try:
            return bool(await self._old.live(coordinated.core.name))
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None

    async def _remove(self, coordinated: CoordinatedGroup, *, with_offsets: bool) -> None:
        async def remove(claim: Claim) -> None:
            await self._offsets.delete_group(coordinated.core.name, claim, with_offsets=with_offsets)

        if not coordinated.core.is_vacant:
            # A member joined while this broker waited for ZooKeeper.
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        await self._groups.delete(coordinated, remove)

    async def _ours_unclaimed(self) -> list[str]:
        """The groups without a coordinator that placement gives to this broker."""
        names = [name for name in await self._offsets.groups() if name not in self._groups.coordinated]
        found = await gather([self._groups.find(name) for name in names])
        # A claim of this broker's former session counts as unclaimed, too; this broker will claim the group again.
        return [name for name, broker in zip(names, found, strict=True) if broker == self._broker_id]

    async def _unclaimed(self, name: str) -> GroupListing:
        generation, has_members = await self._store.overview(name)
        state = GroupState.STABLE if has_members else GroupState.EMPTY
        return GroupListing(name, generation.protocol_type, state.value)
