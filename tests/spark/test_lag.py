"""The lag that the listener computes from a query's progress."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from kafkalite.spark.lag import LagListener, QueryLag


def event(*sources: tuple[str | None, str | None]) -> SimpleNamespace:
    made = [SimpleNamespace(endOffset=end, latestOffset=latest) for end, latest in sources]
    return SimpleNamespace(progress=SimpleNamespace(id="query", name=None, batchId=4, sources=made))


def test_each_source_that_reads_topics_is_reported() -> None:
    said: list[QueryLag] = []
    listener = LagListener(said.append)
    listener.onQueryStarted(None)
    listener.onQueryProgress(
        event(
            ('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}'),
            ("17", "20"),
            (None, None),
            ('{"t":{"0":5}}', "null"),
            ('{"files":{"name":"x"}}', '{"files":{"name":"x"}}'),
        )
    )
    listener.onQueryIdle(None)
    listener.onQueryTerminated(None)
    metrics = {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 4, "avgOffsetsBehindLatest": 2.0}
    assert said == [QueryLag("query", None, 4, 0, metrics)]


def test_a_listener_without_a_callback_logs_the_lag(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kafkalite.spark.lag"):
        LagListener().onQueryProgress(event(('{"t":{"0":5}}', '{"t":{"0":9}}')))
    assert "query query, micro-batch 4, source 0: minOffsetsBehindLatest 4, maxOffsetsBehindLatest 4" in caplog.text
