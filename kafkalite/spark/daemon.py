"""Spark's Python daemon with the decoder loaded: its workers share that memory, and start sooner.

Answers to: nothing in Kafka; ``spark.python.daemon.module=kafkalite.spark.daemon`` puts it in place of
``pyspark.daemon``. Shell.

Workers are forks of the daemon. By Spark's own daemon each of them loads numba and the machine code anew: more than a
hundred megabytes and a second or two, for every core.
"""

from __future__ import annotations

import gc
import os

from kafkalite.spark.archives import keep_directories, use_installed


def main() -> None:
    """Load, then be Spark's daemon."""
    # No thread may run when a daemon forks: numpy's library of linear algebra would start some, and so would pyarrow,
    # which is therefore left to the workers.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    use_installed()
    from pyspark import daemon

    from kafkalite.spark.kernels import warm_up

    warm_up()
    keep_directories()
    # What is there now stays: a collection in a worker must not write to it, and so copy it.
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
