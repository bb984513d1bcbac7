"""Removal of what groups keep of a deleted topic: a new topic of the same name must not be read from an old offset.

Answers to: ``GroupCoordinator.handleDeletedPartitions``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafkalite.common.tasks import gather
from kafkalite.zk.stores.paths import children, read
from kafkalite.zk.zk_client import Delete, Op, SetData, ZkClient
from kafkalite.zk.znodes import consumers, offsets
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.names import encode_name

_AT_ONCE = 200
_KINDS = ("owners", "offsets", "commits")


async def ops_forget_topic(client: ZkClient, topic: str) -> list[Op]:
    """The operations that remove what every group keeps of ``topic``, children first."""
    # Names are used as they are, never decoded: ZooKeeper consumers write names that we would encode otherwise.
    groups = [f"{consumers.CONSUMERS}/{name}" for name in await children(client, consumers.CONSUMERS)]
    ops: list[Op] = []
    for start in range(0, len(groups), _AT_ONCE):
        some = groups[start : start + _AT_ONCE]
        ops += await _ops_kept(client, some, topic)
        for staged in await gather(_ops_staged(client, group, topic) for group in some):
            ops += staged
    return ops


async def _ops_kept(client: ZkClient, groups: Sequence[str], topic: str) -> list[Op]:
    above = [f"{group}/{kind}/{encode_name(topic)}" for group in groups for kind in _KINDS]
    found = await gather(client.exists(path) for path in above)
    kept = [path for path, stat in zip(above, found, strict=True) if stat is not None]
    ops: list[Op] = []
    for parent, names in zip(kept, await gather(children(client, path) for path in kept), strict=True):
        ops += [Delete(f"{parent}/{name}") for name in names]
        ops.append(Delete(parent))
    return ops


async def _ops_staged(client: ZkClient, group: str, topic: str) -> list[Op]:
    """The same for offsets that transactions have staged, against the versions that were read."""
    ops: list[Op] = []
    for name in await children(client, f"{group}/staged"):
        path = f"{group}/staged/{name}"
        found = await read(client, path)
        if found is None:
            continue
        try:
            staged = offsets.decode_staged(path, found[0])
        except MalformedZnodeError:
            continue  # its readers log that it is malformed
        others = {tp: value for tp, value in staged.offsets.items() if tp.topic != topic}
        if not others:
            ops.append(Delete(path, found[1].version))
        elif len(others) < len(staged.offsets):
            ops.append(SetData(path, offsets.encode_staged(replace(staged, offsets=others)), found[1].version))
    return ops
