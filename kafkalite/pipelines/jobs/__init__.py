"""The jobs that a pipeline's ``job`` may name, each in a module that is imported only when it runs."""

from __future__ import annotations

from pathlib import Path

JOBS: dict[str, tuple[str, str]] = {
    "connect": ("kafkalite.pipelines.connect.job", "files and tables into topics, topics into files and tables"),
    "delays": ("kafkalite.pipelines.jobs.delays", "flights joined with weather and planes: delays in windows of time"),
    "activity": ("kafkalite.pipelines.jobs.activity", "page views, clicks and searches: sessions, and a warehouse"),
    "metrics": ("kafkalite.pipelines.jobs.metrics", "operational figures of many processes, aggregated, with alerts"),
    "log-aggregation": ("kafkalite.pipelines.jobs.log_aggregation", "log files of many hosts in one topic and format"),
    "commit-log": ("kafkalite.pipelines.jobs.commit_log", "a database's changes in a compacted topic, and back"),
    "suggestions": ("kafkalite.pipelines.jobs.suggestions", "product suggestions from ratings, as they arrive"),
}
"""Name → (module with ``Options`` and ``start``, one line of help)."""


def examples() -> list[Path]:
    """The files of pipelines that come with this package."""
    return sorted((Path(__file__).parents[1] / "examples").glob("*.toml"))
