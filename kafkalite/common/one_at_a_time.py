"""Blocking work that takes one thread at most, however much of it there is.

Answers to: nothing in Kafka. Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from kafkalite.common.tasks import Executor, Future, spawn

T = TypeVar("T")


class OneAtATime:
    """An :class:`kafkalite.common.tasks.Executor` over another one, to which it hands one call after the other.

    It is for calls that strangers cause, or that wait for other machines, because they must not take all the threads.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._waiting: deque[tuple[Callable[[], object], Future[object]]] = deque()
        self._is_running = False

    def run(self, call: Callable[..., T], *args: object) -> Awaitable[T]:
        """Make ``call(*args)`` once the calls before it are over."""
        future: Future[T] = Future()
        self._waiting.append((lambda: call(*args), cast("Future[object]", future)))
        if not self._is_running:
            self._is_running = True
            spawn(self._work(), "blocking work")
        return future

    async def _work(self) -> None:
        while self._waiting:
            call, future = self._waiting.popleft()
            try:
                result = await self._executor.run(call)
            except Exception as error:
                future.errback(error)
            else:
                future.callback(result)
        self._is_running = False
