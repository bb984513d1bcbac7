"""Generations of groups: staged, made current by one write, and read by the next coordinator.

Answers to: ``kafka.coordinator.group.GroupMetadataManager`` (``storeGroup``, ``loadGroupsAndOffsets``). Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkalite.common.tasks import gather
from kafkalite.zk.stores.claims import Claim, write_claimed
from kafkalite.zk.stores.fenced_write import MAX_BYTES, MAX_OPS, op_size
from kafkalite.zk.stores.group_protection import GroupProtection
from kafkalite.zk.stores.paths import children, children_or_watch, read
from kafkalite.zk.zk_client import Create, Delete, Op, SetData, Watch, ZkClient, ZkError
from kafkalite.zk.znode_acls import ZnodeAcls
from kafkalite.zk.znodes import groups as znodes
from kafkalite.zk.znodes.codec import MalformedZnodeError, decode_name
from kafkalite.zk.znodes.consumers import group_path, ids_path
from kafkalite.zk.znodes.groups import Generation, MemberRecord

log = logging.getLogger(__name__)
NO_GENERATION = Generation(0)


class GroupStore:
    """``/consumers/<group>/generation``, and the live ZooKeeper consumers of a group.

    What is written is fenced by the group's claim: every writing method raises ``ClaimLostError`` where that is lost,
    and ``ConnectionLostError`` or ``SessionExpiredError`` where the outcome is unknown; writing may be repeated then.
    """

    def __init__(self, client: ZkClient, acls: ZnodeAcls | None = None) -> None:
        self._client = client
        self._protection = None if acls is None else GroupProtection(client, acls)

    async def prepare(self, group: str) -> None:
        """Before a claim: in a protected tree, make the group's znodes or take them over.

        Raises ``NotAuthorizedError`` where another client owns the group.
        """
        if self._protection is not None:
            await self._protection.prepare(group_path(group))

    async def exists(self, group: str) -> bool:
        """Whether ``group`` has a znode."""
        return await self._client.exists(group_path(group)) is not None

    async def load(self, group: str) -> tuple[Generation, list[MemberRecord]]:
        """The current generation and its members, in no order. Read it after the claim, in the same session.

        Malformed znodes are logged and left out, because a coordinator that refuses to load serves no member.
        """
        path = znodes.generation_path(group)
        found = await read(self._client, path)
        if found is None:
            return NO_GENERATION, []
        try:
            generation = znodes.decode_generation(path, found[0])
        except MalformedZnodeError as error:
            log.error("group %s begins with an empty state: %s", group, error)
            return NO_GENERATION, []
        names = await children(self._client, znodes.members_path(group, generation.number))
        ids = [decode_name(name) for name in names]
        paths = [znodes.member_path(group, generation.number, member_id) for member_id in ids]
        members = []
        for member_id, member, data in zip(
            ids, paths, await gather(read(self._client, each) for each in paths), strict=True
        ):
            try:
                if data is not None:
                    members.append(znodes.decode_member(member, member_id, data[0]))
            except MalformedZnodeError as error:
                log.error("group %s goes on without member %s: %s", group, member_id, error)
        return generation, members

    async def overview(self, group: str) -> tuple[Generation, bool]:
        """The current generation, and whether it has members. Any broker may ask."""
        path = znodes.generation_path(group)
        found = await read(self._client, path)
        if found is None:
            return NO_GENERATION, False
        try:
            generation = znodes.decode_generation(path, found[0])
        except MalformedZnodeError:
            return NO_GENERATION, False
        return generation, bool(await children(self._client, znodes.members_path(group, generation.number)))

    async def save(self, claim: Claim, group: str, generation: Generation, members: Sequence[MemberRecord]) -> None:
        """Make ``generation`` the current one, with exactly these ``members``; others are removed afterwards.

        A small one is one transaction. A larger one is staged in several, made current by the last write of all, and
        until then no reader sees it.
        """
        stage, flip, clean = await self._plan(group, generation, members)
        everything = [*stage, flip, *clean]
        if len(everything) < MAX_OPS and sum(map(op_size, everything)) < MAX_BYTES:
            await self._commit(claim, [everything])
            return
        await self._commit(claim, [[op] for op in stage])
        await self._commit(claim, [[flip]])
        await self._commit(claim, [[op] for op in clean])

    async def replace(self, claim: Claim, group: str, generation: Generation, old_id: str, new: MemberRecord) -> None:
        """In the current generation, put ``new`` into the place of the member ``old_id``."""
        there = {
            decode_name(name) for name in await children(self._client, znodes.members_path(group, generation.number))
        }
        path = znodes.member_path(group, generation.number, new.member_id)
        data = znodes.encode_member(new)
        ops: list[Op] = [SetData(path, data) if new.member_id in there else Create(path, data)]
        if old_id in there:
            ops.append(Delete(znodes.member_path(group, generation.number, old_id)))
        ops.append(SetData(znodes.generation_path(group), znodes.encode_generation(generation)))
        await self._commit(claim, [ops])

    async def old_members(self, group: str, watch: Watch) -> list[str]:
        """Ids of the live ZooKeeper consumers of ``group``; ``watch`` sees the next that comes or goes."""
        return await children_or_watch(self._client, ids_path(group), watch)

    async def _plan(
        self, group: str, generation: Generation, members: Sequence[MemberRecord]
    ) -> tuple[list[Op], Op, list[Op]]:
        """The operations that stage ``generation``, that make it current, and that remove the others."""
        root = znodes.generation_path(group)
        data = znodes.encode_generation(generation)
        stage: list[Op] = []
        if await self._client.exists(root) is None:
            stage.append(Create(root, znodes.encode_generation(NO_GENERATION)))
        listed = [name for name in await children(self._client, root) if name.isdigit()]
        there = dict(
            zip(listed, await gather(children(self._client, f"{root}/{name}") for name in listed), strict=True)
        )
        own = str(generation.number)
        if own not in there:
            stage.append(Create(f"{root}/{own}"))
        # Left behind by a coordinator that died while it staged a generation of this number.
        stale = set(there.pop(own, ()))
        for member in members:
            path = znodes.member_path(group, generation.number, member.member_id)
            name = path.rpartition("/")[2]
            content = znodes.encode_member(member)
            stage.append(SetData(path, content) if name in stale else Create(path, content))
            stale.discard(name)
        stage += [Delete(f"{root}/{own}/{name}") for name in sorted(stale)]
        clean: list[Op] = []
        for other, names in there.items():
            clean += [Delete(f"{root}/{other}/{name}") for name in names]
            clean.append(Delete(f"{root}/{other}"))
        return stage, SetData(root, data), clean

    async def _commit(self, claim: Claim, groups: Sequence[Sequence[Op]]) -> None:
        for result in await write_claimed(self._client, claim, groups):
            if isinstance(result, ZkError):
                raise result
