"""Rows, lag and bad records, out of what Spark reports."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.pipelines.progress import advance, behind, line
from kafkalite.pipelines.state import QueryStatus


def progress(rows: int, *, description: str = "KafkaliteSource", bad: int = 0) -> Any:
    """One micro-batch of 100 rows a second, 40 records behind."""
    source = SimpleNamespace(
        description=description, endOffset='{"t": {"0": 5, "1": 0}}', latestOffset='{"t": {"0": 25, "1": 20}}'
    )
    observed = {"records": SimpleNamespace(asDict=lambda: {"bad": bad})}
    return SimpleNamespace(
        numInputRows=rows, processedRowsPerSecond=100.0, batchId=7, sources=[source], observedMetrics=observed
    )


def test_micro_batches_add_up() -> None:
    status = QueryStatus()
    advance(status, progress(10, bad=2), 1.0)
    advance(status, progress(5), 2.0)
    assert status == QueryStatus(rows=15, rate=100.0, batch=7, bad=2, lag=40, at=2.0)
    assert line("p.connect", status) == "p.connect: 15 rows, 100/s, lag 40, 2 bad"


def test_rounds_of_a_table_are_no_rows() -> None:
    status = QueryStatus(rows=3)
    advance(status, progress(1, description="RatePerMicroBatchStream[…]"), 1.0)
    assert (status.rows, status.rate) == (3, 0.0)


FILES = {"1:2": {"path": "a", "position": 10}}
LAGS: list[tuple[Any, Any, int | None]] = [
    ({"t": {"0": 5}}, {"t": {"0": 25, "1": 20}}, 40),
    ({"t": {"0": 5}}, {"t": {"0": 5}}, 0),
    (FILES, {"1:2": {"path": "a", "position": 30}, "3:4": {"path": "b", "position": 5}}, 25),
    ({"t": {"0": 5}}, None, None),
    (None, {"t": {"0": 5}}, None),
    (5, 6, None),
    ({}, {}, None),
]


@pytest.mark.parametrize(("end", "latest", "expected"), LAGS)
def test_lag(end: Any, latest: Any, expected: int | None) -> None:
    assert behind([(json.dumps(end), json.dumps(latest))]) == expected


def test_lag_of_something_else() -> None:
    assert behind([("no json", None)]) is None
