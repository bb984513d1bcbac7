"""Calls are handed to the threads one after the other, also after one that failed."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.one_at_a_time import OneAtATime
from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import InlineExecutor
from tests.network.fakes import ManualExecutor


def fail() -> None:
    raise ValueError("no")


def test_the_next_call_begins_when_the_one_before_it_is_over() -> None:
    threads = ManualExecutor()
    lane = OneAtATime(threads)
    first, second, third = (deferred(lane.run(*work)) for work in ((abs, -1), (fail,), (abs, -3)))
    second.addErrback(lambda failure: failure.value)
    results: list[Any] = [first, second, third]
    for count in range(3):
        assert (len(threads.work), [each.called for each in results]) == (1, [each < count for each in range(3)])
        threads.do_one()
    assert (first.result, third.result) == (1, 3)
    assert isinstance(second.result, ValueError)
    assert not threads.work


@pytest.mark.parametrize("count", [1, 3])
def test_calls_that_are_made_at_once_have_their_results_at_once(count: int) -> None:
    lane = OneAtATime(InlineExecutor())
    works: list[Any] = [deferred(lane.run(abs, -each)) for each in range(count)]
    assert [work.result for work in works] == list(range(count))
