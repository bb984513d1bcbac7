"""The group coordinator of one broker: what clients ask about groups comes here.

Answers to: ``kafka.coordinator.group.{GroupCoordinator,GroupCoordinatorAdapter}``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.values import (
    FetchedOffsets,
    GroupDescription,
    GroupListing,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeavingMember,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetErrors,
    OffsetFetchRequest,
    SyncAnswer,
    SyncRequest,
    TxnOffsetCommitRequest,
)
from kafkalite.zk.port import SessionState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from kafkalite.cluster.metadata import MetadataCache
    from kafkalite.common.clock import Clock
    from kafkalite.coordinator.offsets.manager import OffsetManager
    from kafkalite.zk.stores.claims import ClaimStore
    from kafkalite.zk.stores.groups import GroupStore

    class Config(Protocol):
        def __getitem__(self, name: str) -> Any: ...


class GroupCoordinator:
    """Serves the groups that this broker holds the claim of; for others it says who does."""

    def __init__(
        self,
        broker_id: int,
        claims: ClaimStore,
        groups: GroupStore,
        offsets: OffsetManager,
        metadata: MetadataCache,
        clock: Clock,
        config: Config,
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Begin to expire offsets."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Give every claim up; waiting requests are answered NOT_COORDINATOR."""
        raise NotImplementedError

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper session changed."""
        raise NotImplementedError

    def brokers_changed(self) -> None:
        """A broker came or went."""
        raise NotImplementedError

    async def find(self, group: str) -> int | None:
        """Id of the broker that coordinates ``group``; ``None``: nobody can. Raises ``ZkError``."""
        raise NotImplementedError

    async def join(self, request: JoinRequest) -> JoinAnswer:
        """Become (or stay) a member; answered when the group's next generation begins."""
        raise NotImplementedError

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        """Give or get the assignment of a generation; answered once it is durable."""
        raise NotImplementedError

    async def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """A member lives."""
        raise NotImplementedError

    async def leave(self, group: str, members: Sequence[LeavingMember]) -> LeaveAnswer:
        """Members go."""
        raise NotImplementedError

    async def describe(self, groups: Sequence[str]) -> list[GroupDescription]:
        """State and members of each."""
        raise NotImplementedError

    async def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        """The groups that are this broker's."""
        raise NotImplementedError

    async def delete(self, groups: Sequence[str]) -> Mapping[str, ErrorCode]:
        """Remove empty groups with all that is kept of them."""
        raise NotImplementedError

    async def commit_offsets(self, request: OffsetCommitRequest) -> OffsetErrors:
        """Commit; an error of the whole request stands at each of its partitions."""
        raise NotImplementedError

    async def txn_commit_offsets(self, request: TxnOffsetCommitRequest) -> OffsetErrors:
        """Stage offsets of a transaction; an error of the whole request stands at each of its partitions."""
        raise NotImplementedError

    async def fetch_offsets(self, request: OffsetFetchRequest) -> FetchedOffsets:
        """Committed offsets. Raises ``ApiError`` where the group as a whole cannot be asked here."""
        raise NotImplementedError

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetErrors:
        """Remove offsets. Raises ``ApiError`` (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP …) for the request as a whole."""
        raise NotImplementedError
