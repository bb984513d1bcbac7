"""Numba's decorator, and a folder for its cache.

Answers to: nothing in Kafka; it makes machine code of :mod:`kafkalite.spark.kernels`. Shell: it looks at files.

Numba keeps its cache beside the source if it may write there, otherwise in the user's cache directory. An executor may
have neither (a read-only installation, a user without a home), and then numba refuses to compile.
"""

from __future__ import annotations

import getpass
import inspect
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., object])
Octets = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Ints = np.ndarray[tuple[int, ...], np.dtype[np.int32]]
Longs = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Number = int | np.int64
"""What arithmetic in a kernel gives."""


def prepare_cache(source: str) -> None:
    """Make sure that numba has a folder for the code of ``source``; ``NUMBA_CACHE_DIR`` goes before all others."""
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
    # All users may write to the temporary directory: a folder of another user could hold that user's machine code.
    directory = Path(tempfile.gettempdir()) / f"kafkalite-numba-{_user()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        directory = Path(tempfile.mkdtemp(prefix="kafkalite-numba-"))
    numba.config.CACHE_DIR = str(directory)


def compiled(signature: str | None = None) -> Callable[[F], F]:
    """A decorator: compiles to machine code that is cached for later processes and releases the GIL."""

    def decorate(function: F) -> F:
        prepare_cache(inspect.getfile(function))
        options = {"cache": True, "nogil": True}
        made: F = numba.njit(**options)(function) if signature is None else numba.njit(signature, **options)(function)
        return made

    return decorate


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
