"""Giving memory that was needed under load back to the system.

Answers to: what a JVM's collector does when it shrinks its heap. Reactor shell.

The C library keeps freed memory for later, also hundreds of megabytes of it; nothing in Python asks for it.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Hand free memory to the system where the C library can (glibc). Takes milliseconds: not under load."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
