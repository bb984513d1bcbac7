"""The rules' state in Spark: applies :mod:`alert_rules` to the samples of one process in a micro-batch.

Answers to: nothing in Kafka; ``GroupState`` of Spark. Shell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kafkalite.pipelines.jobs.alert_rules import Alert, AlertRule, Watch, end, step

if TYPE_CHECKING:
    import pandas
    from pyspark.sql.streaming.state import GroupState

Watches = dict[str, Watch]
"""Name of a rule → its state."""


def observe(
    rules: Sequence[AlertRule],
    key: tuple[str, str],
    frames: Iterable[pandas.DataFrame],
    state: GroupState,
    timeout_ms: int,
) -> Iterator[pandas.DataFrame]:
    """What is to be told of the samples in ``frames`` of the process ``key``: ``at`` in seconds since 1970,
    ``metrics`` as JSON.

    They come in any order within a micro-batch. After ``timeout_ms`` without one the state is gone.
    """
    watches = read(state.get[0]) if state.exists else {}
    concerned = [rule for rule in rules if rule.concerns(key[1])]
    if state.hasTimedOut:
        now = state.getCurrentWatermarkMs() / 1000
        state.remove()
        yield from _rows(key, [end(rule, watches.get(rule.name), now) for rule in concerned])
        return
    told: list[Alert | None] = []
    newest = 0.0
    for time, metrics in sorted((row.at, row.metrics) for frame in frames for row in frame.itertuples(index=False)):
        newest, values = max(newest, time), json.loads(metrics)
        for rule in concerned:
            watch, alert = step(rule, watches.pop(rule.name, None), time, values)
            told.append(alert)
            if watch is not None:
                watches[rule.name] = watch
    state.update((write(watches),))
    # A timeout in the past is an error: samples may be older than the watermark already is.
    state.setTimeoutTimestamp(max(int(newest * 1000), state.getCurrentWatermarkMs()) + timeout_ms)
    yield from _rows(key, told)


def write(watches: Watches) -> str:
    """The state as Spark keeps it."""
    return json.dumps({name: asdict(watch) for name, watch in watches.items()})


def read(text: str) -> Watches:
    """The value that :func:`write` has written."""
    return {name: Watch(**fields) for name, fields in json.loads(text).items()}


def _rows(key: tuple[str, str], told: Sequence[Alert | None]) -> Iterator[pandas.DataFrame]:
    import pandas

    rows: list[dict[str, Any]] = [
        {
            "alert": alert.rule.name,
            "state": alert.state,
            "host": key[0],
            "process": key[1],
            "metric": alert.rule.metric,
            "value": alert.value,
            "comparison": alert.rule.comparison,
            "threshold": alert.rule.threshold,
            "since": alert.since,
            "time": alert.time,
        }
        for alert in told
        if alert is not None
    ]
    if rows:
        yield pandas.DataFrame(rows)
