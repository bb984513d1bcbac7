"""The shared cluster of a run: the first worker that needs it starts it, the main process stops it at the end."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from pathlib import Path

from kafkalite.embedded.cluster import Launcher, LocalCluster
from kafkalite.embedded.state import read_state, stop_cluster

NAME = "shared"
BROKERS = 3


def obtain(run: Path, overrides: Mapping[str, str], launcher: Launcher) -> LocalCluster:
    """The cluster in the folder of the ``run``; starts it if no worker has started it yet."""
    directory = run / NAME
    with (run / f"{NAME}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if read_state(directory) is not None:
            return LocalCluster.running(directory)
        # Detached, because the other workers use the cluster after the worker that started it has ended.
        cluster = LocalCluster(directory, BROKERS, overrides=overrides, launcher=launcher, detached=True)
        cluster.start()
        return cluster


def end(run: Path) -> None:
    """Stop the cluster of the ``run``, if a worker started one."""
    if read_state(run / NAME) is not None:
        stop_cluster(run / NAME)
