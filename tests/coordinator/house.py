"""Shared by the tests of all coordinators: work that is started, with its later result."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import deferred


class Started:
    """Work in progress: ``result`` once it is done."""

    def __init__(self, work: Awaitable[Any]) -> None:
        self.results: list[Any] = []
        self.failures: list[BaseException] = []
        deferred(work).addCallbacks(self.results.append, lambda failure: self.failures.append(failure.value))

    @property
    def done(self) -> bool:
        return bool(self.results or self.failures)

    @property
    def result(self) -> Any:
        if self.failures:
            raise self.failures[0]
        assert self.results, "not complete"
        return self.results[0]

    @property
    def error(self) -> ErrorCode:
        """The error that the client gets; NONE for a result."""
        if self.results:
            return ErrorCode.NONE
        assert self.failures, "not complete"
        assert isinstance(self.failures[0], ApiError), self.failures[0]
        return self.failures[0].code


def run(work: Awaitable[Any]) -> Any:
    """The result of ``work``, which must be complete."""
    return Started(work).result
