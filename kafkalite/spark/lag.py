"""How far a streaming query is behind: a listener for ``spark.streams.addListener``.

Answers to: ``org.apache.spark.sql.kafka010.KafkaMicroBatchStream.metrics``. Shell.

Spark takes no metrics from a source in Python, but it takes the latest offsets and passes them to listeners.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkalite.spark.offsets import Offsets, lag, offsets_from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueryLag:
    """One source of one query after one micro-batch; ``metrics`` under the names of Spark's Kafka source:
    ``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and ``avgOffsetsBehindLatest``."""

    query_id: str
    query_name: str | None
    batch_id: int
    source: int
    metrics: Mapping[str, float]


class LagListener(StreamingQueryListener):  # type: ignore[misc]
    """Calls ``report`` (by default: logs) with a :class:`QueryLag` after each micro-batch of a topic's reader."""

    def __init__(self, report: Callable[[QueryLag], None] | None = None) -> None:
        self._report = report or _log

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Does nothing, because offsets are not known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A micro-batch is done."""
        progress = event.progress
        for number, source in enumerate(progress.sources):
            consumed, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
            metrics = lag(consumed, latest) if consumed and latest else {}
            if metrics:
                self._report(QueryLag(str(progress.id), progress.name, progress.batchId, number, metrics))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Does nothing, because there was no micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Does nothing."""


def _offsets(text: str | None) -> Offsets:
    """Offsets from the progress of a source; none if the source does not read topics."""
    try:
        found = offsets_from_json(json.loads(text or "{}"))
    except (ValueError, AttributeError, TypeError):
        return {}
    return found if all(type(offset) is int for offset in found.values()) else {}


def _log(found: QueryLag) -> None:
    metrics = ", ".join(f"{key} {value:g}" for key, value in found.metrics.items())
    log.info(
        "query %s, micro-batch %d, source %d: %s",
        found.query_name or found.query_id,
        found.batch_id,
        found.source,
        metrics,
    )
