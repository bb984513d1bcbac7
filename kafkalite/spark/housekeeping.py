"""What Spark's Python processes do after every step, made cheap.

Answers to: nothing in Kafka. Shell: it changes the interpreter that it runs in, and only one of Spark's.

Spark keeps a few Python processes: some plan, others run tasks. Each of their steps, however small, ends with a full
garbage collection, which writes to everything that a forked process shares with its parent, and so copies it.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from functools import cache
from pathlib import Path

from kafkalite.spark.archives import keep_directories

_MODULES = ("pyspark.daemon", "kafkalite.spark.daemon")
_MAPS = Path("/proc/self/maps")


def settle() -> None:
    """Call it in each step, when what the step needs is loaded. Elsewhere than in a process of Spark's it does
    nothing."""
    if not _in_spark_process():
        return
    keep_directories()
    _freeze()


@cache
def _freeze() -> None:
    """What is there now stays: no collection looks at it. Not even one before: it would do what this is to prevent."""
    gc.freeze()


def let_code_go(library: str) -> None:
    """Take the machine code of a loaded library out of this process's memory; what is run again comes back from the
    file. Elsewhere than on Linux it does nothing."""
    if not _MAPS.exists():
        return
    madvise = ctypes.CDLL(None).madvise
    for line in _MAPS.read_text().splitlines():
        place, access, *rest = line.split()
        # Code that may not be written to is as in the file. Its constants may have been relocated: they must stay.
        if access == "r-xp" and library in rest[-1]:
            start, end = (int(address, 16) for address in place.split("-"))
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def _in_spark_process() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name in _MODULES
