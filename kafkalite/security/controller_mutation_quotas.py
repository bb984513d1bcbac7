"""The quota of changes that the controller must make: partitions that are created or deleted (KIP-599).

Answers to: ``kafka.server.{ControllerMutationQuotaManager,StrictControllerMutationQuota}`` and
``PermissiveControllerMutationQuota``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.quota_rates import QuotaWindows, TokenBucket
from kafkalite.security.quota_limits import QuotaLimits

_FORGOTTEN_AFTER_MS: Final = 3_600_000


class MutationQuota:
    """The quota for one request. ``bucket`` is ``None`` where the client has none.

    A strict quota refuses mutations while it is exhausted; a permissive one, for clients of older versions, accepts and
    throttles them. Neither limits the mutations of one request while tokens are left.
    """

    def __init__(self, bucket: TokenBucket | None, bound: float, *, is_strict: bool) -> None:
        self._bucket = bucket
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
        if self._bucket is None:
            return
        if self._is_strict:
            if self._is_throttled(self._bucket, now_ms):
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            self._bucket.record(permits, self._bound, now_ms)
        else:
            self._bucket.record(permits, self._bound, now_ms)
            self._is_throttled(self._bucket, now_ms)

    def throttle_time_ms(self, now_ms: int) -> int:
        """For how long the client is throttled from now on; the answer may come long after the request."""
        return max(0, self._throttle_ms - (now_ms - self._throttled_at_ms))

    def _is_throttled(self, bucket: TokenBucket, now_ms: int) -> bool:
        delay_ms = bucket.delay_ms(self._bound, now_ms)
        if delay_ms > 0:
            self._throttle_ms, self._throttled_at_ms = delay_ms, now_ms
        return delay_ms > 0


class ControllerMutationQuotas:
    """The buckets of all clients that have such a quota."""

    def __init__(self, limits: QuotaLimits, windows: QuotaWindows) -> None:
        self._limits = limits
        self._windows = windows
        self._buckets: dict[tuple[str, str], tuple[TokenBucket, int]] = {}

    def quota(self, user: str, client_id: str, now_ms: int, *, is_strict: bool) -> MutationQuota:
        """The quota for a request; ``is_strict`` from CreateTopics 6, CreatePartitions 3 and DeleteTopics 5 on."""
        found = self._limits.resolve(user, client_id)
        if found is None:
            return MutationQuota(None, 0.0, is_strict=is_strict)
        key = (found.user, found.client_id)
        kept = self._buckets.get(key)
        # The bucket of a new client is full.
        full_ms = now_ms - self._windows.number * self._windows.size_ms
        bucket = TokenBucket(self._windows, full_ms) if kept is None else kept[0]
        self._buckets[key] = (bucket, now_ms)
        return MutationQuota(bucket, found.bound, is_strict=is_strict)

    def forget_silent(self, now_ms: int) -> None:
        """Free the memory of clients that did nothing for an hour."""
        for key, (_, used_ms) in list(self._buckets.items()):
            if now_ms - used_ms >= _FORGOTTEN_AFTER_MS:
                del self._buckets[key]
