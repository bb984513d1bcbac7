"""The known znodes of groups' offsets, by which a commit creates a znode or sets it.

Answers to: ``KafkaZkClient.setOrCreateConsumerOffset``, which tries one after the other. Reactor shell.

The layout is a guess that a write may prove wrong, because any client may remove a znode, or create one. Then the
topic's layout is read again, and the write is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.fenced_write import FencedWrite, WriteFence, write_fenced
from kafkalite.zk.zk_client import Create, NoNodeError, Op, SetData, ZkClient
from kafkalite.zk.znodes import consumers, offsets
from kafkalite.zk.znodes.codec import encode_name
from kafkalite.zk.znodes.offsets import OffsetAndMetadata

MAX_PARTITIONS = 200_000
"""How many partitions are remembered before all is forgotten."""


@dataclass(frozen=True, slots=True)
class OffsetWrite:
    """A commit of one partition. ``plain``: the number alone, as version 0 of the protocol has it."""

    fence: WriteFence
    group: str
    tp: TopicPartition
    value: OffsetAndMetadata
    plain: bool


class _Topic:
    """The paths of one group's offsets of one topic, and the partitions that have znodes there."""

    __slots__ = ("commits", "commits_at", "numbers", "numbers_at")

    def __init__(self, group: str, topic: str) -> None:
        name = encode_name(topic)
        self.numbers_at = f"{consumers.offsets_path(group)}/{name}"
        self.commits_at = f"{offsets.commits_path(group)}/{name}"
        self.numbers: set[int] = set()
        self.commits: set[int] = set()


class OffsetLayout:
    """Makes the operations of commits, and the containers that they need."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._groups: dict[str, dict[str, _Topic]] = {}
        self._count = 0

    async def prepare(self, writes: Iterable[OffsetWrite]) -> None:
        """Read the unknown layouts, and create missing containers under the fences of ``writes``.

        Raises ``ConnectionLostError``; a fence that does not hold shows in the writes themselves.
        """
        if self._count > MAX_PARTITIONS:
            self._groups.clear()
            self._count = 0
        writes = list(writes)
        # Loop, because a concurrent failed write may invalidate what is known while this one reads.
        while new := {(each.group, each.tp.topic): each for each in writes if not self._known(each)}:
            await gather(self._learn(write) for write in new.values())

    def ops(self, write: OffsetWrite) -> list[Op]:
        """The operations of a write that was prepared."""
        topic = self._groups[write.group][write.tp.topic]
        partition = write.tp.partition
        number = consumers.encode_offset(write.value.offset)
        path = f"{topic.numbers_at}/{partition}"
        ops: list[Op] = [SetData(path, number) if partition in topic.numbers else Create(path, number)]
        if not write.plain:
            path, commit = f"{topic.commits_at}/{partition}", offsets.encode_commit(write.value)
            ops.append(SetData(path, commit) if partition in topic.commits else Create(path, commit))
        return ops

    def wrote(self, write: OffsetWrite) -> None:
        """The write has taken effect: note the znodes that it created."""
        topic = self._groups.get(write.group, {}).get(write.tp.topic)
        if topic is None:
            return
        self._count += write.tp.partition not in topic.numbers
        topic.numbers.add(write.tp.partition)
        if not write.plain:
            topic.commits.add(write.tp.partition)

    def doubt(self, write: OffsetWrite) -> None:
        """The write failed because the layout is outdated: forget the topic's."""
        topic = self._groups.get(write.group, {}).pop(write.tp.topic, None)
        if topic is not None:
            self._count -= len(topic.numbers)

    def forget(self, group: str) -> None:
        """Drop what is known of ``group``."""
        for topic in self._groups.pop(group, {}).values():
            self._count -= len(topic.numbers)

    def _known(self, write: OffsetWrite) -> bool:
        return write.tp.topic in self._groups.get(write.group, ())

    async def _learn(self, write: OffsetWrite) -> None:
        topic = _Topic(write.group, write.tp.topic)
        numbers, commits = await gather([self._partitions(topic.numbers_at), self._partitions(topic.commits_at)])
        missing = [topic.numbers_at] if numbers is None else []
        if commits is None and not write.plain:
            missing.append(topic.commits_at)
        for path in missing:
            await create_container(self._client, path, write.fence)
        topic.numbers, topic.commits = numbers or set(), commits or set()
        self._count += len(topic.numbers)
        self._groups.setdefault(write.group, {})[write.tp.topic] = topic

    async def _partitions(self, path: str) -> set[int] | None:
        try:
            return {int(name) for name in await self._client.get_children(path) if name.isdecimal()}
        except NoNodeError:
            return None


async def create_container(client: ZkClient, path: str, fence: WriteFence) -> None:
    """Create ``path``, its parent and the group, each by itself, because another broker may create them, too."""
    parent = path.rpartition("/")[0]
    above = [parent.rpartition("/")[0], parent, path]
    there = await gather(client.exists(each) for each in above)
    missing = [each for each, stat in zip(above, there, strict=True) if stat is None]
    await write_fenced(client, [FencedWrite(fence, [Create(each)]) for each in missing])
