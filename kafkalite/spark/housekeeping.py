"""Less memory and time for Spark's Python processes between their steps.

Answers to: nothing in Kafka. Shell: it changes the interpreter that it runs in, if that is one of Spark's.

Spark keeps several Python processes: some plan, others run tasks. Each of their steps, however small, ends with a full
garbage collection. That writes to all objects that a forked process shares with its parent, and so copies them.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from kafkalite.spark.archives import keep_directories

_MODULES = ("pyspark.daemon", "kafkalite.spark.daemon")
_SMAPS = Path("/proc/self/smaps")


def freeze_objects() -> None:
    """Keep garbage collections away from the objects of this process, from the first call on.

    Call it in each step, after the modules of the step are loaded. Does nothing outside of Spark's own processes.
    """
    if not _in_spark_process():
        return
    keep_directories()
    _freeze()


@cache
def _freeze() -> None:
    """``gc.freeze()`` without a collection before it, because a collection writes to pages that processes share."""
    gc.freeze()


def release_libraries() -> None:
    """Release the unchanged pages of loaded libraries, because most serve the start only (numba's compiler above all).
    The system reads pages from their files again when they are used. Does nothing on other systems than Linux."""
    try:
        lines = _SMAPS.read_text(errors="replace").splitlines()
    except OSError:
        return
    madvise = ctypes.CDLL(None).madvise
    for start, size in _clean_files(lines):
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def _clean_files(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Start and size of each mapping of a file in ``smaps`` that has no changed page.

    Changed pages must stay: those that the dynamic linker has relocated are not in the file.
    """
    start = size = own = 0
    for line in lines:
        name, *rest = line.split(maxsplit=5)
        if not name.endswith(":"):
            begin, end = (int(address, 16) for address in name.split("-"))
            from_file = rest[-1].startswith("/") and rest[0].startswith("r-")
            start, size, own = begin, end - begin if from_file else 0, 0
        elif name in ("Anonymous:", "Swap:"):
            own += int(rest[0])
        elif name == "VmFlags:" and size and not own:
            yield start, size


def _in_spark_process() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name in _MODULES
