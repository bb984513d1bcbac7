"""Where numba keeps what it has compiled.

Answers to: nothing in Kafka; it makes machine code of :mod:`kafkalite.spark.kernels`. Shell: it looks at files.

Numba keeps its cache beside the source where it may write there, else in the user's cache directory; an executor may
have neither (a read-only installation, a user without a home), and then numba refuses to compile at all.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def prepare_cache(source: str) -> None:
    """Make sure that numba has a place for the code of ``source``; ``NUMBA_CACHE_DIR`` is respected."""
    if numba.config.CACHE_DIR:
        return
    beside = Path(source).parent / "__pycache__"
    if os.access(beside if beside.is_dir() else beside.parent, os.W_OK):
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache")
    while not home.exists() and home != home.parent:
        home = home.parent
    if os.access(home, os.W_OK):
        return
    # Another's directory in a place that all may write to would be another's code in our process.
    directory = Path(tempfile.gettempdir()) / f"kafkalite-numba-{_user()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        directory = Path(tempfile.mkdtemp(prefix="kafkalite-numba-"))
    numba.config.CACHE_DIR = str(directory)


def compiled(signature: str | None = None) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: machine code, kept from one process to the next, that lets other threads run."""

    def decorate(function: Callable[..., Any]) -> Any:
        prepare_cache(function.__code__.co_filename)
        options = {"cache": True, "nogil": True}
        return numba.njit(**options)(function) if signature is None else numba.njit(signature, **options)(function)

    return decorate


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
