"""Fetch sessions: a client names its partitions once and then only what changes (KIP-227).

Answers to: ``kafka.server.{FetchManager,FetchSession,FetchSessionCache}``. Deterministic.

States of a session, by the epoch that the client sends::

    epoch 0 (full)      → a new session with epoch 1 (or none, where the cache is full: session id 0)
    epoch n = expected  → an incremental fetch; the session then expects n + 1 (1 after 2³¹ - 1)
    epoch -1 (final)    → the session ends; the fetch itself is answered without one
    any other epoch     → INVALID_FETCH_SESSION_EPOCH;  unknown id → FETCH_SESSION_ID_NOT_FOUND
"""

from __future__ import annotations

import random
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.fetch import FetchPartition
from kafkalite.replication.delayed_operations import FetchWatch
from kafkalite.replication.partition_table import PartitionTable

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_S: Final = 120.0
"""How long a session is safe from others that want its place."""
_MAX_INT: Final = (1 << 31) - 1


def next_epoch(epoch: int) -> int:
    """The epoch after ``epoch``; it never comes back to 0, which would mean a new session."""
    return 1 if epoch >= _MAX_INT else epoch + 1


def key_of(partition: FetchPartition) -> TopicPartition:
    """The name of a partition whose topic is known by name."""
    assert partition.topic is not None
    return TopicPartition(partition.topic, partition.partition)


class FetchSession:
    """One client's partitions, and what it was last sent of each.

    ``last_sent`` is (high watermark, log start) of each partition; ``unresolved`` are partitions of topic ids that this
    broker does not know (yet). With an authorizer, ``owner`` has opened the session, and ``denied`` are the partitions
    that it may not read by the decisions of ``view``.
    """

    __slots__ = (
        "created",
        "denied",
        "epoch",
        "id",
        "last_sent",
        "last_used",
        "owner",
        "partitions",
        "privileged",
        "unresolved",
        "uses_ids",
        "view",
        "watch",
    )

    def __init__(self, session_id: int, privileged: bool, uses_ids: bool, now: float) -> None:
        self.id = session_id
        self.privileged = privileged
        self.uses_ids = uses_ids
        self.created = now
        self.last_used = now
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[TopicPartition, FetchPartition] = {}
        self.last_sent: dict[TopicPartition, tuple[int, int]] = {}
        self.unresolved: dict[tuple[uuid.UUID, int], FetchPartition] = {}
        self.denied: dict[TopicPartition, FetchPartition] = {}
        self.owner: KafkaPrincipal | None = None
        self.view: object = None
        self.watch = FetchWatch(self.partitions, privileged)

    @property
    def size(self) -> int:
        """How many partitions the session has."""
        return len(self.partitions) + len(self.unresolved) + len(self.denied)

    def send_again(self, partitions: Iterable[TopicPartition]) -> None:
        """The client may have dropped the last answer about ``partitions``, so the next answer repeats it."""
        for tp in partitions:
            if self.last_sent.pop(tp, None) is not None and tp in self.partitions:
                self.watch.dirty[tp] = None


class FetchSessionCache:
    """The sessions of this broker, at most ``slots``; followers' sessions are privileged over consumers'."""

    def __init__(self, slots: int, partitions: PartitionTable, clock: Clock, rng: random.Random | None = None) -> None:
        self._slots = slots
        self._partitions = partitions
        self._clock = clock
        self._rng = rng or random.Random()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.evictions = 0
        """Sessions that gave their places to others, since the broker's start."""

    @property
    def partitions(self) -> int:
        """Partitions in all sessions."""
        return sum(session.size for session in self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def peek(self, session_id: int) -> FetchSession | None:
        """The session as it is; ``None`` where there is none of that id."""
        return self._sessions.get(session_id)

    def find(self, session_id: int, epoch: int, uses_ids: bool) -> FetchSession:
        """The session for an incremental fetch, moved to its next epoch.

        Raises :class:`ApiError` FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = next_epoch(epoch)
        session.last_used = self._clock.monotonic()
        self._sessions.move_to_end(session_id)
        return session

    def create(self, size: int, privileged: bool, uses_ids: bool) -> FetchSession | None:
        """A new session for ``size`` partitions, or ``None`` where there is no place for it."""
        now = self._clock.monotonic()
        if len(self._sessions) >= self._slots and not self._evict(privileged, size, now):
            return None
        session_id = self._rng.randint(1, _MAX_INT)
        while session_id in self._sessions:
            session_id = self._rng.randint(1, _MAX_INT)
        session = self._sessions[session_id] = FetchSession(session_id, privileged, uses_ids, now)
        return session

    def remove(self, session_id: int) -> None:
        """End a session; harmless where there is none of that id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions.unwatch_all(session.watch)

    def add(self, session: FetchSession, tp: TopicPartition, partition: FetchPartition) -> None:
        """``partition`` enters ``session``, or is asked for differently from now on.

        A client that asks again from the same offset did not use the last answer: it truncated its log, or was
        given another leader epoch meanwhile. The high watermark of that answer must be sent again, because a
        follower of a quiet partition would never learn it.
        """
        known = session.partitions.get(tp)
        if known is None:
            self._partitions.watch(session.watch, tp)
        elif partition.fetch_offset <= known.fetch_offset:
            session.last_sent.pop(tp, None)
        session.partitions[tp] = partition

    def deny(self, session: FetchSession, tp: TopicPartition, partition: FetchPartition) -> None:
        """``partition`` is in ``session``, but must not be read."""
        self.forget(session, tp)
        session.denied[tp] = partition

    def forget(self, session: FetchSession, tp: TopicPartition) -> None:
        """``tp`` leaves ``session``."""
        session.denied.pop(tp, None)
        if session.partitions.pop(tp, None) is not None:
            session.last_sent.pop(tp, None)
            self._partitions.unwatch(session.watch, tp)

    def _evict(self, privileged: bool, size: int, now: float) -> bool:
        """Make place: the stalest session, or else the least worthy one that is worth less than the newcomer."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used > EVICTION_S:
            self.evictions += 1
            self.remove(oldest.id)
            return True
        candidates = [
            session
            for session in self._sessions.values()
            if (not session.privileged and (privileged or now - session.created > EVICTION_S))
            or (session.privileged and privileged and now - session.created > EVICTION_S)
        ]
        if not candidates:
            return False
        least = min(candidates, key=lambda session: (session.privileged, session.size, session.id))
        if (privileged, size) <= (least.privileged, least.size):
            return False
        self.evictions += 1
        self.remove(least.id)
        return True
