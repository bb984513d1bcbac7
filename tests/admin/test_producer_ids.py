"""Producer ids come from blocks, and no id comes twice."""

from __future__ import annotations

import pytest

from kafkalite.admin.producer_ids import ProducerIdManager
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future
from tests.support import run

from .helpers import pending


class Source:
    """Blocks of ten ids, given when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Future[range]] = []
        self.next = 0

    def allocate(self, broker_id: int) -> Future[range]:
        assert broker_id == 1
        future: Future[range] = Future()
        self.asked.append(future)
        return future

    def give(self) -> None:
        block, self.next = range(self.next, self.next + 10), self.next + 10
        self.asked.pop(0).callback(block)


def test_ids_are_handed_out_in_order_and_the_next_block_is_fetched_ahead() -> None:
    source = Source()
    ids = ProducerIdManager(1, source.allocate)
    first = pending(ids.generate())
    second = pending(ids.generate())
    assert len(source.asked) == 1
    source.give()
    assert (first, second) == ([0], [1])
    assert [run(ids.generate()) for _ in range(6)] == list(range(2, 8))
    assert not source.asked
    assert run(ids.generate()) == 8
    assert len(source.asked) == 1
    source.give()
    assert [run(ids.generate()) for _ in range(5)] == list(range(9, 14))
    assert not source.asked


def test_more_waiters_than_a_block_has_ids() -> None:
    source = Source()
    ids = ProducerIdManager(1, source.allocate)
    waiting = [pending(ids.generate()) for _ in range(25)]
    while source.asked:
        source.give()
    assert [outcome for (outcome,) in waiting] == list(range(25))


def test_a_failure_is_told_and_the_next_request_tries_again() -> None:
    source = Source()
    ids = ProducerIdManager(1, source.allocate)
    waiting = pending(ids.generate())
    source.asked.pop().errback(RuntimeError("no connection"))
    with pytest.raises(ApiError) as caught:
        waiting[0].raiseException()
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again = pending(ids.generate())
    source.give()
    assert again == [0]
