"""Logs as a whole: flushes, log directories that failed, compaction.

Answers to: the metrics of ``kafka.log.{LogFlushStats,LogManager,LogCleaner,LogCleanerManager}``. Deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kafkalite.common.clock import Clock
from kafkalite.log.log_manager import LogManager
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample, percentiles

_DISK: Final = "Replace the disk, then restart the broker."
_SEE: Final = "The broker's log says why."


def _gauge(
    type_: str, bean: str, meaning: str, unit: str = "", remedy: str = "", labels: tuple[str, ...] = ()
) -> MetricDefinition:
    name = f"kafka_log_{type_.lower()}_{bean.lower().replace('-', '_')}"
    places = "".join(f",{label}={{{label}}}" for label in labels)
    return MetricDefinition(
        name, MetricKind.GAUGE, meaning, labels, unit, f"kafka.log:type={type_},name={bean}{places}", remedy
    )


FLUSHES: Final = MetricDefinition(
    "kafka_log_logflushstats_logflushrateandtimems",
    MetricKind.SUMMARY,
    "Flushes of logs to the disk and how long they took.",
    unit="milliseconds",
    bean="kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    remedy="Long ones mean a slow disk.",
)
OFFLINE: Final = _gauge("LogManager", "OfflineLogDirectoryCount", "Log directories that failed.", remedy=_DISK)
DIRECTORY: Final = _gauge(
    "LogManager", "LogDirectoryOffline", "1 where the log directory failed.", "", _DISK, ("logDirectory",)
)
MAX_TIME: Final = _gauge("LogCleaner", "max-clean-time-secs", "Time of the latest round of compaction.", "seconds")
RECOPIED: Final = _gauge(
    "LogCleaner",
    "cleaner-recopy-percent",
    "Share of the bytes read in the latest round that it kept.",
    "percent",
    "Near 100 compaction removes little: raise min.cleanable.dirty.ratio.",
)
DEAD: Final = _gauge("LogCleaner", "DeadThreadCount", "Always 0: a worker that dies is replaced.")
DEATHS: Final = MetricDefinition(
    "kafkalite_log_logcleaner_worker_deaths", MetricKind.COUNTER, "Deaths of compaction workers.", remedy=_SEE
)
ROUNDS: Final = MetricDefinition("kafkalite_log_logcleaner_rounds", MetricKind.COUNTER, "Rounds of compaction.")
BYTES_READ: Final = MetricDefinition(
    "kafkalite_log_logcleaner_bytes_read", MetricKind.COUNTER, "Bytes that rounds of compaction read.", unit="bytes"
)
BYTES_WRITTEN: Final = MetricDefinition(
    "kafkalite_log_logcleaner_bytes_written", MetricKind.COUNTER, "Bytes that rounds of compaction kept.", unit="bytes"
)
UNCLEANABLE: Final = _gauge(
    "LogCleanerManager",
    "uncleanable-partitions-count",
    "Partitions that cannot be compacted.",
    "",
    _SEE,
    ("logDirectory",),
)
UNCLEANABLE_BYTES: Final = _gauge(
    "LogCleanerManager", "uncleanable-bytes", "Their bytes.", "bytes", _SEE, ("logDirectory",)
)
DIRTIEST: Final = _gauge(
    "LogCleanerManager", "max-dirty-percent", "Dirty share of the dirtiest log when the cleaner last looked.", "percent"
)
SINCE: Final = _gauge(
    "LogCleanerManager",
    "time-since-last-run-ms",
    "Since the cleaner last looked for dirty logs; 0 where nothing is compacted.",
    "milliseconds",
)


class LogMetricsCollector:
    """Reads the :class:`LogManager`."""

    DEFINITIONS = (
        *(FLUSHES, OFFLINE, DIRECTORY, MAX_TIME, RECOPIED, DEAD, DEATHS, ROUNDS, BYTES_READ, BYTES_WRITTEN),
        *(UNCLEANABLE, UNCLEANABLE_BYTES, DIRTIEST, SINCE),
    )

    def __init__(self, logs: LogManager, clock: Clock) -> None:
        self._logs = logs
        self._clock = clock

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        logs = self._logs
        flushes = logs.flush_times
        yield percentiles(FLUSHES, (), flushes.count, sorted(1000 * each for each in flushes.latest))
        samples = [MetricSample(OFFLINE, (), len(logs.offline_dirs))]
        samples += [MetricSample(DIRECTORY, (path,), path in logs.offline_dirs) for path in logs.log_dirs]
        stats = logs.cleaner.stats
        last = stats.last
        recopied = 100 * last.bytes_written / last.bytes_read if last.bytes_read else 0.0
        since = 0.0 if stats.last_run is None else 1000 * (self._clock.monotonic() - stats.last_run)
        for metric, value in (
            (MAX_TIME, last.seconds),
            (RECOPIED, recopied),
            (DEAD, 0),
            (DEATHS, stats.deaths),
            (ROUNDS, stats.rounds),
            (BYTES_READ, stats.bytes_read),
            (BYTES_WRITTEN, stats.bytes_written),
            (DIRTIEST, 100 * stats.max_dirty_ratio),
            (SINCE, since),
        ):
            samples.append(MetricSample(metric, (), value))
        counts = dict.fromkeys(logs.log_dirs, 0)
        sizes = Counter(counts)
        for tp in logs.cleaner.uncleanable:
            log = logs.get(tp)
            if log is not None:
                counts[log.log_dir] = counts.get(log.log_dir, 0) + 1
                sizes[log.log_dir] += log.size
        samples += [MetricSample(UNCLEANABLE, (path,), count) for path, count in counts.items()]
        samples += [MetricSample(UNCLEANABLE_BYTES, (path,), size) for path, size in sizes.items()]
        yield samples
