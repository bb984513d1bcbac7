"""The agreement of a group's members on the owner of each partition, without a coordinator.

Answers to: ``ZookeeperConsumerConnector.ZKRebalancerListener`` and ``ZKSessionExpireListener``. Deterministic (through
``zk/zk_client``, a stream, a fetcher and a clock, all handed in).

When a watch says that members, topics or partitions changed, every member does the following by itself:

1. It reads the members, topics and partitions, sets the watches again, and computes the assignment of all members.
2. If its own part has changed, it stops fetching, commits how far it has read, and releases all its partitions.
3. It claims its new part: one ephemeral owner znode for each partition. If a partition still has an owner (which is
   slower, or has seen older metadata), the member releases its claims, waits and begins again, at most
   ``rebalance.max.retries`` times.
4. It reads the committed offsets and begins to fetch. (The 0.8 consumer reads them before the claim, and so may miss
   the last commit of the previous owner.)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    """The methods of the fetcher that the rebalancer calls."""

    def set_brokers(self, brokers: list[str]) -> None:
        """These brokers (``host:port``) are live now."""

    def fetch(self, generation: int, starts: Mapping[TopicPartition, int | None]) -> None:
        """Fetch only these partitions from now on; ``None``: begin at the offset of ``auto.offset.reset``."""


class Rebalancer:
    """One member of the group. All methods must be called in the thread of ``clock`` and of the ZooKeeper client."""

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
        self._lane: Lane[Callable[[], Awaitable[None]]] = Lane("rebalancing", lambda work: work())
        self._is_queued = False
        """Whether a rebalance stands in the lane and has not begun."""
        self._is_member = False
        self._is_closed = False
        self._owned: frozenset[TopicPartition] | None = None
        """The partitions being read; ``None`` between two assignments."""
        self._claimed: set[TopicPartition] = set()
        """Partitions whose owner znodes may be this member's: all of them have to be released."""
        self._committed: dict[TopicPartition, int] = {}
        self._pause: Future[None] | None = None
        self._starting: list[Future[None]] = []

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that this member reads now."""
        return self._owned or frozenset()

    async def start(self) -> None:
        """Join the group; returns once this member reads its part. Raises :class:`ConsumerRebalanceFailedError`."""
        started: Future[None] = Future()
        self._starting.append(started)
        self._rebalance_soon()
        if self._config.auto_commit_enable:
            self._commit_later()
        await started

    async def commit(self) -> dict[TopicPartition, int]:
        """Write how far this member has read, where that is not written yet; returns the offsets that were written.

        Waits for the end of a running rebalance. Raises ``ZkError``.
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
        """Stop reading and, with ``auto.commit.enable``, commit. The other members see the end of the session."""
        self._is_closed = True
        self._wake()
        done: Future[None] = Future()

        async def end() -> None:
            read = self._stop_reading()
            try:
                if self._config.auto_commit_enable:
                    await self._commit(read)
            except ZkError as error:
                log.warning("%s: the last commit failed: %s", self._registry.consumer_id, error)
            self._finish_start(ConsumerClosedError(self._registry.consumer_id))
            done.callback(None)

        self._lane.put(end)
        await done

    def on_session(self, state: SessionState) -> None:
        """The session's listener. Reading goes on while the session is only suspended: it may still be alive."""
        if state is SessionState.EXPIRED:
            log.warning("%s: the ZooKeeper session expired; joining again", self._registry.consumer_id)
            self._is_member = False
            self._claimed.clear()  # the claims ended with the session, and other members may own the partitions now
            self._stop_reading()
        elif state is SessionState.CONNECTED:
            self._rebalance_soon()

    # Rebalancing

    def _changed(self, _: WatchEvent) -> None:
        """The watch of every read: after any event the member reads everything again."""
        self._rebalance_soon()

    def _rebalance_soon(self) -> None:
        if not self._is_queued and not self._is_closed:
            self._is_queued = True
            self._wake()
            self._lane.put(self._rebalance)

    async def _rebalance(self) -> None:
        """Attempt the rebalance until this member has its part (Kafka's ``syncedRebalance``)."""
        self._is_queued = False
        name, problem = self._registry.consumer_id, ""
        for _ in range(self._config.rebalance_max_retries):
            try:
                taken = await self._attempt()
                if not taken:
                    self._finish_start(None)
                    return
                problem = f"other members still own {', '.join(map(str, taken))}"
                await self._back_off(taken)
            except (ConnectionLostError, SessionExpiredError):
                return  # the session's listener starts a new rebalance
            except (ZkError, MalformedZnodeError) as error:
                problem = str(error)
                log.warning("%s: an attempt to rebalance failed: %s", name, error)
                await self._back_off([])
            if self._is_closed or self._is_queued:
                return  # the change that came meanwhile has queued another rebalance
        failure = ConsumerRebalanceFailedError(
            f"{name} can't rebalance after {self._config.rebalance_max_retries} retries: {problem}"
        )
        log.error("%s", failure)
        self._stream.fail(failure)
        self._finish_start(failure)

    async def _attempt(self) -> list[TopicPartition]:
        """One attempt; returns the partitions that another member still owns (none: it succeeded)."""
        registry = self._registry
        if not self._is_member:
            await registry.register(self._subscription, self._clock.time_ms())
            self._is_member = True
        self._fetcher.set_brokers(await registry.brokers(self._changed))
        me = ThreadId(registry.consumer_id, 0)
        mine = frozenset(tp for tp, thread in (await self._assignment()).items() if thread == me)
        if mine == self._owned:
            return []
        await self._give_back()

        claims = sorted(mine)
        # Before the claims, because a claim may take effect although its answer is lost.
        self._claimed.update(claims)
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
        """Which member reads which partition of this member's topics, as ZooKeeper says now; each read sets a watch."""
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
        """Stop, commit, release: in this order, because the next owner begins at the committed offset."""
        read = self._stop_reading()
        if self._config.auto_commit_enable:
            await self._commit(read)
        await self._registry.release(self._claimed)
        self._claimed.clear()

    def _stop_reading(self) -> dict[TopicPartition, int]:
        """Stop reading at once; returns how far each partition has been read."""
        self._owned = None
        read = self._stream.end()
        self._fetcher.fetch(self._stream.generation, {})
        return read

    async def _back_off(self, taken: Sequence[TopicPartition]) -> None:
        """Wait ``rebalance.backoff.ms``, or until one of the first of ``taken`` is free or anything else changes."""
        pause: Future[None] = Future()
        self._pause = pause
        timer = self._clock.call_later(self._config.rebalance_backoff_ms / 1000, self._wake)
        free = bool(taken) and await self._registry.owner_is_gone(taken[0], lambda _: self._wake())
        if free or self._is_queued or self._is_closed:
            self._wake()
        await pause
        timer.cancel()

    def _wake(self) -> None:
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.callback(None)

    def _finish_start(self, failure: Exception | None) -> None:
        starting, self._starting = self._starting, []
        for started in starting:
            if failure is None:
                started.callback(None)
            else:
                started.errback(failure)

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
