"""The cache of fetch sessions: ids, epochs, and who gives way to whom."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from kafkalite.apis.fetch_sessions import EVICTION_S, FetchSession, FetchSessionCache, next_epoch
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.metrics.fetch_session_metrics import FetchSessionMetricsCollector
from kafkalite.protocol.fetch import FetchPartition
from kafkalite.testing.clock import ManualClock

from .helpers import FakeReplicas


@pytest.mark.parametrize(("epoch", "after"), [(0, 1), (1, 2), ((1 << 31) - 2, (1 << 31) - 1), ((1 << 31) - 1, 1)])
def test_epochs_never_come_back_to_0(epoch: int, after: int) -> None:
    assert next_epoch(epoch) == after


class Cache:
    """Two slots."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.replicas = FakeReplicas()
        self.sessions = FetchSessionCache(2, cast("Any", self.replicas), self.clock, random.Random(1))

    def open(self, size: int = 1, privileged: bool = False) -> FetchSession | None:
        session = self.sessions.create(size, privileged, False)
        if session is not None:
            for index in range(size):
                self.sessions.add(session, TopicPartition("t", index), FetchPartition("t", ZERO_UUID, index))
        return session


def test_a_full_cache_gives_no_session_to_an_equal() -> None:
    cache = Cache()
    assert cache.open() is not None
    assert cache.open() is not None
    assert cache.open() is None
    assert cache.open(size=9) is None


def test_the_stalest_gives_way_after_its_time() -> None:
    cache = Cache()
    first, second = cache.open(), cache.open()
    assert first is not None
    assert second is not None
    cache.clock.advance(EVICTION_S - 1)
    cache.sessions.find(first.id, 1, False)
    cache.clock.advance(2)
    assert cache.open() is not None
    assert cache.sessions.find(first.id, 2, False) is first
    assert len(cache.sessions) == 2


def test_the_metrics_count_sessions_partitions_and_who_gave_way() -> None:
    cache = Cache()
    collector = FetchSessionMetricsCollector(cache.sessions)

    def counted() -> dict[str, float]:
        prefix = "kafka_server_fetchsessioncache_"
        return {
            sample.metric.name.removeprefix(prefix): sample.value for each in collector.collect() for sample in each
        }

    assert set(counted().values()) == {0}
    cache.open(size=2)
    cache.open(size=3)
    cache.open(size=4)
    names = ("numincrementalfetchsessions", "numincrementalfetchpartitionscached", "incrementalfetchsessionevictions")
    assert counted() == dict(zip(names, (2, 5, 0), strict=True)), "there is no place for the third"
    cache.open(size=1, privileged=True)
    assert counted() == dict(zip(names, (2, 4, 1), strict=True)), "a follower takes the place of the smaller one"
    cache.clock.advance(EVICTION_S + 1)
    cache.open(size=7)
    assert counted()[names[2]] == 2


def test_a_follower_takes_a_consumers_place() -> None:
    cache = Cache()
    small, _ = cache.open(size=1), cache.open(size=5)
    assert small is not None
    assert cache.open(privileged=True) is not None
    assert len(cache.replicas.watched) == 6
    assert cache.open(privileged=True) is not None
    assert cache.open(privileged=True) is None
    assert cache.open(size=9) is None


def test_a_larger_session_takes_a_smaller_ones_place_once_that_is_old() -> None:
    cache = Cache()
    first, second = cache.open(size=2), cache.open(size=3)
    assert first is not None
    assert second is not None
    cache.clock.advance(EVICTION_S + 1)
    cache.sessions.find(first.id, 1, False)
    cache.sessions.find(second.id, 1, False)
    assert cache.open(size=2) is None
    assert cache.open(size=3) is not None
    assert cache.sessions.find(second.id, 2, False) is second


@pytest.mark.parametrize(
    ("offset", "known"),
    [pytest.param(9, False, id="truncated"), pytest.param(10, False, id="as before"), pytest.param(11, True, id="on")],
)
def test_the_high_watermark_is_repeated_to_a_client_without_progress(offset: int, known: bool) -> None:
    cache = Cache()
    tp = TopicPartition("t", 0)
    session = cache.sessions.create(1, True, False)
    assert session is not None
    cache.sessions.add(session, tp, FetchPartition("t", ZERO_UUID, 0, fetch_offset=10))
    session.last_sent[tp] = (10, 0)
    cache.sessions.add(session, tp, FetchPartition("t", ZERO_UUID, 0, fetch_offset=offset))
    assert (tp in session.last_sent) is known
