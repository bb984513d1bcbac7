"""The progress of a run's micro-batches, from Spark's reports: for the lines on the terminal and ``status.json``.

Answers to: ``org.apache.kafka.connect.runtime.ConnectMetrics``. Pure but for the listener, which only hands on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from kafkalite.pipelines.state import QueryStatus
from kafkalite.spark.offsets import offsets_from_json

_NEW = {"position": 0}


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]
    """Calls ``progressed`` with the name and progress of a query, and ``ended`` with the id of its run."""

    def __init__(self, progressed: Callable[[str, StreamingQueryProgress], None], ended: Callable[[str], None]) -> None:
        self._progressed = progressed
        self._ended = ended

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Ignored, because nothing has been processed yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A micro-batch is complete."""
        self._progressed(event.progress.name, event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Ignored, because there was no new input."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """A query has ended or failed."""
        self._ended(str(event.runId))


def advance(status: QueryStatus, progress: StreamingQueryProgress, now: float) -> None:
    """Add a micro-batch to the counts."""
    # Do not count the stream that triggers the rounds of a table's reader, because it has one row of its own a round.
    rounds = any(source.description.startswith("RatePerMicroBatch") for source in progress.sources)
    rows = 0 if rounds else max(0, int(progress.numInputRows))
    status.rows += rows
    status.rate = float(progress.processedRowsPerSecond or 0.0) if rows else 0.0
    status.batch = int(progress.batchId)
    for metrics in progress.observedMetrics.values():
        status.bad += int(metrics.asDict().get("bad") or 0)
    status.lag = behind([(source.endOffset, source.latestOffset) for source in progress.sources])
    status.at = now


def behind(sources: list[tuple[str | None, str | None]]) -> int | None:
    """The records, or bytes of files, between the sources' positions and their ends."""
    found = [lag for lag in (_behind(_load(end), _load(latest)) for end, latest in sources) if lag is not None]
    return sum(found) if found else None


def _load(text: str | None) -> object:
    try:
        return json.loads(text or "null")
    except ValueError:
        return None


def _behind(end: object, latest: object) -> int | None:
    if not isinstance(end, Mapping) or not isinstance(latest, Mapping) or not latest:
        return None
    try:
        if all("position" in entry for entry in latest.values()):
            return sum(int(entry["position"]) - int(end.get(name, _NEW)["position"]) for name, entry in latest.items())
        done = offsets_from_json(end)
        return sum(max(0, last - done.get(at, 0)) for at, last in offsets_from_json(latest).items())
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def line(name: str, status: QueryStatus) -> str:
    """One line for people."""
    parts = [f"{status.rows:,} rows", f"{status.rate:,.0f}/s"]
    if status.lag is not None:
        parts.append(f"lag {status.lag:,}")
    if status.bad:
        parts.append(f"{status.bad:,} bad")
    return f"{name}: {', '.join(parts)}"
