"""The wire form of trace points."""

from __future__ import annotations

import msgpack
import pytest

from kafkalite.common.trace_points import TraceFrames, TracePoint, decode_trace

FRAMES = TraceFrames(2, 7, 1.5, (TracePoint(2, "sent", 1.25, 3, 4, 1), TracePoint(2, "sent", 1.3, 3, 4, -1, "c")))


def test_frames_come_back_as_they_were() -> None:
    assert decode_trace(FRAMES.encode()) == FRAMES


def test_fields_of_a_later_version_are_left_out() -> None:
    point = {"broker": 1, "kind": "later", "time": 0.5, "first": 0, "end": 1, "colour": "red"}
    data = msgpack.packb({"broker": 1, "started_ms": 2, "now": 3.0, "more": 4}) + msgpack.packb(point)
    assert decode_trace(data).points == (TracePoint(1, "later", 0.5, 0, 1),)


@pytest.mark.parametrize("data", [b"", b"<html>", FRAMES.encode()[1:], msgpack.packb([1])])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not the trace"):
        decode_trace(data)
