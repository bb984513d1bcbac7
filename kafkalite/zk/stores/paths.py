"""Reads that allow for missing znodes, and persistent paths that are created if they are missing.

Answers to: ``KafkaZkClient.{createTopLevelPaths,createRecursive,makeSurePersistentPathExists}``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.common.tasks import gather
from kafkalite.zk.zk_client import Check, NodeExistsError, NoNodeError, Watch, ZkClient, ZnodeStat
from kafkalite.zk.znodes.cluster import PERSISTENT_PATHS


async def ensure_paths(client: ZkClient) -> None:
    """Create what every broker relies on: ``/brokers/ids``, ``/config/changes`` and so on."""
    await gather(ensure(client, path) for path in PERSISTENT_PATHS)


async def ensure(client: ZkClient, path: str) -> None:
    """Create ``path`` and its parents as empty persistent znodes, unless they exist."""
    try:
        await client.create(path)
    except NodeExistsError:
        return
    except NoNodeError:
        await ensure(client, path.rpartition("/")[0])
        await ensure(client, path)


async def set_or_create(client: ZkClient, path: str, data: bytes) -> None:
    """Write ``path`` regardless of its version, creating it and its parents where they are missing."""
    while True:
        try:
            await client.set(path, data)
            return
        except NoNodeError:
            await ensure(client, path.rpartition("/")[0])
        try:
            await client.create(path, data)
            return
        except NodeExistsError:
            continue


async def read(client: ZkClient, path: str, watch: Watch | None = None) -> tuple[bytes, ZnodeStat] | None:
    """Data and stat, or ``None`` where there is no such znode (``watch`` is then not set)."""
    try:
        return await client.get(path, watch)
    except NoNodeError:
        return None


async def read_or_watch(client: ZkClient, path: str, watch: Watch | None) -> tuple[bytes, ZnodeStat] | None:
    """Data and stat, or ``None`` where there is no such znode; ``watch`` sees the next change either way."""
    while True:
        found = await read(client, path, watch)
        if found is not None or watch is None or await client.exists(path, watch) is None:
            return found


async def children(client: ZkClient, path: str) -> list[str]:
    """Names of the children; none where there is no such znode."""
    try:
        return await client.get_children(path)
    except NoNodeError:
        return []


async def children_or_watch(client: ZkClient, path: str, watch: Watch | None) -> list[str]:
    """Names of the children, none where there is no such znode; ``watch`` sees the next change either way."""
    while True:
        try:
            return await client.get_children(path, watch)
        except NoNodeError:
            if watch is None or await client.exists(path, watch) is None:
                return []


async def children_of_ensured(client: ZkClient, path: str, watch: Watch | None) -> list[str]:
    """Names of the children of a container, which is created where it is missing; ``watch`` sees the next one."""
    try:
        return await client.get_children(path, watch)
    except NoNodeError:
        await ensure(client, path)
        return await client.get_children(path, watch)


async def catch_up(client: ZkClient, path: str) -> None:
    """Return when reads of this session see all writes before the call, and no earlier write of it is outstanding.

    A transaction, even one that changes nothing, is ZooKeeper's leader's to decide, and the session's server answers it
    once it has applied what came before (as ``sync`` does). ``path`` is any znode that exists.
    """
    await client.multi([Check(path, -1)])
