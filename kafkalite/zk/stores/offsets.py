"""Offsets of groups in ZooKeeper: how they are read, and the operations that write them.

Answers to: ``kafka.zk.KafkaZkClient`` (``getConsumerOffset``, ``setOrCreateConsumerOffset``, ``deleteTopic…Offset``).
Reactor shell.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.zk.port import NoNodeError, Watch, ZkClient, ZnodeStat
from kafkalite.zk.stores.paths import children, read
from kafkalite.zk.znodes import consumers, offsets
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.names import decode_name
from kafkalite.zk.znodes.offsets import OffsetAndMetadata

log = logging.getLogger(__name__)
_TRIES = 5


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """What a group has of a partition: its value, and of the number's znode mzxid, version, last write."""

    value: OffsetAndMetadata
    mzxid: int
    version: int
    mtime_ms: int = 0


class OffsetStore:
    """Reads ``/consumers/<group>/{offsets,commits}``."""

    def __init__(self, client: ZkClient) -> None:
        self.client = client

    async def groups(self) -> list[str]:
        """All groups."""
        return sorted(map(decode_name, await children(self.client, consumers.CONSUMERS)))

    async def names(self, path: str, watch: Watch | None = None) -> list[str]:
        """Children of ``path``, none where it does not exist; ``watch`` sees the next change either way."""
        while True:
            try:
                return await self.client.get_children(path, watch)
            except NoNodeError:
                if watch is None or await self.client.exists(path, watch) is None:
                    return []

    async def data(self, path: str, watch: Watch | None = None) -> tuple[bytes, ZnodeStat] | None:
        """Data and stat, or ``None`` where there is no such znode; ``watch`` sees the next change either way."""
        while True:
            found = await read(self.client, path, watch)
            if found is not None or watch is None or await self.client.exists(path, watch) is None:
                return found

    async def offset(self, group: str, tp: TopicPartition, watch: Watch | None = None) -> StoredOffset | None:
        """What ``group`` has of ``tp``; ``watch`` sees the next change either way. Raises ``MalformedZnodeError``.

        The number's znode alone is watched: a commit that counts is written in the same transaction.
        """
        path, beside = consumers.offset_path(group, tp), offsets.commit_path(group, tp)
        for _ in range(_TRIES):
            # Both under way at once, and the number first: had it been read last, it might be newer than the commit
            # that was read, and no event would ever say so.
            number, commit = await gather([self.data(path, watch), read(self.client, beside)])
            if number is None:
                return None
            data, stat = number
            value = OffsetAndMetadata(consumers.decode_offset(path, data))
            if commit is None or commit[1].mzxid < stat.mzxid:
                break
            if commit[1].mzxid == stat.mzxid:
                value = _commit(beside, commit[0], value)
                break
            # A commit came in between.
        return StoredOffset(value, stat.mzxid, stat.version, stat.mtime_ms)


def _commit(path: str, data: bytes, number: OffsetAndMetadata) -> OffsetAndMetadata:
    try:
        return offsets.decode_commit(path, data, number.offset)
    except MalformedZnodeError as error:
        log.error("the number beside it is used alone: %s", error)
        return number
