"""Quotas of clients: how long a client is throttled for what it did.

Answers to: ``kafka.server.{ClientQuotaManager,ClientRequestQuotaManager}``. Pure.

The answer goes at once and says how long the client is throttled; its connection is not read for that time (KIP-219).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkalite.common.quota_rates import QuotaType, QuotaWindows, WindowedRate
from kafkalite.security.quota_limits import QuotaLimits
from kafkalite.security.quota_usage import QuotaUsage

_FORGOTTEN_AFTER_MS: Final = 3_600_000


class ClientQuotaManager:
    """The quotas of one type, and what the clients used of them.

    Throttling by ``request_percentage`` ends after one window, as in Kafka.
    """

    def __init__(self, quota_type: QuotaType, limits: QuotaLimits, windows: QuotaWindows) -> None:
        self._limits = limits
        self._windows = windows
        self._max_delay_ms = windows.size_ms if quota_type is QuotaType.REQUEST else None
        self._groups: dict[tuple[str, str], QuotaUsage] = {}

    def usage(self, user: str, client_id: str) -> QuotaUsage | None:
        """What the client and those that share its quota used of it; ``None`` for a client without a quota.

        Ask again once ``limits`` have changed, and after :meth:`forget_silent`.
        """
        quota = self._limits.resolve(user, client_id)
        if quota is None:
            return None
        key = (quota.user, quota.client_id)
        usage = self._groups.get(key)
        if usage is None:
            usage = self._groups[key] = QuotaUsage(WindowedRate(self._windows), self._max_delay_ms)
        usage.limit(quota.bound)
        return usage

    def forget_silent(self, now_ms: int) -> None:
        """Free the memory of clients that did nothing for an hour."""
        for key, usage in list(self._groups.items()):
            used_ms = usage.last_ms
            if used_ms is None or now_ms - used_ms >= _FORGOTTEN_AFTER_MS:
                del self._groups[key]

    def usages(self) -> Iterator[tuple[str, str, QuotaUsage]]:
        """User, client id and usage of each quota that clients used; what the quota does not name is empty."""
        for (user, client_id), usage in self._groups.items():
            yield user, client_id, usage

    def __len__(self) -> int:
        """The number of rates that are kept."""
        return len(self._groups)
