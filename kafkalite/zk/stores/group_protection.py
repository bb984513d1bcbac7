"""Protects the znodes of groups from other clients of ZooKeeper, if brokers protect the tree.

Answers to: nothing in Kafka, whose groups' states stand in a topic. Reactor shell.

Groups may be created by ZooKeeper consumers, which own them then and leave them open to every client of ZooKeeper. The
coordinator takes such a group over before it claims it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kafkalite.common.tasks import gather
from kafkalite.zk.stores.paths import children, ensure
from kafkalite.zk.zk_client import (
    Create,
    MultiError,
    NodeExistsError,
    NoNodeError,
    NotAuthorizedError,
    Op,
    ZkClient,
)
from kafkalite.zk.znode_acls import OLD_CONSUMERS, Acl, ZnodeAcls, access_to

log = logging.getLogger(__name__)


class GroupProtection:
    """Creates and takes over the znodes of groups on ``client``, whose lists ``acls`` reads and writes."""

    def __init__(self, client: ZkClient, acls: ZnodeAcls) -> None:
        self._client = client
        self._acls = acls
        self._own: tuple[Acl, ...] | None = None
        self._refused: set[str] = set()

    async def prepare(self, base: str) -> None:
        """Make the group at ``base``, or take it over, so that only brokers can write what is theirs.

        Raises ``NotAuthorizedError`` where another client owns the group or a part of it.
        """
        try:
            while not await self._prepare(base):
                pass
        except NotAuthorizedError as error:
            if base not in self._refused:
                self._refused.add(base)
                log.error(
                    "%s: another client of ZooKeeper owns this znode, so the group is not served; delete the znode as "
                    "ZooKeeper's super user, or use another group",
                    error.path,
                )
            raise

    async def _prepare(self, base: str) -> bool:
        """As :meth:`prepare`; ``False`` where the group came or went meanwhile."""
        try:
            acl = await self._acls.get_acl(base)
            names = await self._client.get_children(base)
        except NoNodeError:
            return await self._create(base)
        if acl != self._own:
            await self._take_over(base, names)
            self._own = await self._acls.get_acl(base)
        for name in OLD_CONSUMERS:
            if name not in names:
                await ensure(self._client, f"{base}/{name}")
        return True

    async def _create(self, base: str) -> bool:
        """Create the group with the znodes of ZooKeeper consumers, because these cannot create them in it."""
        ops: list[Op] = [Create(base), *(Create(f"{base}/{name}") for name in OLD_CONSUMERS)]
        try:
            await self._client.multi(ops)
        except MultiError as error:
            if isinstance(error.cause, NoNodeError):
                await ensure(self._client, base.rpartition("/")[0])
            elif not isinstance(error.cause, NodeExistsError):
                raise error.cause from None
            return False
        return True

    async def _take_over(self, base: str, names: Iterable[str]) -> None:
        # The group's own list comes first: from then on no other client can add a znode to those that are read below.
        await self._acls.set_acl(base, access_to(base))
        for name in names:
            await self._protect(f"{base}/{name}", whole=name not in OLD_CONSUMERS)

    async def _protect(self, path: str, *, whole: bool) -> None:
        try:
            await self._acls.set_acl(path, access_to(path))
        except NoNodeError:
            return
        if whole:
            await gather(self._protect(f"{path}/{name}", whole=True) for name in await children(self._client, path))
