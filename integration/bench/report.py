"""Results of the bench: kept in a file during the run, shown as a table, written as Markdown."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import libversion

from integration.bench.cell import Cell, Figure
from integration.bench.side import KAFKA_HEAP
from integration.harness.peers import java

TABLE = ("| work | unit | kafkalite | Kafka 3.9.1 | ratio | target | |", "|---|---|---:|---:|---:|---|---|")


NOTES = "## Notes"
"""Heading of the notes, which are written by hand and kept in a new report."""


class Results:
    """The figures of every round, kept in the file ``store`` if there is one, so that a run may repeat single cells."""

    def __init__(self, store: Path | None = None) -> None:
        self._store = store
        self._rounds: dict[str, dict[str, list[dict[str, float]]]] = {}
        if store is not None and store.exists():
            self._rounds = json.loads(store.read_text())

    def forget(self, cell: Cell) -> None:
        """Delete the figures of a cell before it is measured again."""
        self._rounds.pop(cell.name, None)

    def add(self, cell: Cell, side: str, values: dict[str, float]) -> None:
        """Add one round of one side, and print it."""
        self._rounds.setdefault(cell.name, {}).setdefault(side, []).append(values)
        if self._store is not None:
            self._store.write_text(json.dumps(self._rounds, indent=1))
        shown = "  ".join(f"{name} {number(value)}" for name, value in values.items())
        print(f"{cell.name:20} {side:10} {shown}", flush=True)

    def of(self, cell: Cell) -> Mapping[str, Sequence[Mapping[str, float]]]:
        """Side → the figures of its rounds."""
        return self._rounds.get(cell.name, {})

    def table(self, cells: Sequence[Cell]) -> str:
        """The figures as a table for a terminal."""
        lines = [f"{'cell':22}{'':12}{'kafkalite':>12}{'Kafka':>12}{'ratio':>8}  target"]
        for figure in (figure for cell in cells for figure in cell.figures(self.of(cell))):
            met = figure.metric.met(figure.kafkalite, figure.kafka)
            mark = {None: "", True: "met", False: "MISSED"}[met]
            lines.append(
                f"{figure.cell.name:22}{figure.metric.name:12}{number(figure.kafkalite):>12}{number(figure.kafka):>12}"
                f"{figure.ratio:>8.2f}  {figure.metric.target()} {mark}"
            )
        return "\n".join(lines)


def number(value: float) -> str:
    """A number with three significant digits."""
    if value >= 100000:
        return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1000:.0f} k"
    if value >= 10000:
        return f"{value / 1000:.1f} k"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write_report(path: Path, cells: Sequence[Cell], results: Results, rounds: int, minutes: float) -> None:
    """Write the report: machine and versions, then a table for each group, then the notes of the old report."""
    parts = [_head(rounds, minutes)]
    for group in dict.fromkeys(cell.group for cell in cells):
        rows = [_row(figure) for cell in cells if cell.group == group for figure in cell.figures(results.of(cell))]
        if rows:
            parts.append("\n".join([f"## {group}", "", *TABLE, *rows, ""]))
    written = path.read_text() if path.exists() else ""
    if NOTES in written:
        parts.append(written[written.index(NOTES) :])
    path.write_text("\n".join(parts))


def _head(rounds: int, minutes: float) -> str:
    now = datetime.now(UTC)
    revision = _output(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"])
    jvm = _output([java(), "-version"]).splitlines()[0]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1e6
    clients = f"Python {platform.python_version()}, {jvm}, librdkafka {libversion()[0]}"
    return (
        "# Performance\n\n"
        "kafkalite beside Apache Kafka 3.9.1 in ZooKeeper mode, on one machine, in turn. Written by\n"
        "`make bench`.\n\n"
        f"- {now:%Y-%m-%d %H:%M} UTC, revision {revision or 'unknown'}, {minutes:.0f} minutes, "
        f"medians of {rounds} rounds\n"
        f"- {_processor()}, {os.cpu_count()} cores shared by brokers, ZooKeeper and clients, {memory:.0f} GB; "
        f"{platform.system()} {platform.release()}, {clients}\n"
        f"- three brokers a side, Kafka with {KAFKA_HEAP} heaps as its start script gives them; otherwise defaults\n"
        "- CPU and memory are those of the broker processes (with kafkalite's guardian), not of clients or ZooKeeper\n"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode == 0 else ""


def _row(figure: Figure) -> str:
    met = figure.metric.met(figure.kafkalite, figure.kafka)
    mark = {None: "", True: "✓", False: "**missed**"}[met]
    metric = figure.metric
    return (
        f"| {figure.cell.title} | {metric.unit} | {number(figure.kafkalite)} | {number(figure.kafka)} "
        f"| {figure.ratio:.2f} | {metric.target()} | {mark} |"
    )
