"""Lint, format, types and import contracts as tests, so that `make test` has one summary."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "import contracts": ["lint-imports", "--config", "setup.cfg", "--no-logo"],
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_static_check_has_no_findings(check: str) -> None:
    """Linter, formatter, type checker, import contracts."""
    program, *arguments = CHECKS[check]
    done = subprocess.run([str(BIN / program), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}{done.stderr[-3000:]}"
