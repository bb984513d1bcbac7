"""A step of an authentication that is made off the reactor.

Answers to: nothing in Kafka, whose network threads make such steps themselves. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from kafkalite.common.authentication import AuthenticationStep
from kafkalite.common.tasks import spawn

log = logging.getLogger(__name__)


class PendingStep:
    """Calls ``done`` with the outcome of ``work``, with ``None`` if ``work`` failed, unless it is cancelled before."""

    def __init__(self, work: Awaitable[AuthenticationStep], done: Callable[[AuthenticationStep | None], None]) -> None:
        self._done: Callable[[AuthenticationStep | None], None] | None = done
        spawn(self._wait(work), "a step of an authentication")

    def cancel(self) -> None:
        """The connection is closed: ``done`` is not called."""
        self._done = None

    @property
    def is_over(self) -> bool:
        """Whether ``done`` was called, or will not be."""
        return self._done is None

    async def _wait(self, work: Awaitable[AuthenticationStep]) -> None:
        step = None
        try:
            step = await work
        except Exception:
            log.exception("a step of an authentication failed")
        done, self._done = self._done, None
        if done is not None:
            done(step)
