"""Generations of groups: staged, made current by one write, and read again by the next coordinator.

Answers to: ``kafka.coordinator.group.GroupMetadataManager`` (``storeGroup``, ``loadGroupsAndOffsets``). Reactor shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalite.zk.port import Watch, ZkClient
from kafkalite.zk.znodes.groups import Generation, MemberRecord

if TYPE_CHECKING:
    from kafkalite.zk.stores.claims import Claim, ClaimStore


class GroupStore:
    """``/consumers/<group>/generation``; what is written is fenced by the group's claim."""

    def __init__(self, client: ZkClient, claims: ClaimStore) -> None:
        self._client = client
        self._claims = claims

    async def load(self, group: str) -> tuple[Generation, Sequence[MemberRecord]]:
        """The current generation. Read it after the claim, in the same session."""
        raise NotImplementedError

    async def save(self, claim: Claim, generation: Generation, members: Sequence[MemberRecord]) -> None:
        """Make ``generation`` the current one. May be called again where the outcome is unknown."""
        raise NotImplementedError

    async def old_members(self, group: str, watch: Watch) -> Sequence[str]:
        """Ids of the ZooKeeper consumers that live in ``group``."""
        raise NotImplementedError
