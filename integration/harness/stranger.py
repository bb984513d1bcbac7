"""A user's project: an environment with only the built wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT = 600


def build_wheel(directory: Path) -> Path:
    """Kafkalite's wheel, built in ``directory``."""
    source = directory / "source"
    # Build from a copy, because a build leaves folders in its source and the next build takes modules from them.
    for name in ("kafkalite", "zk_schema"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(directory), str(source))
    (wheel,) = directory.glob("kafkalite-*.whl")
    return wheel


def make_environment(directory: Path, wheel: Path, extra: str, *, borrow: bool) -> Path:
    """The interpreter of a new environment in ``directory`` that has the ``wheel`` with ``extra``.

    ``borrow``: take kafkalite's dependencies from the environment of this process, which takes seconds instead of
    minutes; otherwise the dependencies of the wheel are installed.
    """
    # Without its own pip and without compiled modules, because both take seconds and no test needs them.
    run(sys.executable, "-m", "venv", "--without-pip", str(directory / "venv"))
    python = directory / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile")
    run(*pip, *(["--no-deps"] if borrow else []), f"kafkalite[{extra}] @ {wheel.as_uri()}")
    if borrow:
        # A path file, so that the borrowed packages come after the environment's own and without their .pth files, one
        # of which points to the checkout.
        own = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (Path(own) / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def run(*command: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Output of a command; the test fails with it if the command fails.

    The command does not see the checkout's modules, and a pytest among the commands does not take itself for a worker
    of this run.
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
