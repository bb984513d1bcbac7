"""Removes offsets and groups: on request, and offsets whose retention has ended.

Answers to: ``GroupMetadataManager.cleanupGroupMetadata`` and ``GroupMetadata.removeExpiredOffsets``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.claims import Claim, write_claimed, write_each_claimed
from kafkalite.zk.stores.fenced_write import OpResult
from kafkalite.zk.stores.offsets import StoredOffset
from kafkalite.zk.stores.paths import children
from kafkalite.zk.zk_client import (
    BadVersionError,
    ConnectionLostError,
    Delete,
    NoNodeError,
    NotEmptyError,
    Op,
    SessionExpiredError,
    ZkClient,
    ZkError,
)
from kafkalite.zk.znodes import consumers, offsets
from kafkalite.zk.znodes.claims import COORDINATOR_CLAIM
from kafkalite.zk.znodes.offsets import NO_TIMESTAMP

ANY_VERSION = -1
_TRIES = 5
"""Attempts at the removal of a group to whose znodes another client adds meanwhile."""


def past_retention(
    stored: Mapping[TopicPartition, StoredOffset], now_ms: int, retention_ms: int, empty_since_ms: int | None
) -> list[TopicPartition]:
    """The partitions of ``stored`` whose offsets have expired.

    An offset expires at the time that its commit names; without one, ``retention_ms`` after the commit, or after the
    group lost its last member, if that was later. The time of a bare number is that of its znode's last write.
    """
    expired = []
    for tp, found in stored.items():
        value = found.value
        if value.expire_timestamp_ms != NO_TIMESTAMP:
            is_expired = now_ms >= value.expire_timestamp_ms
        else:
            since = found.mtime_ms if value.commit_timestamp_ms == NO_TIMESTAMP else value.commit_timestamp_ms
            is_expired = now_ms - max(since, empty_since_ms or 0) >= retention_ms
        if is_expired:
            expired.append(tp)
    return expired


class OffsetRemoval:
    """Removes offsets and groups under the claims of their coordinators."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def remove(
        self, group: str, versions: Mapping[TopicPartition, int], claim: Claim
    ) -> dict[TopicPartition, ErrorCode | None]:
        """Remove each offset whose znode has the given version; ``None`` for an offset that was written since.

        Raises ``ClaimLostError``.
        """
        wanted = list(versions)
        paths = [path for tp in wanted for path in (consumers.offset_path(group, tp), offsets.commit_path(group, tp))]
        try:
            stats = await gather(self._client.exists(path) for path in paths)
            existing = {path for path, stat in zip(paths, stats, strict=True) if stat is not None}
            deletions: list[list[Op]] = []
            for tp in wanted:
                offset, commit = consumers.offset_path(group, tp), offsets.commit_path(group, tp)
                ops: list[Op] = []
                if offset in existing:
                    ops.append(Delete(offset, versions[tp]))
                if commit in existing:
                    ops.append(Delete(commit))
                deletions.append(ops)
            results = await write_claimed(self._client, claim, deletions)
            await self._remove_empty({path.rpartition("/")[0] for path in paths}, claim)
        except SessionExpiredError:
            raise claim.lost() from None
        except ConnectionLostError:
            return dict.fromkeys(wanted, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return {tp: _outcome(result) for tp, result in zip(wanted, results, strict=True)}

    async def remove_group(self, group: str, claim: Claim, *, with_offsets: bool = True) -> None:
        """Remove all znodes of ``group``, its claim and epoch last.

        Raises ``NotEmptyError`` if a ZooKeeper consumer joined meanwhile, or (unless ``with_offsets``) if an offset was
        committed or staged; then no offset is removed.
        """
        base = consumers.group_path(group)
        # Znodes of ZooKeeper consumers first: the group stays if one of them is a member.
        of_consumers = [*await self._containers(f"{base}/owners"), f"{base}/ids"]
        await write_each_claimed(self._client, claim, map(Delete, of_consumers))
        last: list[Op] = [
            Delete(COORDINATOR_CLAIM.epoch_path(base)),
            Delete(COORDINATOR_CLAIM.claim_path(base)),
            Delete(base),
        ]
        keep = {COORDINATOR_CLAIM.epoch_path(base), COORDINATOR_CLAIM.claim_path(base)}
        for attempt in range(_TRIES):
            below = [path for path in await self._below(base) if path not in keep]
            if not with_offsets and any(_is_offset(path.removeprefix(base)) for path in below):
                raise NotEmptyError(base)
            await write_each_claimed(self._client, claim, map(Delete, below))
            [result] = await write_claimed(self._client, claim, [last])
            if not isinstance(result, ZkError):
                return
            if not isinstance(result, NotEmptyError) or attempt == _TRIES - 1:
                raise result

    async def _containers(self, path: str) -> list[str]:
        """``path`` and its children, children first."""
        return [*(f"{path}/{name}" for name in await children(self._client, path)), path]

    async def _below(self, path: str) -> list[str]:
        """All paths below ``path``, children first."""
        names = await children(self._client, path)
        below = await gather(self._below(f"{path}/{name}") for name in names)
        return [each for name, found in zip(names, below, strict=True) for each in (*found, f"{path}/{name}")]

    async def _remove_empty(self, containers: Iterable[str], claim: Claim) -> None:
        """Remove the ``containers`` that have become empty; the next commit creates them again."""
        listed = sorted(containers)
        stats = await gather(self._client.exists(path) for path in listed)
        names = await gather(children(self._client, path) for path in listed)
        empty = [path for path, stat, found in zip(listed, stats, names, strict=True) if stat is not None and not found]
        await write_claimed(self._client, claim, [[Delete(path)] for path in empty])


def _is_offset(below: str) -> bool:
    """Whether ``below``, a path relative to its group, is a committed or staged offset and not a container."""
    return below.count("/") == {"offsets": 3, "staged": 2}.get(below.split("/")[1])


def _outcome(result: list[OpResult] | ZkError) -> ErrorCode | None:
    if isinstance(result, BadVersionError):
        return None
    if isinstance(result, ZkError) and not isinstance(result, NoNodeError):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE
