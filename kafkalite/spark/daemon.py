"""Spark's Python daemon with its processes' modules loaded, so that they share that memory and start sooner.

Answers to: nothing in Kafka; ``spark.python.daemon.module=kafkalite.spark.daemon`` puts it in place of
``pyspark.daemon`` for tasks, :mod:`kafkalite.spark.python` for all. Shell.

Spark has a daemon for each of its programs (one runs tasks, others find sources and plan), and forks the processes that
do the work from it. With Spark's own daemon each worker loads numba and the machine code itself: more than a hundred
megabytes and one or two seconds for every core. The first garbage collection of a process copies the memory that it
shares with its daemon.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
from pkgutil import iter_modules

from kafkalite.spark.archives import use_installed
from kafkalite.spark.housekeeping import freeze_objects, release_libraries

TASKS = "pyspark.worker"
"""The program that runs tasks."""
LOOKUP = "pyspark.sql.worker.lookup_data_sources"
"""The program that finds sources: in packages whose names begin with ``pyspark_``."""


def main() -> None:
    """Load the modules, then run Spark's daemon for the program in the first argument."""
    # A fork loses all threads but one, so none may run; numpy's library of linear algebra would start some.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    use_installed()
    from pyspark import daemon

    for program in sys.argv[1:]:
        if program == LOOKUP:
            show_package()
        _load(program)
    daemon.manager()


def show_package() -> None:
    """Put the folder of ``pyspark_kafkalite`` on Python's path if Spark would not see the package.

    Spark sees what lies in a folder of the path. An editable install or a source tree has this package in none of them.
    """
    if all(module.name != "pyspark_kafkalite" for module in iter_modules()):
        sys.path.append(str(Path(__file__).with_name("lookup")))


def _load(program: str) -> None:
    """Import what each process of the daemon would import otherwise."""
    importlib.import_module(program)
    if program == TASKS:
        from pyspark.sql.worker import plan_data_source_read  # noqa: F401

        from kafkalite.protocol.api_keys import ApiKey
        from kafkalite.protocol.codec import request_class
        from kafkalite.spark import batch_reader, decode, kernels  # noqa: F401

        kernels.warm_up()
        for api_key in (ApiKey.API_VERSIONS, ApiKey.METADATA):
            request_class(api_key)
    gc.collect()
    freeze_objects()
    release_libraries()


if __name__ == "__main__":
    main()
