"""Spark's Python daemon with the decoder loaded: its workers share that memory, and start sooner.

Answers to: nothing in Kafka; ``spark.python.daemon.module=kafkalite.spark.daemon`` puts it in place of
``pyspark.daemon``. Shell.

Workers are forks of the daemon. By Spark's own daemon each of them loads numba and the machine code anew: more than a
hundred megabytes and a second or two, for every core.
"""

from __future__ import annotations

import gc
import os
import sys

from kafkalite.spark.archives import use_installed


def main() -> None:
    """Load, then be Spark's daemon."""
    # No thread that a fork would lose may run: numpy's library of linear algebra would start some.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    use_installed()
    from pyspark import daemon

    if "pyspark.worker" in sys.argv:
        _load()
    daemon.manager()


def _load() -> None:
    """What a worker needs for its first task."""
    from kafkalite.spark import decode, kernels, reading  # noqa: F401
    from kafkalite.spark.housekeeping import settle

    kernels.warm_up()
    gc.collect()
    settle()


if __name__ == "__main__":
    main()
