"""From ZooKeeper's connection thread to the reactor: one lane, in order, in batches. Reactor shell.

Answers to: the event thread of ``org.apache.zookeeper.ClientCnxn``. Two queues would let a completion overtake the
watch event that preceded it, and readers would then believe in what they had been told was stale.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)
_BATCH = 500
"""Calls made in one turn of the reactor, so that a burst from ZooKeeper does not hold up the network."""


class ReactorLane:
    """Calls put here from any thread are made on the reactor, one after another, in the order in which they came."""

    def __init__(self, call_from_thread: Callable[..., object]) -> None:
        self._call_from_thread = call_from_thread
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._scheduled = False

    def put(self, call: Callable[..., object], *args: Any) -> None:
        """Make ``call(*args)`` on the reactor."""
        # Appended before the flag is looked at, while the drain clears the flag before it looks at the calls:
        # whatever the interleaving, a call is never left behind. Scheduling once too often is harmless.
        self._calls.append((call, args))
        if not self._scheduled:
            self._scheduled = True
            self._call_from_thread(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        calls = self._calls
        for _ in range(min(len(calls), _BATCH)):
            call, args = calls.popleft()
            try:
                call(*args)
            except Exception:
                log.exception("ZooKeeper callback %r failed", call)
        if calls and not self._scheduled:
            self._scheduled = True
            self._call_from_thread(self._drain)
