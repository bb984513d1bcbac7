"""Bandwidth limits of replication (KIP-73): the rate of the last seconds, held against a limit.

Answers to: ``kafka.server.{ReplicationQuotaManager,QuotaFactory.QuotaManagers}`` and the ``SimpleRate`` that they
measure with. Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafkalite.common.clock import Clock
from kafkalite.replication.replication_config import ReplicationConfig

UNLIMITED: Final = (1 << 63) - 1
_SHORTEST_WAIT_S: Final = 0.001
"""Not less, because a wait that is rounded down to zero would repeat without end."""


def is_throttled(listed: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether ``listed`` (a topic's ``*.replication.throttled.replicas``) has that replica.

    The elements are ``partition:broker`` pairs, or there is the one element ``*`` for all replicas.
    """
    if not listed:
        return False
    return listed[0] == "*" or f"{partition}:{broker_id}" in listed


class ReplicationQuotaManager:
    """One limit, in bytes per second, over sliding windows: ``samples`` of them, ``window`` seconds each.

    The rate is the number of bytes since the oldest window began, divided by the time since then, which counts as at
    least one window. So a transfer may begin with the bytes of one window at once, and use within the windows what a
    pause left unused. A record may exceed the limit, because one batch may be larger than the share of a second; the
    next bytes then wait longer.

    ``limited`` is false while no rate is set: then callers neither ask nor record.
    """

    __slots__ = ("_clock", "_rate", "_span", "_sum", "_window", "_windows", "limited")

    def __init__(self, clock: Clock, samples: int = 11, window: float = 1.0) -> None:
        self._clock = clock
        self._window = window
        self._span = samples * window
        self._rate = UNLIMITED
        self._windows: deque[list[float]] = deque()
        self._sum = 0.0
        self.limited = False

    @property
    def rate(self) -> int:
        """The limit in bytes per second."""
        return self._rate

    def update_rate(self, rate: int) -> None:
        """Change the limit; what was recorded stays."""
        self._rate = rate
        self.limited = rate < UNLIMITED

    def record(self, size: int) -> None:
        """``size`` bytes were transferred now."""
        now = self._clock.monotonic()
        self._drop_old(now)
        if not self._windows or now - self._windows[-1][0] >= self._window:
            self._windows.append([now, 0.0])
        self._windows[-1][1] += size
        self._sum += size

    def measure(self) -> float:
        """The rate now, in bytes a second."""
        now = self._clock.monotonic()
        self._drop_old(now)
        return self._sum / max(now - self._windows[0][0], self._window) if self._windows else 0.0

    def is_exceeded(self) -> bool:
        """Whether the rate is above the limit now."""
        if not self.limited:
            return False
        now = self._clock.monotonic()
        self._drop_old(now)
        if not self._windows:
            return False
        return self._sum > self._rate * max(now - self._windows[0][0], self._window)

    def wait_s(self) -> float:
        """Seconds until the limit is no longer exceeded, if nothing else is recorded meanwhile.

        At most the time until the oldest window expires, because the rate changes then.
        """
        if not self.is_exceeded():
            return 0.0
        start = self._windows[0][0]
        until = start + self._span
        if self._rate > 0:
            until = min(until, start + self._sum / self._rate)
        return max(_SHORTEST_WAIT_S, until - self._clock.monotonic())

    def _drop_old(self, now: float) -> None:
        while self._windows and now - self._windows[0][0] >= self._span:
            self._sum -= self._windows.popleft()[1]


@dataclass(frozen=True, slots=True)
class ReplicationRates:
    """The limits of a broker in bytes a second."""

    leader: int
    follower: int
    alter_log_dirs: int


class ReplicationQuotas:
    """The three limits of a broker: for sending to followers, for fetching, for copying between directories."""

    def __init__(self, config: ReplicationConfig, clock: Clock) -> None:
        samples, window = config.replication_quota_window_num, config.replication_quota_window_size_seconds
        self.leader = ReplicationQuotaManager(clock, samples, window)
        self.follower = ReplicationQuotaManager(clock, samples, window)
        self.alter_log_dirs = ReplicationQuotaManager(
            clock,
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds,
        )

    def update_rates(self, rates: ReplicationRates) -> None:
        """Obey other rates from now on."""
        self.leader.update_rate(rates.leader)
        self.follower.update_rate(rates.follower)
        self.alter_log_dirs.update_rate(rates.alter_log_dirs)
