"""How far a thread count may change at once while a broker runs: to between half and double of its present value.

Answers to: ``kafka.server.DynamicThreadPool`` and ``LogCleaner.validateReconfiguration``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.config import ConfigValues
from kafkalite.common.errors import ConfigError

_POOLS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
_CLEANERS: Final = "log.cleaner.threads"


def check_thread_counts(present: ConfigValues, changed: ConfigValues) -> None:
    """Raises :class:`ConfigError` with Kafka's text for the first count that changes by more."""
    for name in _POOLS:
        now, wanted = present[name], changed[name]
        failed = f"Dynamic thread count update validation failed for {name}={wanted}, value should"
        if wanted < now // 2:
            raise ConfigError(f"{failed} be at least half the current value {now}")
        if wanted > now * 2:
            raise ConfigError(f"{failed} not be greater than double the current value {now}")
    now, wanted = present[_CLEANERS], changed[_CLEANERS]
    if wanted == now:
        return
    if wanted < 1:
        raise ConfigError("Log cleaner threads should be at least 1")
    if wanted < now // 2:
        raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {now}")
    if wanted > now * 2:
        raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {now}")
