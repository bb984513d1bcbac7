"""The quota of changes that the controller must make: partitions that are created or deleted (KIP-599).

Answers to: ``kafka.server.{ControllerMutationQuotaManager,StrictControllerMutationQuota}`` and
``PermissiveControllerMutationQuota``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.quota_rates import QuotaWindows, TokenBucket, WindowedRate
from kafkalite.security.quota_limits import QuotaLimits

_FORGOTTEN_AFTER_MS: Final = 3_600_000


class MutationUsage:
    """What the clients that share a quota used of it. Times are in ms of a monotonic clock.

    ``bound`` and ``used_ms``: the quota at their latest request, and when that was.
    """

    def __init__(self, windows: QuotaWindows, now_ms: int) -> None:
        self._windows_ms = windows.number * windows.size_ms
        # The bucket of a new client is full.
        self.bucket = TokenBucket(windows, now_ms - self._windows_ms)
        self.bound = 0.0
        self.used_ms = now_ms
        self._rate = WindowedRate(windows)
        self._throttled_ms = 0
        self._throttled_at_ms = 0

    def record(self, permits: float, bound: float, now_ms: int) -> None:
        """Take ``permits`` tokens."""
        self.bucket.record(permits, bound, now_ms)
        self._rate.record(permits, now_ms)

    def throttled(self, delay_ms: int, now_ms: int) -> None:
        """A request is throttled for ``delay_ms``."""
        self._throttled_ms, self._throttled_at_ms = delay_ms, now_ms

    def measure(self, now_ms: int) -> tuple[float, float, int]:
        """The tokens that are left, the mutations a second, the throttle time of the latest request that was throttled.

        The throttle time is 0 once the quota's windows since then are over.
        """
        is_recent = now_ms - self._throttled_at_ms < self._windows_ms
        tokens = self.bucket.tokens_at(self.bound, now_ms)
        return tokens, self._rate.measure(now_ms), self._throttled_ms if is_recent else 0


class MutationQuota:
    """The quota for one request. ``usage`` is ``None`` where the client has none.

    A strict quota refuses mutations while it is exhausted; a permissive one, for clients of older versions, accepts and
    throttles them. Neither limits the mutations of one request while tokens are left.
    """

    def __init__(self, usage: MutationUsage | None, bound: float, *, is_strict: bool) -> None:
        self._usage = usage
        self._bound = bound
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._throttled_at_ms = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether a strict quota has refused a mutation."""
        return self._is_strict and self._throttle_ms > 0

    def record(self, permits: float, now_ms: int) -> None:
        """Take ``permits`` tokens. An exhausted strict quota raises :class:`ApiError` THROTTLING_QUOTA_EXCEEDED."""
        if self._usage is None:
            return
        if self._is_strict:
            if self._is_throttled(self._usage, now_ms):
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            self._usage.record(permits, self._bound, now_ms)
        else:
            self._usage.record(permits, self._bound, now_ms)
            self._is_throttled(self._usage, now_ms)

    def throttle_time_ms(self, now_ms: int) -> int:
        """For how long the client is throttled from now on; the answer may come long after the request."""
        return max(0, self._throttle_ms - (now_ms - self._throttled_at_ms))

    def _is_throttled(self, usage: MutationUsage, now_ms: int) -> bool:
        delay_ms = usage.bucket.delay_ms(self._bound, now_ms)
        if delay_ms > 0:
            self._throttle_ms, self._throttled_at_ms = delay_ms, now_ms
            usage.throttled(delay_ms, now_ms)
        return delay_ms > 0


class ControllerMutationQuotas:
    """The usage of all clients that have such a quota."""

    def __init__(self, limits: QuotaLimits, windows: QuotaWindows) -> None:
        self._limits = limits
        self._windows = windows
        self._usages: dict[tuple[str, str], MutationUsage] = {}

    def quota(self, user: str, client_id: str, now_ms: int, *, is_strict: bool) -> MutationQuota:
        """The quota for a request; ``is_strict`` from CreateTopics 6, CreatePartitions 3 and DeleteTopics 5 on."""
        found = self._limits.resolve(user, client_id)
        if found is None:
            return MutationQuota(None, 0.0, is_strict=is_strict)
        key = (found.user, found.client_id)
        usage = self._usages.get(key)
        if usage is None:
            usage = self._usages[key] = MutationUsage(self._windows, now_ms)
        usage.bound, usage.used_ms = found.bound, now_ms
        return MutationQuota(usage, found.bound, is_strict=is_strict)

    def usages(self) -> Iterator[tuple[str, str, MutationUsage]]:
        """User, client id and usage of each quota that clients used; what the quota does not name is empty."""
        for (user, client_id), usage in self._usages.items():
            yield user, client_id, usage

    def forget_silent(self, now_ms: int) -> None:
        """Free the memory of clients that did nothing for an hour."""
        for key, usage in list(self._usages.items()):
            if now_ms - usage.used_ms >= _FORGOTTEN_AFTER_MS:
                del self._usages[key]
