"""The shared cluster of a run: the worker that needs it first starts it, the run's own process stops it at the end."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from pathlib import Path

from kafkalite.embedded.cluster import Launcher, LocalCluster
from kafkalite.embedded.state import read_state, stop_cluster

NAME = "shared"
BROKERS = 3


def obtain(run: Path, overrides: Mapping[str, str], launcher: Launcher) -> LocalCluster:
    """The cluster in the folder of the ``run``, started where no worker has done so yet."""
    directory = run / NAME
    with (run / f"{NAME}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if read_state(directory) is not None:
            return LocalCluster.running(directory)
        # Detached, because it outlives its worker where that one ends before the others.
        cluster = LocalCluster(directory, BROKERS, overrides=overrides, launcher=launcher, detached=True)
        cluster.start()
        return cluster


def end(run: Path) -> None:
    """Stop the cluster of the ``run``, where there is one."""
    if read_state(run / NAME) is not None:
        stop_cluster(run / NAME)
