"""File systems of a known size under a broker's logs."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Path]:
    """A tmpfs at ``path``; the test is skipped where mounting is not allowed."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "kafkalite-test", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a small disk needs mount(8)")
    if mounted.returncode:
        pytest.skip(f"mounting a small disk is not allowed here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        # Lazily, because a broker that is being killed may have open files there.
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> Path:
    """Fill the disk with one file, which is returned; its removal frees the space."""
    ballast = path / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast
