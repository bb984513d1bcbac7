"""Offsets of groups in ZooKeeper: how they are read, and the operations that write them.

Answers to: ``kafka.zk.KafkaZkClient`` (``getConsumerOffset``, ``setOrCreateConsumerOffset``, ``deleteTopic…Offset``).
Reactor shell.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

from kafkalite.common.tasks import gather, gather_in_parts
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.paths import children, read
from kafkalite.zk.zk_client import Watch, ZkClient, ZnodeStat
from kafkalite.zk.znodes import consumers, offsets
from kafkalite.zk.znodes.codec import MalformedZnodeError, decode_name
from kafkalite.zk.znodes.offsets import OffsetAndMetadata

log = logging.getLogger(__name__)
AT_ONCE = 500
"""How many offsets are read at once."""
_TRIES = 5


_Znode = tuple[bytes, ZnodeStat]


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A group's committed offset of one partition, with the mzxid, version and mtime of the number's znode.

    ``order`` says which of two values counts: the mzxid of the write, or of the decision where a transaction brought
    the offset. It is copied here later, when another one may have been decided.
    """

    value: OffsetAndMetadata
    mzxid: int
    version: int
    order: int
    mtime_ms: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """The present state of an offset that is to be written.

    The version of the number's znode (``None``: no znode), its order (as in :class:`StoredOffset`), and whether there
    is a znode for the rest of the commit.
    """

    version: int | None
    order: int
    has_commit: bool


class OffsetStore:
    """Reads ``/consumers/<group>/{offsets,commits}``."""

    def __init__(self, client: ZkClient) -> None:
        self.client = client

    async def exists(self, group: str) -> bool:
        """Whether ``group`` has a znode, without a watch."""
        return await self.client.exists(consumers.group_path(group)) is not None

    async def groups(self) -> list[str]:
        """All groups."""
        return sorted(map(decode_name, await children(self.client, consumers.CONSUMERS)))

    async def offset(self, group: str, tp: TopicPartition, watch: Watch | None = None) -> StoredOffset | None:
        """The offset of ``group`` for ``tp``; ``watch`` sees its next change. Raises ``MalformedZnodeError``.

        The number's znode alone is watched: a commit that counts is written in the same transaction.
        """
        path, beside = consumers.offset_path(group, tp), offsets.commit_path(group, tp)
        for _ in range(_TRIES):
            # Request both at once, and the number first: if it were read last, it might be newer than the commit that
            # was read, and no watch would report that.
            number, commit = await gather([read(self.client, path, watch), read(self.client, beside)])
            if number is None and (watch is None or await self.client.exists(path, watch) is None):
                return None
            if number is not None and (commit is None or commit[1].mzxid <= number[1].mzxid):
                return _stored(path, number, beside, commit)
            # The offset was written between the two reads.
        return None if number is None else _stored(path, number, beside, None)

    async def offsets(self, group: str) -> dict[TopicPartition, StoredOffset]:
        """All offsets of ``group``, without a watch; malformed ones are left out."""
        above = consumers.offsets_path(group)
        names = await children(self.client, above)
        listed = await gather(children(self.client, f"{above}/{name}") for name in names)
        tps = [
            TopicPartition(decode_name(name), int(number))
            for name, numbers in zip(names, listed, strict=True)
            for number in numbers
            if number.isdecimal()
        ]
        found = await gather_in_parts(partial(self._understood, group), tps, AT_ONCE)
        return {tp: stored for tp, stored in zip(tps, found, strict=True) if stored is not None}

    async def has_any(self, group: str) -> bool:
        """Whether ``group`` has an offset, without a watch."""
        above = consumers.offsets_path(group)
        for name in await children(self.client, above):
            if await children(self.client, f"{above}/{name}"):
                return True
        return False

    async def _understood(self, group: str, tp: TopicPartition) -> StoredOffset | None:
        try:
            return await self.offset(group, tp)
        except MalformedZnodeError as error:
            log.error("%s", error)
            return None

    async def standing(self, group: str, tp: TopicPartition) -> Standing:
        """The present znodes of ``tp``, for a writer."""
        path, beside = consumers.offset_path(group, tp), offsets.commit_path(group, tp)
        number, commit = await gather([read(self.client, path), read(self.client, beside)])
        version = None if number is None else number[1].version
        return Standing(version, 0 if number is None else _order(number[1], beside, commit), commit is not None)


def _stored(path: str, number: _Znode, beside: str, commit: _Znode | None) -> StoredOffset:
    data, stat = number
    value = OffsetAndMetadata(consumers.decode_offset(path, data))
    order = _order(stat, beside, commit)
    if commit is not None and commit[1].mzxid == stat.mzxid:
        try:
            value = offsets.decode_commit(beside, commit[0], value.offset)
        except MalformedZnodeError as error:
            log.error("the number beside it is used alone: %s", error)
    return StoredOffset(value, stat.mzxid, stat.version, order, stat.mtime_ms)


def _order(number: ZnodeStat, beside: str, commit: _Znode | None) -> int:
    if commit is None or commit[1].mzxid != number.mzxid:
        return number.mzxid
    try:
        return offsets.decode_decision(beside, commit[0]) or number.mzxid
    except MalformedZnodeError:
        return number.mzxid
