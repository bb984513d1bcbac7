"""Three whole brokers in one process: what is acknowledged outlives its leader, and one seed is one history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.testing.simulation.slice import run_slice

ROOT = Path(__file__).parents[3]
PRINT = "from tests.testing.simulation.slice import run_slice; print(run_slice({seed}).digest)"


def test_acknowledged_records_outlive_the_leader() -> None:
    outcome = run_slice(1)
    story = "\n".join(outcome.lines)
    assert not outcome.breaches, f"{outcome.breaches}\n{story}"
    assert not outcome.failures, story
    assert outcome.acked > 50, story
    assert outcome.events > 2000


def test_one_seed_is_one_history() -> None:
    """Also in another process, with another order of hashes."""
    other = subprocess.run(
        [sys.executable, "-c", PRINT.format(seed=2)],
        env={**os.environ, "PYTHONHASHSEED": "8" if os.environ.get("PYTHONHASHSEED") == "7" else "7"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run_slice(2).digest == run_slice(2).digest == other.stdout.strip()


def test_another_seed_is_another_history() -> None:
    assert run_slice(3).digest != run_slice(4).digest
