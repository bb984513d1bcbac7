"""The commands of docs/security.md lead from nothing to a secured cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.harness.documented import desk

pytestmark = pytest.mark.kafkalite_only


def test_ten_minutes(tmp_path: Path) -> None:
    """All commands, unchanged except for the installation (which is this one) and the ports."""
    with desk(tmp_path) as reader:
        output = reader.compare("docs/security.md", __file__)
    assert "\none coffee\n" in output
    assert "orders in ['orders']" in output
    assert " 0 faults" in output
