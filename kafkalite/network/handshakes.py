"""Computes the handshakes of clients off the reactor, so that other clients need not wait for signatures.

Answers to: Kafka's ``SslTransportLayer.runDelegatedTasks``, in the threads of a listener. Deterministic.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from kafkalite.common.tasks import Executor, spawn

log = logging.getLogger(__name__)

BATCH: Final = 8
"""Steps that one call of the executor computes. The signature of an RSA key takes a millisecond."""

Outcome = bool | Exception
"""Whether the handshake is complete, or why it cannot go on."""
_Compute = Callable[[], bool]
_Take = Callable[[Outcome], object]


class Handshakes:
    """Computes steps of handshakes in one thread of ``executor``, however many clients connect at once.

    Handshakes that have begun go on before others begin, because they hold memory. Without an executor each step is
    computed at once.
    """

    def __init__(self, executor: Executor | None) -> None:
        self._executor = executor
        self._begun: deque[tuple[_Compute, _Take]] = deque()
        self._new: deque[tuple[_Compute, _Take]] = deque()
        self._is_running = False

    def run(self, compute: _Compute, take: _Take, *, is_begun: bool) -> None:
        """Call ``compute`` in a thread, then ``take`` with the outcome. ``is_begun``: the handshake has begun."""
        if self._executor is None:
            take(_outcome(compute))
            return
        (self._begun if is_begun else self._new).append((compute, take))
        if not self._is_running:
            self._is_running = True
            spawn(self._work(self._executor), "handshakes")

    async def _work(self, executor: Executor) -> None:
        try:
            while self._begun or self._new:
                size = min(BATCH, len(self._begun) + len(self._new))
                batch = [(self._begun or self._new).popleft() for _ in range(size)]
                outcomes = await executor.run(_outcomes, [compute for compute, _ in batch])
                for (_, take), outcome in zip(batch, outcomes, strict=True):
                    try:
                        take(outcome)
                    except Exception:
                        log.exception("the outcome of a handshake could not be taken")
        finally:
            self._is_running = False


def _outcomes(steps: Sequence[_Compute]) -> list[Outcome]:
    return [_outcome(step) for step in steps]


def _outcome(compute: _Compute) -> Outcome:
    try:
        return compute()
    except Exception as error:
        return error
