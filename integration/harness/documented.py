"""The commands that a section of a document shows, run in one shell as its reader would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def shown_commands(document: str, heading: str) -> tuple[str, str]:
    """The installation, which is the first block of the section ``heading``, and the commands of its other blocks."""
    section = (ROOT / document).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    install, *commands = _BLOCK.findall(section)
    return install, "".join(commands)


def run_commands(commands: str, folder: Path, stop: Sequence[Sequence[str]], timeout: float, **variables: str) -> str:
    """The output of ``commands`` in ``folder``, an empty one; the test fails with it if a command fails.

    ``kafkalite`` and ``python3`` are those of this checkout. ``stop`` are commands of kafkalite, which run at the end,
    also after a failure. ``variables`` belong to the environment.
    """
    programs, work = folder / "bin", folder / "work"
    programs.mkdir()
    work.mkdir()
    for name, words in {"kafkalite": ["-m", "kafkalite.cli.main"], "python3": []}.items():
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {" ".join([sys.executable, *words])} "$@"\n')
        script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), **variables}
    try:
        done = subprocess.run(
            ["bash", "-c", f"set -eux -o pipefail\n{commands}"],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    finally:
        for each in stop:
            subprocess.run(
                [programs / "kafkalite", *each], cwd=work, env=environment, stderr=subprocess.DEVNULL, check=False
            )
    said = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, said
    assert "Traceback" not in done.stderr, said
    return done.stdout
