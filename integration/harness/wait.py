"""Waiting for conditions instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, timeout: float = 30.0, interval: float = 0.05) -> T:
    """The first truthy value of ``condition``. ``OSError`` and ``LookupError`` count as "not yet".

    Raises ``AssertionError`` that says ``what`` did not come about within ``timeout`` seconds, and what was seen last.
    """
    deadline = time.monotonic() + timeout
    last: object = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except (OSError, LookupError) as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:.0f} s: {what} (last seen: {last!r})")
        time.sleep(interval)


def has_ended(pid: int) -> bool:
    """Whether a process is no more, or waits only for whoever adopted it to take note (in a container nobody may)."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
