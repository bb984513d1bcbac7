"""Computes the handshakes of clients off the reactor, so that other clients need not wait for signatures.

Answers to: Kafka's ``SslTransportLayer.runDelegatedTasks``, in the threads of a listener. Deterministic.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from kafkalite.common.tasks import Executor, spawn

log = logging.getLogger(__name__)

BATCH: Final = 4
"""Handshakes that go on between two turns of the reactor. The signature of an RSA key takes a millisecond."""

Outcome = bool | Exception
"""Whether the handshake is complete, or why it cannot go on."""


class Handshake(Protocol):
    """One client's handshake, a step of it at a time."""

    def receive(self) -> bool:
        """On the reactor: take the bytes that have come; whether there is a step to compute."""

    def compute(self) -> bool:
        """In a thread: compute the step; whether the handshake is complete. Raises what keeps it from going on."""

    def take(self, outcome: Outcome) -> None:
        """On the reactor: go on with what was computed."""


class Handshakes:
    """Lets handshakes go on, in one thread of ``executor`` and a few in each turn of the reactor.

    So the clients that connect again after a restart, or go all at once, do not keep the others waiting. Handshakes
    that have begun go on before others begin, because they hold memory. Without an executor all go on at once.
    """

    def __init__(self, executor: Executor | None) -> None:
        self._executor = executor
        self._begun: deque[Handshake] = deque()
        self._new: deque[Handshake] = deque()
        self._is_running = False

    def run(self, handshake: Handshake, *, is_begun: bool) -> None:
        """Let ``handshake`` go on by a step, now or in a later turn. ``is_begun``: not by its first one."""
        if self._executor is None:
            if handshake.receive():
                handshake.take(_outcome(handshake))
            return
        (self._begun if is_begun else self._new).append(handshake)
        if not self._is_running:
            self._is_running = True
            spawn(self._work(self._executor), "handshakes")

    async def _work(self, executor: Executor) -> None:
        try:
            while self._begun or self._new:
                batch = [each for each in self._next() if _received(each)]
                # Also for none, because the other events of the reactor come before the next handshakes.
                outcomes = await executor.run(_outcomes, batch)
                for handshake, outcome in zip(batch, outcomes, strict=True):
                    try:
                        handshake.take(outcome)
                    except Exception:
                        log.exception("a handshake could not go on")
        finally:
            self._is_running = False

    def _next(self) -> list[Handshake]:
        size = min(BATCH, len(self._begun) + len(self._new))
        return [(self._begun or self._new).popleft() for _ in range(size)]


def _received(handshake: Handshake) -> bool:
    try:
        return handshake.receive()
    except Exception:
        log.exception("a handshake could not go on")
        return False


def _outcomes(handshakes: Sequence[Handshake]) -> list[Outcome]:
    return [_outcome(each) for each in handshakes]


def _outcome(handshake: Handshake) -> Outcome:
    try:
        return handshake.compute()
    except Exception as error:
        # The frames of its traceback refer to the list of outcomes, and so to the error: without this cycle the memory
        # of the handshakes in the batch is free at once, not only after a garbage collection.
        error.__context__ = None
        return error.with_traceback(None)
