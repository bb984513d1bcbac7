"""A buffer is lent again only when no view of it is alive."""

from __future__ import annotations

import pytest

from kafkalite.protocol.frames import FrameParser
from kafkalite.protocol.memory import FramePool, is_free


def test_a_buffer_is_used_again_once_no_view_of_it_is_alive() -> None:
    pool = FramePool(1000)
    first = memoryview(pool.take(100))
    owner = first.obj
    piece = first[10:20]
    del first
    assert pool.take(100) is not owner
    del piece
    assert pool.take(100) is owner


@pytest.mark.parametrize(("size", "again"), [(100, True), (51, True), (40, False), (101, False)])
def test_a_buffer_must_fit(size: int, again: bool) -> None:
    pool = FramePool(1000)
    buffer = pool.take(100)
    assert (pool.take(size) is buffer) == again


def test_no_more_than_the_budget_is_kept() -> None:
    pool = FramePool(1000)
    views = [memoryview(pool.take(300)) for _ in range(10)]
    assert pool.held == 900
    pool.take(2000)
    assert pool.held <= 1000
    assert len(views) == 10


def test_what_is_not_used_is_given_up() -> None:
    pool = FramePool(1000)
    pool.take(500)
    pool.trim()
    assert pool.held == 500
    pool.trim()
    assert pool.held == 0


def test_looking_changes_nothing() -> None:
    buffer = bytearray(b"abc")
    assert is_free(buffer)
    with memoryview(buffer):
        assert not is_free(buffer)
    assert buffer == b"abc"


def test_frames_of_a_pool_keep_their_contents_while_they_are_held() -> None:
    parser = FrameParser(1 << 20, FramePool(1 << 20))
    size = 50_000
    length = size.to_bytes(4, "big")
    held = [parser.feed(length + bytes([letter]) * size)[0] for letter in range(10)]
    assert [bytes(frame) for frame in held] == [bytes([letter]) * size for letter in range(10)]
    tail = held[3][-10:]
    del held
    for letter in range(10, 20):
        parser.feed(length + bytes([letter]) * size)
    assert bytes(tail) == bytes([3]) * 10
