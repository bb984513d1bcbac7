"""Runs histories with a planted bug, in separate processes, until one of them has a violation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from integration.planted_bugs.bug import PlantedBug
from integration.planted_bugs.planting import PACKAGE, plant

_SIMULATION = "kafkalite.testing.simulation"


class Hunt(NamedTuple):
    """Result of a hunt: the number of ``histories``, and the ``seed`` of the violated one (0: none)."""

    bug: PlantedBug
    histories: int
    seconds: float
    seed: int
    violation: str

    @property
    def found(self) -> bool:
        """Whether a history was violated."""
        return self.seed > 0


class _Campaign(NamedTuple):
    """The number of histories that were run, and the seed of the violated one (0: none)."""

    histories: int
    seed: int
    violation: str


def hunt(bug: PlantedBug, histories: int, jobs: int, first: int = 1) -> Hunt:
    """Plant ``bug`` in a copy of the package and run up to ``histories`` histories there, from seed ``first`` on.

    A history that has a violation without the bug, too, does not count. Raises ``RuntimeError`` if the simulation
    itself fails.
    """
    started = time.monotonic()
    run, end = 0, first + histories
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        plant(bug, folder)
        while first < end:
            found = _campaign(folder, first, end - 1, jobs)
            run += found.histories
            if not found.seed:
                break
            if not _campaign(PACKAGE.parent, found.seed, found.seed, 1).seed:
                return Hunt(bug, run, time.monotonic() - started, found.seed, found.violation)
            first = found.seed + 1
    return Hunt(bug, run, time.monotonic() - started, 0, "")


def _campaign(folder: Path, first: int, last: int, jobs: int) -> _Campaign:
    """Run histories with the package in ``folder`` up to the first violation. Raises ``RuntimeError``."""
    seeds = f"{first}..{last}"
    process = subprocess.run(
        [sys.executable, "-m", _SIMULATION, "--seeds", seeds, "--jobs", str(jobs), "--stop-at-first", "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    violated = [outcome for outcome in outcomes if outcome["violations"]]
    if not outcomes or (process.returncode and not violated):
        raise RuntimeError(f"histories {seeds} ended with {process.returncode}:\n{process.stderr[-4000:]}")
    seed, violation = (violated[0]["seed"], violated[0]["violations"][0]) if violated else (0, "")
    return _Campaign(len(outcomes), seed, violation)
