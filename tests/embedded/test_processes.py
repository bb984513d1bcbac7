"""Free ports: apart from the kernel's own, and given to one only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.embedded import processes
from kafkalite.embedded.processes import USUAL_PORTS, _claim, free_ports, server_ports


@pytest.mark.parametrize(
    ("ephemeral", "ports"),
    [
        ("32768\t60999\n", USUAL_PORTS),
        ("49152 65535", USUAL_PORTS),
        ("16000 65535", range(10000, 16000)),
        ("1024 50000", range(50001, 65536)),
        ("1024 65535", USUAL_PORTS),  # nothing is left: as likely as any
        ("nonsense", USUAL_PORTS),
    ],
)
def test_no_port_is_the_kernels(tmp_path: Path, ephemeral: str, ports: range) -> None:
    file = tmp_path / "range"
    file.write_text(ephemeral)
    assert server_ports(file) == ports
    assert server_ports(tmp_path / "none") == USUAL_PORTS


def test_a_port_is_given_once() -> None:
    """No port is given twice, neither here nor to another process, also before a server listens on it."""
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert not any(_claim(port) for port in ports)
    script = (
        "import sys; from kafkalite.embedded.processes import _claim; print([_claim(int(p)) for p in sys.argv[1:]])"
    )
    said = subprocess.check_output([sys.executable, "-c", script, *map(str, ports)], text=True)
    assert said.strip() == str([False] * 20)


def test_all_ports_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "server_ports", lambda: range(20000, 20003))
    monkeypatch.setattr(processes, "is_free", lambda *_: False)
    with pytest.raises(StartupError, match=r"no free port on 127\.0\.0\.1"):
        free_ports(1)
