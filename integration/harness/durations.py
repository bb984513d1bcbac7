"""Minutes of a test run, by file and by worker: shown before the closing line and kept in a file."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

KEPT = Path("build") / "tests" / "durations.txt"
"""The file that CI keeps, below the root of the project."""
SHOWN = 15
SERIAL = "one process"


class Durations:
    """A plugin of the process that receives all test reports. ``root`` is the project's folder."""

    def __init__(self, root: Path) -> None:
        self._kept = root / KEPT
        self._files: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[str, set[str]] = defaultdict(set)
        self._workers: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add setup, call and teardown of each test."""
        file = report.nodeid.partition("::")[0]
        self._files[file] += report.duration
        self._tests[file].add(report.nodeid)
        self._workers[getattr(report, "worker_id", SERIAL)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write all durations to the file, and show the longest."""
        if not self._files:
            return
        workers = [line(seconds, name) for name, seconds in sorted(self._workers.items())]
        by_length = sorted(self._files.items(), key=lambda entry: -entry[1])
        files = [line(seconds, f"{name} ({len(self._tests[name])} tests)") for name, seconds in by_length]
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        self._kept.write_text("\n".join(["minutes of each worker", *workers, "minutes of each file", *files, ""]))
        terminalreporter.section(f"minutes by worker and by file, all in {KEPT}")
        for text in [*workers, *files[:SHOWN]]:
            terminalreporter.write_line(text)


def line(seconds: float, name: str) -> str:
    """One row of the table."""
    return f"{seconds / 60:6.2f}  {name}"
