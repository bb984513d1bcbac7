"""What quotas limit, and how they measure: by a rate over windows, or by a bucket of tokens.

Answers to: ``org.apache.kafka.server.config.QuotaConfigs`` and
``org.apache.kafka.common.metrics.stats.{Rate,WindowedSum,SampledStat,TokenBucket}``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
"""The key of the quota of an address, in ``/config/ips``."""


class QuotaType(Enum):
    """A quota of users and clients; the value is the key in ``/config/users`` and ``/config/clients``."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


@dataclass(frozen=True, slots=True)
class QuotaWindows:
    """``quota.window.num`` windows of ``quota.window.size.seconds``: the last of them is the present one."""

    number: int = 11
    size_ms: int = 1000


@dataclass(slots=True)
class _Sample:
    start_ms: int
    last_ms: int
    total: float = 0.0
    recorded: float = 0.0
    """What was recorded, without what was taken back."""


class WindowedRate:
    """What was recorded a second, over the windows. Windows that nothing was recorded in count as empty ones."""

    __slots__ = ("_current", "_recorded", "_samples", "_size_ms", "windows")

    def __init__(self, windows: QuotaWindows) -> None:
        self.windows = windows
        self._samples: list[_Sample] = []
        self._current = 0
        self._recorded = 0.0
        self._size_ms = windows.size_ms

    @property
    def last_ms(self) -> int | None:
        """When something was recorded last."""
        return self._samples[self._current].last_ms if self._samples else None

    @property
    def until_ms(self) -> int:
        """When the present window ends; 0 before anything was recorded."""
        return self._samples[self._current].start_ms + self._size_ms if self._samples else 0

    def record(self, value: float, now_ms: int) -> float:
        """Add ``value``; a negative one takes back what was recorded.

        Returns no less than what was recorded in all windows, without what was taken back. This is all that most
        requests need: see :meth:`most_in_windows`.
        """
        try:
            sample = self._samples[self._current]
        except IndexError:
            sample = _Sample(now_ms, now_ms)
            self._samples.append(sample)
        if now_ms - sample.start_ms >= self._size_ms:
            sample = self._next_sample(now_ms)
        sample.total += value
        sample.last_ms = now_ms
        if value > 0:
            sample.recorded += value
            self._recorded += value
        return self._recorded

    def most_in_windows(self, bound: float) -> float:
        """What may be recorded in the shortest time that is measured without a rate above ``bound``."""
        return bound * (self.windows.number - 1) * self._size_ms / 1000

    def _next_sample(self, now_ms: int) -> _Sample:
        samples = self._samples
        # One sample more than windows, because the oldest one may reach into the measured time.
        self._current = (self._current + 1) % (self.windows.number + 1)
        if self._current == len(samples):
            samples.append(_Sample(now_ms, now_ms))
        else:
            self._recorded -= samples[self._current].recorded
            samples[self._current] = _Sample(now_ms, now_ms)
        self._drop_obsolete(now_ms)
        return samples[self._current]

    def measure(self, now_ms: int) -> float:
        """The rate a second."""
        window_ms = self.window_ms(now_ms)
        total = sum(sample.total for sample in self._samples)
        return total * 1000 / window_ms if window_ms else 0.0

    def window_ms(self, now_ms: int) -> int:
        """The time in ms over which :meth:`measure` measures."""
        windows = self.windows
        self._drop_obsolete(now_ms)
        elapsed = now_ms - min((sample.start_ms for sample in self._samples), default=now_ms)
        missing = windows.number - 1 - elapsed // windows.size_ms
        return elapsed + max(0, missing) * windows.size_ms

    def _drop_obsolete(self, now_ms: int) -> None:
        obsolete = now_ms - self.windows.number * self.windows.size_ms
        for index, sample in enumerate(self._samples):
            if sample.last_ms <= obsolete:
                self._recorded -= sample.recorded
                self._samples[index] = _Sample(now_ms, now_ms)

    def is_silent(self, now_ms: int) -> bool:
        """Whether nothing was recorded in the windows."""
        windows = self.windows
        return all(now_ms - sample.last_ms >= windows.number * windows.size_ms for sample in self._samples)

    def delay_ms(self, bound: float, now_ms: int) -> int:
        """For how long nothing may be recorded until the rate is ``bound``; 0 if it is not above it.

        The rate O over the window W is the bound T after a delay X if O * W / (W + X) = T.
        """
        if self._recorded <= self.most_in_windows(bound):
            return 0
        rate = self.measure(now_ms)
        if rate <= bound:
            return 0
        return _bounded((rate - bound) / bound * self.window_ms(now_ms) if bound > 0 else float("inf"))


class TokenBucket:
    """Tokens that come back with the rate of the quota, since ``since_ms``; at most those that come in all windows."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: QuotaWindows, since_ms: int = 0) -> None:
        self._windows = windows
        self._tokens = 0.0
        self._updated_ms = since_ms

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Take ``value`` tokens, also if there are fewer."""
        self._tokens = min(self._burst(bound), self.measure(bound, now_ms) - value)

    def measure(self, bound: float, now_ms: int) -> float:
        """The tokens that are left; the quota is exceeded if they are fewer than none."""
        self._tokens = self.tokens_at(bound, now_ms)
        self._updated_ms = now_ms
        return self._tokens

    def tokens_at(self, bound: float, now_ms: int) -> float:
        """As :meth:`measure`, but changes nothing."""
        return min(self._burst(bound), self._tokens + bound * (now_ms - self._updated_ms) / 1000)

    def delay_ms(self, bound: float, now_ms: int) -> int:
        """When there will be tokens again, in ms; 0 if the quota is not exceeded."""
        tokens = self.measure(bound, now_ms)
        if tokens >= 0:
            return 0
        return _bounded(-tokens / bound * 1000 if bound > 0 else float("inf"))

    def _burst(self, bound: float) -> float:
        return self._windows.number * self._windows.size_ms / 1000 * bound


def _bounded(delay_ms: float) -> int:
    """``delay_ms`` rounded as Java does, and not above what ``throttle_time_ms`` can say."""
    return int(min(delay_ms + 0.5, 2147483647))
