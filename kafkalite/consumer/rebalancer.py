"""How the members of a group come to agree who reads what, without anybody in charge.

Answers to: ``ZookeeperConsumerConnector.ZKRebalancerListener`` and ``ZKSessionExpireListener``. Deterministic (through
``zk/zk_client``, a stream, a fetcher and a clock, all handed in).

Whenever a watch says that members, topics or partitions changed, every member, by itself,

1. reads who is there and what there is, arming the watches anew, and computes the assignment of all;
2. where its own part has changed: stops fetching, commits how far it has read, gives all its partitions back;
3. claims its new part, one ephemeral owner znode a partition. Where one is still taken (its owner is slower, or saw
   less than we did) it gives back what it has, waits and begins again: ``rebalance.max.retries`` times;
4. reads the committed offsets and begins to fetch. (The 0.8 consumer reads them before the claim, and so may miss the
   last commit of the owner before it.)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from kafkalite.common.clock import Clock
from kafkalite.common.tasks import Future, Lane, gather, spawn
from kafkalite.common.types import TopicPartition
from kafkalite.consumer.assignor import ThreadId, assign
from kafkalite.consumer.config import ConsumerConfig
from kafkalite.consumer.errors import ConsumerClosedError, ConsumerRebalanceFailedError
from kafkalite.consumer.registry import Registry
from kafkalite.consumer.stream import Stream
from kafkalite.consumer.subscription import Subscription
from kafkalite.zk.zk_client import (
    ConnectionLostError,
    SessionExpiredError,
    SessionState,
    WatchEvent,
    ZkError,
)
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)


class Fetching(Protocol):
    """What the rebalancer asks of the fetcher."""

    def meet(self, brokers: list[str]) -> None:
        """These brokers (``host:port``) are alive now."""

    def fetch(self, generation: int, starts: Mapping[TopicPartition, int | None]) -> None:
        """From now on fetch these partitions and no others; ``None``: from where ``auto.offset.reset`` leads to."""


class Rebalancer:
    """One member's part in its group. All methods belong to the thread of ``clock`` and of the ZooKeeper client."""

    def __init__(
        self,
        registry: Registry,
        subscription: Subscription,
        stream: Stream,
        fetcher: Fetching,
        clock: Clock,
        config: ConsumerConfig,
    ) -> None:
        self._registry = registry
        self._subscription = subscription
        self._stream = stream
        self._fetcher = fetcher
        self._clock = clock
        self._config = config
        self._lane = Lane("rebalancing", lambda work: work())
        self._waiting = False
        self._is_member = False
        self._is_closed = False
        self._owned: frozenset[TopicPartition] | None = None
        """What is being read; ``None`` between two assignments."""
        self._claimed: set[TopicPartition] = set()
        """Whose owner znodes may be ours: all that have to be given back."""
        self._committed: dict[TopicPartition, int] = {}
        self._pause: Future[None] | None = None
        self._agreed: list[Future[None]] = []

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What this member reads now."""
        return self._owned or frozenset()

    async def start(self) -> None:
        """Join the group; returns once this member has its part. Raises :class:`ConsumerRebalanceFailedError`."""
        agreed: Future[None] = Future()
        self._agreed.append(agreed)
        self._rebalance_soon()
        if self._config.auto_commit_enable:
            self._commit_later()
        await agreed

    async def commit(self) -> dict[TopicPartition, int]:
        """Write how far this member has read, as far as that is not written yet; returns what was written.

        Waits for a rebalance that is under way. Raises ``ZkError``.
        """
        done: Future[dict[TopicPartition, int]] = Future()

        async def write() -> None:
            try:
                done.callback(await self._commit(self._stream.read()))
            except ZkError as error:
                done.errback(error)

        self._lane.put(write)
        return await done

    async def stop(self) -> None:
        """Read no more and, where ``auto.commit.enable``, commit. The end of the session tells the others."""
        self._is_closed = True
        self._wake()
        done: Future[None] = Future()

        async def end() -> None:
            read = self._lose()
            try:
                if self._config.auto_commit_enable:
                    await self._commit(read)
            except ZkError as error:
                log.warning("%s: the last commit failed: %s", self._registry.consumer_id, error)
            self._tell(ConsumerClosedError(self._registry.consumer_id))
            done.callback(None)

        self._lane.put(end)
        await done

    def on_session(self, state: SessionState) -> None:
        """The session's listener. While it is only suspended, reading goes on: the session may be alive."""
        if state is SessionState.EXPIRED:
            log.warning("%s: the ZooKeeper session expired; joining again", self._registry.consumer_id)
            self._is_member = False
            self._claimed.clear()  # it went with the session, and may be another's by now
            self._lose()
        elif state is SessionState.CONNECTED:
            self._rebalance_soon()

    # Rebalancing

    def _changed(self, _: WatchEvent) -> None:
        """The one watch on all that is read: whatever happened, read it all again."""
        self._rebalance_soon()

    def _rebalance_soon(self) -> None:
        if not self._waiting and not self._is_closed:
            self._waiting = True
            self._wake()
            self._lane.put(self._rebalance)

    async def _rebalance(self) -> None:
        """Attempts until this member has its part (``syncedRebalance``)."""
        self._waiting = False
        name, problem = self._registry.consumer_id, ""
        for _ in range(self._config.rebalance_max_retries):
            try:
                taken = await self._attempt()
                if not taken:
                    self._tell(None)
                    return
                problem = f"others still own {', '.join(map(str, taken))}"
                await self._back_off(taken)
            except (ConnectionLostError, SessionExpiredError):
                return  # the session's listener begins anew
            except (ZkError, MalformedZnodeError) as error:
                problem = str(error)
                log.warning("%s: an attempt to rebalance failed: %s", name, error)
                await self._back_off([])
            if self._is_closed or self._waiting:
                return  # what has changed meanwhile is a rebalance of its own
        failure = ConsumerRebalanceFailedError(
            f"{name} can't rebalance after {self._config.rebalance_max_retries} retries: {problem}"
        )
        log.error("%s", failure)
        self._stream.fail(failure)
        self._tell(failure)

    async def _attempt(self) -> list[TopicPartition]:
        """One attempt; returns the partitions that somebody else still owns (none: it succeeded)."""
        registry = self._registry
        if not self._is_member:
            await registry.register(self._subscription, self._clock.time_ms())
            self._is_member = True
        self._fetcher.meet(await registry.brokers(self._changed))
        me = ThreadId(registry.consumer_id, 0)
        mine = frozenset(tp for tp, thread in (await self._assignment()).items() if thread == me)
        if mine == self._owned:
            return []
        await self._give_back()

        claims = sorted(mine)
        self._claimed.update(claims)  # also those whose answer may be lost
        claimed = await gather(registry.claim(tp, me) for tp in claims)
        taken = [tp for tp, ours in zip(claims, claimed, strict=True) if not ours]
        if taken:
            await self._give_back()
            return taken

        offsets = dict(zip(claims, await gather(registry.offset(tp) for tp in claims), strict=True))
        self._committed = {tp: offset for tp, offset in offsets.items() if offset is not None}
        self._owned = mine
        self._fetcher.fetch(*self._stream.begin(offsets))
        log.info("%s owns %s", me.consumer, ", ".join(map(str, claims)) or "nothing")
        return []

    async def _assignment(self) -> dict[TopicPartition, ThreadId]:
        """What everybody is to read of what we read too, from what ZooKeeper says now; every read is watched."""
        subscriptions = await self._registry.members(self._changed)
        existing: list[str] = []
        if any(subscription.is_wildcard for subscription in subscriptions.values()):
            existing = await self._registry.topics(self._changed)
        members = {
            name: subscription.topics(existing, exclude_internal=self._config.exclude_internal_topics)
            for name, subscription in subscriptions.items()
        }
        wanted = sorted(members.get(self._registry.consumer_id, {}))
        partitions = await gather(self._registry.partitions(topic, self._changed) for topic in wanted)
        return assign(members, dict(zip(wanted, partitions, strict=True)))

    async def _give_back(self) -> None:
        """Stop, commit, release: in this order, so that the next owner begins where we ended."""
        read = self._lose()
        if self._config.auto_commit_enable:
            await self._commit(read)
        await self._registry.release(self._claimed)
        self._claimed.clear()

    def _lose(self) -> dict[TopicPartition, int]:
        """Read nothing from this moment on; returns how far it had come."""
        self._owned = None
        read = self._stream.end()
        self._fetcher.fetch(self._stream.generation, {})
        return read

    async def _back_off(self, taken: Sequence[TopicPartition]) -> None:
        """``rebalance.backoff.ms``, less where the first of what was taken becomes free, or something else changes."""
        pause: Future[None] = Future()
        self._pause = pause
        timer = self._clock.call_later(self._config.rebalance_backoff_ms / 1000, self._wake)
        free = bool(taken) and await self._registry.owner_is_gone(taken[0], lambda _: self._wake())
        if free or self._waiting or self._is_closed:
            self._wake()
        await pause
        timer.cancel()

    def _wake(self) -> None:
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.callback(None)

    def _tell(self, failure: Exception | None) -> None:
        waiting, self._agreed = self._agreed, []
        for agreed in waiting:
            if failure is None:
                agreed.callback(None)
            else:
                agreed.errback(failure)

    # Commits

    def _commit_later(self) -> None:
        self._clock.call_later(self._config.auto_commit_interval_ms / 1000, self._auto_commit)

    def _auto_commit(self) -> None:
        if not self._is_closed:
            spawn(self.commit(), "automatic commit", lambda error: log.warning("automatic commit failed: %s", error))
            self._commit_later()

    async def _commit(self, read: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        offsets = {tp: offset for tp, offset in read.items() if self._committed.get(tp) != offset}
        await self._registry.commit(offsets)
        self._committed.update(offsets)
        return offsets
