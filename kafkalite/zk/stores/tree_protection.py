"""Puts a whole tree under ACLs, or opens it again, while brokers and clients work on.

Answers to: ``kafka.admin.ZkSecurityMigrator``. Reactor shell.

A change of an ACL leaves version and mzxid as they are and fires no watch, so nothing that brokers do is disturbed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafkalite.common.tasks import gather_in_parts
from kafkalite.zk.stores.group_protection import GroupProtection
from kafkalite.zk.stores.paths import children
from kafkalite.zk.zk_client import NoNodeError, NotAuthorizedError, ZkClient
from kafkalite.zk.znode_acls import CREATE, DELETE, ROOTS, Access, Acl, ZnodeAcls, access_to
from kafkalite.zk.znodes.consumers import CONSUMERS

log = logging.getLogger(__name__)
_AT_ONCE: Final = 500
_ROOT: Final = "/"
_WORLD: Final = ("world", "anyone")


@dataclass(frozen=True, slots=True)
class AclChange:
    """What was, or would be, done with one znode. ``problem`` says what prevented it, and is empty if nothing did."""

    path: str
    access: Access
    is_change: bool
    problem: str = ""


class TreeProtection:
    """Puts the tree of ``client`` under the ACLs of brokers, or opens it. ``acls`` reads and writes the ACLs."""

    def __init__(self, client: ZkClient, acls: ZnodeAcls) -> None:
        self._client = client
        self._acls = acls

    async def plan(self, *, secure: bool) -> list[AclChange]:
        """What :meth:`migrate` would do. The owners of an ACL that protects are not compared."""
        return await gather_in_parts(lambda path: self._planned(path, secure), await self._paths(), _AT_ONCE)

    async def migrate(self, *, secure: bool) -> list[AclChange]:
        """Set the ACL of each znode: the tree's root, the roots of Kafka and of kafkalite, and all znodes below these.

        Each group gets the znodes that ZooKeeper consumers create, because they could not create them any more. Znodes
        that are deleted meanwhile are left out. A znode of another owner is left as it is, with a ``problem``.
        """
        if secure:
            await self._prepare_groups()
        return await gather_in_parts(lambda path: self._migrated(path, secure), await self._paths(), _AT_ONCE)

    async def _prepare_groups(self) -> None:
        groups = GroupProtection(self._client, self._acls)
        for name in await children(self._client, CONSUMERS):
            try:
                await groups.prepare(f"{CONSUMERS}/{name}")
            except NotAuthorizedError:
                continue  # migrate() names it as a znode of another owner.

    async def _paths(self) -> list[str]:
        """Each path of Kafka and of kafkalite, parents first."""
        paths = [_ROOT]
        names = set(await children(self._client, _ROOT))
        level = [path for path in ROOTS if path[1:] in names]
        while level:
            paths += level
            listed = await gather_in_parts(self._children, level, _AT_ONCE)
            level = [f"{path}/{name}" for path, found in zip(level, listed, strict=True) for name in sorted(found)]
        return paths

    async def _children(self, path: str) -> Sequence[str]:
        try:
            return await children(self._client, path)
        except NotAuthorizedError:
            return ()

    async def _planned(self, path: str, secure: bool) -> AclChange:
        access = access_to(path) if secure else Access.OPEN
        try:
            acl = await self._acls.get_acl(path)
        except NoNodeError:
            return AclChange(path, access, False)
        except NotAuthorizedError:
            return AclChange(path, access, True, "another client owns it")
        return AclChange(path, access, not _gives(acl, access))

    async def _migrated(self, path: str, secure: bool) -> AclChange:
        access = access_to(path) if secure else Access.OPEN
        try:
            before = await self._acls.get_acl(path)
            await self._acls.set_acl(path, access)
            return AclChange(path, access, before != await self._acls.get_acl(path))
        except NoNodeError:
            return AclChange(path, access, False)
        except NotAuthorizedError:
            return AclChange(path, access, False, "another client owns it; use its credentials")


async def warn_of_open_root(acls: ZnodeAcls) -> None:
    """Log a warning if other clients may create and delete znodes at the root of a tree that brokers protect."""
    granted = _granted(await acls.get_acl(_ROOT))
    if granted & (CREATE | DELETE):
        log.warning(
            "zookeeper.set.acl=true, but any client of ZooKeeper may delete /controller, because the ACL of the tree's "
            "root is open; run `kafkalite zk secure --acl secure` once, or put the cluster below a chroot of its own"
        )


def _granted(acl: Sequence[Acl]) -> int:
    granted = 0
    for each in acl:
        if (each.scheme, each.identity) == _WORLD:
            granted |= each.permissions
    return granted


def _gives(acl: Sequence[Acl], access: Access) -> bool:
    owners = [each for each in acl if (each.scheme, each.identity) != _WORLD]
    return _granted(acl) == access.value and bool(owners) == (access is not Access.OPEN)
