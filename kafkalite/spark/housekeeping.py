"""What Spark's Python processes do after every step, made cheap.

Answers to: nothing in Kafka. Shell: it changes the interpreter that it runs in, and only one of Spark's.

Spark keeps a few Python processes: some plan, others run tasks. Each of their steps, however small, ends with a full
garbage collection, which writes to everything that a forked process shares with its parent, and so copies it.
"""

from __future__ import annotations

import gc
import sys

from kafkalite.spark.archives import keep_directories

_MODULES = ("pyspark.daemon", "kafkalite.spark.daemon")


def settle() -> None:
    """Call it in each step, when what the step needs is loaded. Elsewhere than in a process of Spark's it does
    nothing."""
    if not _in_spark_process():
        return
    keep_directories()
    if not gc.get_freeze_count():
        # What is there now stays: no collection looks at it. Not even one before: it would do what this is to prevent.
        gc.freeze()


def _in_spark_process() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name in _MODULES
