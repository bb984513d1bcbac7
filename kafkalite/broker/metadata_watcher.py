"""Each broker watches ZooKeeper itself: brokers, topics, assignments and partition states.

Answers to: nothing in Kafka after 0.8 (brokers there learn from the controller's requests alone); the classic
design's ``ZkClient`` listeners come nearest. Deterministic.

The controller's requests only make a broker learn sooner. An event *invalidates*; a paced pass then reads the invalid
znodes again, which also sets their watches again, and hands the states to the cache and to the replicas. A lost
connection drops all watches at once; one full pass reads everything. While requests of the controller arrive, the pass
leaves the states for later, because the requests carry them already and the reads would delay the work that the
requests ask for.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Protocol

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.clock import Clock, Timer
from kafkalite.common.tasks import gather, gather_in_parts, spawn
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.zk.stores.brokers import BrokerStore
from kafkalite.zk.stores.topics import TopicStore
from kafkalite.zk.zk_client import WatchEvent, ZkError
from kafkalite.zk.znodes import brokers as broker_znodes
from kafkalite.zk.znodes import topics as topic_znodes
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)

PACE = 0.02
"""Seconds from the first invalidation to the pass that re-reads: long enough to gather a burst into one pass."""

CALM = 0.2
"""Seconds without a request of the controller after which states are read."""

PATIENCE = 0.5
"""Seconds after which states are read although requests of the controller still arrive."""

RETRY = 0.5
"""Seconds until a pass is repeated that failed because the connection was lost."""

RETRY_AFTER_BUG = 30.0
"""Seconds until a pass is repeated that failed by an error of the broker itself."""

CHUNK = 500
"""How many znodes are read at a time."""

_STATE_DEPTH = 6


class StateSink(Protocol):
    """The replica manager, which acts on the states."""

    def apply_states(self, states: Sequence[LeaderAndIsr]) -> Awaitable[None]:
        """Lead, follow or stop as ``states`` say, where they are newer than the states known so far."""

    def topics_gone(self, topics: Mapping[str, uuid.UUID]) -> Awaitable[None]:
        """``topics`` (name, last known id) are no longer in ZooKeeper."""


class MetadataWatcher:
    """Keeps a :class:`MetadataCache` and a :class:`StateSink` up to date with ZooKeeper.

    ``on_change`` is called after each pass with the topics that changed in the cache.
    """

    def __init__(
        self,
        brokers: BrokerStore,
        topics: TopicStore,
        cache: MetadataCache,
        sink: StateSink,
        clock: Clock,
        on_change: Callable[[Iterable[str]], None] = lambda _: None,
    ) -> None:
        self._brokers = brokers
        self._topics = topics
        self._cache = cache
        self._sink = sink
        self._clock = clock
        self._on_change = on_change
        self._assignments: dict[str, topic_znodes.TopicAssignment] = {}
        self._armed: set[str] = set()
        self._invalid: set[str] = set()
        self._timer: Timer | None = None
        self._calm_at = 0.0
        self._held_since: float | None = None
        self._passing = False
        self._closed = False
        self._news: set[str] = set()

    async def start(self) -> None:
        """Read everything once; returns when the cache is complete. Raises :class:`ZkError`; call it again then."""
        self._armed.clear()
        self._assignments.clear()
        self._invalid.update((broker_znodes.IDS, topic_znodes.TOPICS))
        self._passing = True
        while self._invalid:
            await self._pass()
        self._passing = False

    def resync(self) -> None:
        """Read everything again: a new session began, or watches were lost."""
        self._armed.clear()
        self._invalidate(broker_znodes.IDS)
        self._invalidate(topic_znodes.TOPICS)
        for topic in self._assignments:
            self._invalidate(topic_znodes.topic_path(topic))

    def controller_spoke(self) -> None:
        """A request of the controller arrived, so that states need not be read at once."""
        self._calm_at = self._clock.monotonic() + CALM

    def controller_named(self, topics: Iterable[str]) -> None:
        """A request of the controller changed what the cache knows of ``topics``.

        One that was not listed is new, or is gone already and the network held the request back: list them again.
        """
        if any(topic not in self._assignments for topic in topics):
            self._invalidate(topic_znodes.TOPICS)

    def close(self) -> None:
        """Read nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    # Events

    def _on_event(self, event: WatchEvent) -> None:
        self._armed.discard(event.path)
        self._invalidate(event.path)

    def _on_brokers(self, _: WatchEvent) -> None:
        self._invalidate(broker_znodes.IDS)

    def _watch(self, path: str) -> Callable[[WatchEvent], None] | None:
        """The watch to set with a read of ``path``; ``None`` where one is set already."""
        if path in self._armed:
            return None
        self._armed.add(path)
        return self._on_event

    def _invalidate(self, path: str, after: float = PACE) -> None:
        if self._closed:
            return
        self._invalid.add(path)
        if self._timer is None and not self._passing:
            self._timer = self._clock.call_later(after, self._begin_pass)

    def _begin_pass(self) -> None:
        pause = self._pause()
        if pause > 0:
            self._timer = self._clock.call_later(pause, self._begin_pass)
            return
        self._held_since = self._timer = None
        self._passing = True
        spawn(self._guarded_pass(), "metadata pass")

    def _pause(self) -> float:
        """Seconds for which a pass that would only read states can still be put off."""
        now = self._clock.monotonic()
        if now >= self._calm_at or not all(path.count("/") == _STATE_DEPTH for path in self._invalid):
            return 0.0
        if self._held_since is None:
            self._held_since = now
        return min(self._calm_at, self._held_since + PATIENCE) - now

    async def _guarded_pass(self) -> None:
        pause = PACE
        try:
            await self._pass()
        except ZkError as error:
            # Read everything again, because it is unknown which reads succeeded and which watches are set.
            log.warning("reading metadata from ZooKeeper failed, will try again: %s", error)
            self.resync()
            pause = RETRY
        except Exception:
            log.exception("taking over metadata from ZooKeeper failed, will try again")
            self.resync()
            pause = RETRY_AFTER_BUG
        self._passing = False
        if self._invalid and not self._closed:
            self._timer = self._clock.call_later(pause, self._begin_pass)

    # One pass

    async def _pass(self) -> None:
        invalid, self._invalid = self._invalid, set()
        if broker_znodes.IDS in invalid:
            await self._read_brokers()
        if topic_znodes.TOPICS in invalid:
            invalid |= await self._read_names()
        topics, states = self._sort(invalid)
        wanted = set(states)
        wanted.update(chain.from_iterable(await gather_in_parts(self._read_assignment, topics, CHUNK)))
        await self._read_states(sorted(wanted))
        if self._news:
            news, self._news = self._news, set()
            self._on_change(sorted(news))

    def _sort(self, invalid: Iterable[str]) -> tuple[list[str], list[TopicPartition]]:
        """The topics whose assignments, and the partitions whose states, are invalid."""
        topics: list[str] = []
        states: list[TopicPartition] = []
        for path in sorted(invalid):
            parts = path.split("/")
            if len(parts) == 4 and path.startswith(topic_znodes.TOPICS):
                topics.append(parts[3])
            elif len(parts) == 7:
                states.append(TopicPartition(parts[3], int(parts[5])))
        return [topic for topic in topics if topic in self._assignments], states

    async def _read_brokers(self) -> None:
        changed = self._cache.update_brokers(*await self._brokers.live(self._on_brokers))
        if changed:
            log.info("live brokers are now %s (changed: %s)", sorted(self._cache.brokers), sorted(changed))

    async def _read_names(self) -> set[str]:
        """Notes which topics there are; returns the assignment znodes of new ones."""
        names = set(await self._topics.names(self._watch(topic_znodes.TOPICS)))
        # Take the ids before the second listing, because a request of the controller may come while it is read, with
        # another topic of the same name.
        absent = {
            topic: self._cache.topic_id(topic)
            for topic in (self._assignments.keys() | self._cache.topics.keys()) - names
        }
        if absent:
            # The listing may be older than a request of the controller, or than a read in a former session.
            await self._topics.catch_up()
            names.update(await self._topics.names())
        gone = {topic: topic_id for topic, topic_id in sorted(absent.items()) if topic not in names}
        for topic in gone:
            self._assignments.pop(topic, None)
        if gone:
            log.info("topics no longer in ZooKeeper: %s", list(gone))
            replaced = {topic for topic, topic_id in gone.items() if self._cache.topic_id(topic) != topic_id}
            self._cache.remove_topics([topic for topic in gone if topic not in replaced])
            self._news.update(gone)
            await self._sink.topics_gone(
                {topic: topic_id for topic, topic_id in gone.items() if topic not in replaced or topic_id != ZERO_UUID}
            )
        fresh = sorted(names - self._assignments.keys())
        for topic in fresh:
            self._assignments[topic] = topic_znodes.TopicAssignment(None, {})
        return {topic_znodes.topic_path(topic) for topic in fresh}

    async def _read_assignment(self, topic: str) -> list[TopicPartition]:
        """Notes a topic's assignment; returns the partitions whose states must be read."""
        path = topic_znodes.topic_path(topic)
        try:
            found = await self._topics.assignment(topic, self._watch(path))
        except MalformedZnodeError as error:
            log.error("ignored until it is mended: %s", error)
            return []
        if found is None:
            self._armed.discard(path)
            return []
        known = self._assignments.get(topic)
        assignment = found[0]
        self._assignments[topic] = assignment
        anew = known is None or known.topic_id != assignment.topic_id
        if anew:
            self._armed -= {topic_znodes.state_path(TopicPartition(topic, p)) for p in assignment.partitions}
        return [
            TopicPartition(topic, partition)
            for partition, replicas in assignment.partitions.items()
            if anew
            or topic_znodes.state_path(TopicPartition(topic, partition)) not in self._armed
            or known is None
            or known.partitions.get(partition) != replicas
        ]

    async def _read_states(self, partitions: Sequence[TopicPartition]) -> None:
        for start in range(0, len(partitions), CHUNK):
            read = await gather(self._read_state(tp) for tp in partitions[start : start + CHUNK])
            if self._closed:
                return
            # A deletion that waits for a dead replica leaves the znodes. They must not bring the topic back.
            states = [state for state in read if state is not None and not self._cache.is_forgotten(state.topic_id)]
            self._news.update(state.topic for state in self._cache.apply(states))
            await self._sink.apply_states(states)

    async def _read_state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        topic = self._assignments.get(tp.topic)
        if topic is None:
            return None
        path = topic_znodes.state_path(tp)
        replicas = topic.partitions.get(tp.partition, topic_znodes.UNASSIGNED)
        try:
            return await self._topics.state(tp, topic.topic_id, replicas, self._watch(path))
        except MalformedZnodeError as error:
            log.error("ignored until it is mended: %s", error)
            return None
