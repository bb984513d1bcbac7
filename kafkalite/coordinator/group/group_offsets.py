"""Offset requests of groups: checks who may commit, fetch and delete offsets.

Answers to: ``kafka.coordinator.group.GroupCoordinator.{handleCommitOffsets,handleTxnCommitOffsets,handleFetchOffsets,
handleDeleteOffsets}``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.coordinated_group import CoordinatedGroup
from kafkalite.coordinator.group.group_metadata import CONSUMER_PROTOCOL_TYPE
from kafkalite.coordinator.group.group_metadata_manager import GroupMetadataManager, check_name
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import (
    FetchedOffsets,
    OffsetCommitRequest,
    OffsetErrors,
    TxnOffsetCommitRequest,
)
from kafkalite.coordinator.offsets.offset_manager import OffsetManager
from kafkalite.zk.stores.claims import ClaimLostError
from kafkalite.zk.zk_client import ZkError


class GroupOffsets:
    """Checks each request against its group, then passes it to the offset manager with the group's claim."""

    def __init__(self, groups: GroupMetadataManager, offsets: OffsetManager) -> None:
        self._groups = groups
        self._offsets = offsets

    async def commit(self, request: OffsetCommitRequest) -> OffsetErrors:
        """Commit offsets; an error of the whole request is returned for each of its partitions."""
        # A client without a generation only stores offsets; that creates the group.
        simple = request.generation < 0
        try:
            coordinated = await self._groups.obtain(request.group, create=simple)
        except ApiError as refused:
            return dict.fromkeys(request.offsets, refused.code)
        if coordinated is None:
            return dict.fromkeys(request.offsets, ErrorCode.ILLEGAL_GENERATION)
        error = coordinated.check_commit(request.member_id, request.generation, request.instance_id)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(request.offsets, error)
        work = self._offsets.commit(request.group, request.offsets, coordinated.claim)
        answers = await self._write(coordinated, request.offsets, work)
        self._groups.stats.commits += list(answers.values()).count(ErrorCode.NONE)
        return answers

    async def txn_commit(self, request: TxnOffsetCommitRequest) -> OffsetErrors:
        """Stage offsets of a transaction; they become the group's offsets when the transaction commits."""
        if not request.group:
            return dict.fromkeys(request.offsets, ErrorCode.INVALID_GROUP_ID)
        try:
            coordinated = await self._groups.obtain(request.group, create=True)
        except ApiError as refused:
            return dict.fromkeys(request.offsets, refused.code)
        assert coordinated is not None
        error = coordinated.check_commit(request.member_id, request.generation, request.instance_id, transactional=True)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(request.offsets, error)
        partitions = request.offsets.keys()
        coordinated.pending_txn_offset_commits.append(partitions)
        try:
            error = await self._offsets.stage(request.group, coordinated.claim, request.producer, request.offsets)
        except ClaimLostError:
            coordinated.lost()
            error = ErrorCode.NOT_COORDINATOR
        except ZkError:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        finally:
            coordinated.pending_txn_offset_commits.remove(partitions)
        return dict.fromkeys(request.offsets, error)

    async def fetch(
        self, group: str, partitions: Sequence[TopicPartition] | None, *, require_stable: bool = False
    ) -> FetchedOffsets:
        """Committed offsets of ``partitions`` (``None``: of all).

        ``require_stable``: UNSTABLE_OFFSET_COMMIT for each partition where a transaction that is not decided has
        committed an offset, or is about to. Raises :class:`ApiError` if the group is not coordinated here or cannot be
        read.
        """
        coordinated = await self._groups.obtain(group, create=False)
        if coordinated is None:
            return {}
        # Before the offsets are read, because those that become durable meanwhile may be missing there. A member of an
        # earlier generation commits them, so the caller would read the same records.
        unstable: set[TopicPartition] = set()
        if require_stable:
            unstable.update(*coordinated.pending_txn_offset_commits)
        try:
            found = await self._offsets.fetch(group, partitions, require_stable=require_stable)
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None
        if unstable:
            wanted = unstable if partitions is None else unstable.intersection(partitions)
            found.update(dict.fromkeys(sorted(wanted), ErrorCode.UNSTABLE_OFFSET_COMMIT))
        return found

    async def delete(self, group: str, partitions: Sequence[TopicPartition]) -> OffsetErrors:
        """Delete offsets; an error for each partition. Raises :class:`ApiError` for the request as a whole."""
        check_name(group)
        coordinated = await self._groups.obtain(group, create=False)
        if coordinated is None or not (coordinated.core.generation or await self.any(group)):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        answers = dict.fromkeys(partitions, ErrorCode.NONE)
        core = coordinated.core
        if core.state is not GroupState.EMPTY:
            if core.protocol_type != CONSUMER_PROTOCOL_TYPE:
                raise ApiError(ErrorCode.NON_EMPTY_GROUP)
            topics = core.subscribed_topics()
            for partition in partitions:
                if topics is None or partition.topic in topics:
                    answers[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        allowed = [partition for partition, error in answers.items() if error is ErrorCode.NONE]
        if allowed:
            work = self._offsets.delete(group, allowed, coordinated.claim)
            deleted = await self._write(coordinated, allowed, work)
            self._groups.stats.deletions += list(deleted.values()).count(ErrorCode.NONE)
            answers.update(deleted)
        return answers

    async def any(self, group: str) -> bool:
        """Whether ``group`` has offsets, staged ones included. Raises :class:`ApiError` while ZooKeeper is away."""
        try:
            return await self._offsets.has_any(group)
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None

    async def _write(
        self, coordinated: CoordinatedGroup, partitions: Iterable[TopicPartition], work: Awaitable[OffsetErrors]
    ) -> OffsetErrors:
        try:
            return await work
        except ClaimLostError:
            coordinated.lost()
            return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR)
        except ZkError:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
