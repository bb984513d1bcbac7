"""The changes of a micro-batch; ``integration/pipelines`` tests the rest with a real PostgreSQL."""

from __future__ import annotations

from kafkalite.pipelines.changes.copy import TopicRow, latest


def test_the_last_value_of_each_key() -> None:
    rows = [
        TopicRow(0, 3, b"a", b"1"),
        TopicRow(0, 4, b"b", b"1"),
        TopicRow(0, 7, b"a", None),
        TopicRow(1, 2, b"c", None),
        TopicRow(1, 3, b"c", b"2"),
        TopicRow(1, 4, None, b"nobody's"),
    ]
    assert latest(rows) == {b"a": None, b"b": b"1", b"c": b"2"}
