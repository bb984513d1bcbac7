"""Shared by the tests of all rooms: coroutines that are run without a reactor, and their outcomes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import deferred

T = TypeVar("T")
PENDING = "pending"


class Started:
    """Work in progress: ``result`` once it is done."""

    def __init__(self, work: Awaitable[Any]) -> None:
        self.results: list[Any] = []
        self.failures: list[BaseException] = []
        deferred(work).addCallbacks(self.results.append, lambda failure: self.failures.append(failure.value))

    @property
    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return bool(self.results or self.failures)

    @property
    def result(self) -> Any:
        """The result; raises the exception that ended the work."""
        if self.failures:
            raise self.failures[0]
        assert self.results, "the work is not complete"
        return self.results[0]

    @property
    def value(self) -> Any:
        """The result, the exception that ended the work, or :data:`PENDING`."""
        return next(iter((*self.results, *self.failures)), PENDING)

    @property
    def error(self) -> ErrorCode:
        """The error that the client gets; NONE for a result."""
        if self.results:
            return ErrorCode.NONE
        assert self.failures, "the work is not complete"
        assert isinstance(self.failures[0], ApiError), self.failures[0]
        return self.failures[0].code


def run(work: Awaitable[T]) -> T:
    """The result of ``work``, which must end without waiting."""
    result: T = Started(work).result
    return result
