"""Somebody else's project: an environment with the built wheel alone, and the files that a document shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(?:python|ini)\n# (?P<name>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT = 600


def shown_files(document: Path) -> dict[str, str]:
    """File name → text of each file that ``document`` shows: blocks whose first line is a comment with a name."""
    return {found["name"]: found["text"] for found in BLOCK.finditer(document.read_text())}


def make_environment(directory: Path, extra: str, *, borrow: bool) -> Path:
    """The interpreter of a new environment in ``directory`` that has kafkalite's wheel with ``extra``.

    ``borrow``: what kafkalite needs comes from the environment of this process, which takes seconds instead of minutes;
    otherwise it is installed anew, as the wheel asks for it.
    """
    source = directory / "source"
    # A build leaves folders in its source, and takes modules from them the next time.
    for name in ("kafkalite", "zk_schema"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(directory), str(source))
    (wheel,) = directory.glob("kafkalite-*.whl")
    run(sys.executable, "-m", "venv", str(directory / "venv"))
    python = directory / "venv" / "bin" / "python"
    run(
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        *(["--no-deps"] if borrow else []),
        f"kafkalite[{extra}] @ {wheel.as_uri()}",
    )
    if borrow:
        # Behind the environment's own packages, and without the link to the checkout, since that is a .pth file, too.
        own = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (Path(own) / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def run(*command: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """What a command printed; the test fails with it where the command did. The checkout's modules are not seen.

    A pytest among the commands does not take itself for a worker of this run.
    """
    inherited = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        command,
        cwd=cwd or "/",
        env={**inherited, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout
