"""The commands of docs/security.md lead from nothing to a secured cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.harness.documented import run_commands, shown_commands
from kafkalite.embedded.processes import free_ports, is_free

pytestmark = pytest.mark.kafkalite_only
BROKERS = 3


def port_base() -> int:
    """The first of three free ports in a row."""
    return next(port for port in iter(lambda: free_ports(1)[0], 0) if all(map(is_free, range(port, port + BROKERS))))


def test_ten_minutes(tmp_path: Path) -> None:
    """All commands, unchanged except for the installation (which is this one) and the ports."""
    install, commands = shown_commands("docs/security.md", "From nothing to a secured cluster in ten minutes")
    assert install == "pip install 'kafkalite[testing]'\n"
    output = run_commands(
        commands.replace("9092", str(port_base())), tmp_path, [["cluster", "stop", "--dir", "cluster"]], timeout=300
    )
    assert "\none coffee\n" in output
    assert "orders in ['orders']" in output
    assert " 0 faults" in output
