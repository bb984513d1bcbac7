"""The groups that this broker coordinates: claims, loads and releases them.

Answers to: ``kafka.coordinator.group.GroupMetadataManager`` (``ownedPartitions``, ``loadingPartitions``) and
``GroupCoordinator.{onElection,onResignation}``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.tasks import Future, SharedOutcome, deferred, gather
from kafkalite.coordinator.group.coordinated_group import CoordinatedGroup
from kafkalite.coordinator.group.group_metadata import GroupConfig, GroupMetadata
from kafkalite.coordinator.group.group_stats import GroupStats
from kafkalite.coordinator.placement import preferred
from kafkalite.zk.stores.claims import Claim, ClaimLostError, ClaimStore
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.zk_client import (
    ConnectionLostError,
    NotAuthorizedError,
    SessionExpiredError,
    SessionState,
    ZkError,
)
from kafkalite.zk.znodes.consumers import group_path

log = logging.getLogger(__name__)
T = TypeVar("T")


def check_name(group: str) -> None:
    """Refuse the empty name: such a group can have offsets, but no members. Raises ``ApiError``."""
    if not group:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is empty")


class GroupMetadataManager:
    """The groups by name.

    ``on_claimed(name)`` is called after each claim, before the group is read under it; ``on_gone(name)`` when this
    broker lets a group go. ``session_timeout``: ZooKeeper's, in seconds.
    """

    def __init__(
        self,
        broker_id: int,
        claims: ClaimStore,
        store: GroupStore,
        metadata: MetadataCache,
        clock: Clock,
        limits: GroupConfig,
        session_timeout: float,
        *,
        on_claimed: Callable[[str], None],
        on_gone: Callable[[str], None],
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self.coordinated: dict[str, CoordinatedGroup] = {}
        self.stats = GroupStats()
        self._on_claimed = on_claimed
        self._on_gone = on_gone
        self._broker_id = broker_id
        self._claims = claims
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._limits = limits
        self._session_timeout = session_timeout
        self._busy: dict[str, SharedOutcome[None]] = {}
        """The groups that are being claimed, loaded or removed."""
        self._sessions = 0
        """Counts expired sessions, so that a load that began in a former one is dropped."""
        self._silence: Timer | None = None
        self._cut_off = False
        self._stopped = False

    async def find(self, group: str) -> int | None:
        """The broker that holds the claim, else the live broker that should take it. Raises ``ZkError``."""
        if group in self.coordinated:
            # Answer from memory, because ZooKeeper may be unreachable.
            return self._broker_id
        holder = await self._claims.holder(group_path(group))
        if holder is not None:
            return holder
        # A stopping broker leaves itself out, because it may still be registered.
        return preferred(
            group, (each for each in self._metadata.brokers if not self._stopped or each != self._broker_id)
        )

    async def obtain(self, group: str, *, create: bool) -> CoordinatedGroup | None:
        """The group, claimed and loaded first if necessary; requests that come meanwhile wait.

        ``None`` if it does not exist and not ``create``. Raises :class:`ApiError`: NOT_COORDINATOR, also while this
        broker stops or has been without ZooKeeper for a session timeout; COORDINATOR_LOAD_IN_PROGRESS if the connection
        was lost for a shorter time.
        """
        while True:
            coordinated = self.coordinated.get(group)
            if coordinated is not None:
                return coordinated
            busy = self._busy.get(group)
            if busy is None:
                return await self._alone(group, self._take_over(group, create))
            await busy.wait()

    async def delete(self, coordinated: CoordinatedGroup, remove: Callable[[Claim], Awaitable[None]]) -> None:
        """Delete a group: ``remove`` deletes its znodes with its claim. Requests for the group wait meanwhile.

        Raises :class:`ApiError` (NOT_COORDINATOR) if this broker does not coordinate it any more.
        """
        if self.coordinated.get(coordinated.core.name) is not coordinated:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self._let_go(coordinated, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await self._alone(coordinated.core.name, remove(coordinated.claim))

    async def release(self, coordinated: CoordinatedGroup) -> None:
        """Release the claim of a group, unless this broker has let the group go already."""
        if self.coordinated.get(coordinated.core.name) is not coordinated:
            return
        self._let_go(coordinated, ErrorCode.NOT_COORDINATOR)
        await self._alone(coordinated.core.name, self._release(coordinated.claim))

    async def stop(self) -> None:
        """Release every group, and claim no other."""
        self._stopped = True
        if self._silence is not None:
            self._silence.cancel()
        await gather([self.release(coordinated) for coordinated in list(self.coordinated.values())])

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper session changed. While it is SUSPENDED, requests are answered from memory; no write succeeds.

        After a session timeout without ZooKeeper the broker lets its groups go, because other brokers may have claimed
        them: members that stay with this broker would read partitions that the new coordinator gives to others.
        """
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if state is SessionState.SUSPENDED:
            self._silence = self._clock.call_later(self._session_timeout, self._give_up)
            return
        self._cut_off = False
        if state is SessionState.EXPIRED:
            self._sessions += 1
            self._let_go_of_all()

    # Inside

    def _alone(self, group: str, work: Awaitable[T]) -> Awaitable[T]:
        """Do ``work`` while no other work claims, loads or removes ``group``.

        The request that started it continues first, then those that came meanwhile in their order, so that the commits
        of one member are written in the order in which it sent them.
        """
        assert group not in self._busy
        busy = self._busy[group] = SharedOutcome()
        outcome: Future[T] = Future()

        def done(result: object) -> None:
            del self._busy[group]
            outcome.callback(cast(T, result))
            busy.succeed(None)

        deferred(work).addBoth(done)
        return outcome

    async def _take_over(self, group: str, create: bool) -> CoordinatedGroup | None:
        self._check_not_stopping()
        session = self._sessions
        try:
            if await self.find(group) != self._broker_id:
                raise ApiError(ErrorCode.NOT_COORDINATOR)
            if not create and not await self._store.exists(group):
                return None
            await self._store.prepare(group)
            claim = await self._claims.claim(group_path(group), self._broker_id)
            if claim is None:
                raise ApiError(ErrorCode.NOT_COORDINATOR)
            self._on_claimed(group)
            # Read after the claim and in its session, to see the last write of the former coordinator.
            generation, members = await self._store.load(group)
        except (ConnectionLostError, SessionExpiredError, ClaimLostError) as error:
            code = ErrorCode.NOT_COORDINATOR if self._cut_off else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            raise ApiError(code, str(error)) from None
        except NotAuthorizedError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
        if session != self._sessions:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        try:
            self._check_not_stopping()
        except ApiError:
            await self._release(claim)
            raise
        core = GroupMetadata.load(group, self._limits, generation, members, self._clock.monotonic())
        coordinated = CoordinatedGroup(core, claim, self._store, self._clock, self._lost, self._record, self.stats)
        self._record(
            EventKind.REBALANCE,
            f"broker {self._broker_id} coordinates group {group}, claim epoch {claim.epoch}",
            group=group,
            zxid=claim.zxid,
        )
        self.coordinated[group] = coordinated
        log.info(
            "group %s: coordinated here from epoch %d on, at generation %d with %d members",
            group, claim.epoch, generation.number, len(members),
        )  # fmt: skip
        return coordinated

    def _check_not_stopping(self) -> None:
        if self._stopped:
            # This error makes every client look for another coordinator, in every API; COORDINATOR_NOT_AVAILABLE in
            # an OffsetFetch makes consumers fail.
            raise ApiError(ErrorCode.NOT_COORDINATOR, "This broker is stopping")

    def _give_up(self) -> None:
        self._silence = None
        self._cut_off = True
        if self.coordinated:
            log.warning(
                "without ZooKeeper for %.1f s: %d groups are let go", self._session_timeout, len(self.coordinated)
            )
        self._let_go_of_all()

    def _let_go_of_all(self) -> None:
        for coordinated in list(self.coordinated.values()):
            self._let_go(coordinated, ErrorCode.NOT_COORDINATOR)

    def _lost(self, coordinated: CoordinatedGroup) -> None:
        self._let_go(coordinated, ErrorCode.NOT_COORDINATOR)

    def _let_go(self, coordinated: CoordinatedGroup, error: ErrorCode) -> None:
        if self.coordinated.get(coordinated.core.name) is coordinated:
            del self.coordinated[coordinated.core.name]
            self._on_gone(coordinated.core.name)
        coordinated.close(error)

    async def _release(self, claim: Claim) -> None:
        try:
            await self._claims.release(claim)
        except ZkError as error:
            # The claim ends with the session.
            log.info("%s was not given up: %s", claim.base, error)
