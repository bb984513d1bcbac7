"""``kafkalite cluster kill|pause|resume|expire|cut|heal``: faults of one broker of a local cluster.

Answers to: the ``kill`` by which operators try out a failover, and the session tricks of Kafka's own tests. Blocking.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.common.errors import StartupError

if TYPE_CHECKING:
    from kafkalite.embedded.cluster import LocalCluster

FAULTS: Final = {
    "kill": "kill a broker, as kill -9 does",
    "pause": "stop a broker's process (SIGSTOP): it exists, but answers nothing, until it is resumed",
    "resume": "have a paused broker go on (SIGCONT)",
    "cut": "let no byte pass between a broker and ZooKeeper, in a cluster that was started with --relay-zookeeper",
    "heal": "let a broker that was cut off reach ZooKeeper again",
    "expire": "end a broker's ZooKeeper session, as if the broker had been silent for too long; it begins a new one",
}
"""Action → what it does."""
_EXPIRE_TIMEOUT: Final = 10.0
_SESSION_TIMEOUT_MS: Final = 10_000


def inflict(args: argparse.Namespace) -> int:
    """Carry out the fault that the arguments name. Raises :class:`StartupError` for a broker that is not running."""
    from kafkalite.embedded.cluster import LocalCluster
    from kafkalite.embedded.zookeeper_relay import cut_off, heal

    cluster = LocalCluster.running(args.dir)
    broker = args.broker
    if broker not in cluster.broker_ids:
        known = ", ".join(map(str, cluster.broker_ids))
        raise StartupError(f"--broker {broker}: the cluster in {args.dir} has the brokers {known}")
    if not cluster.is_alive(broker):
        raise StartupError(f"broker {broker} is not running")
    faults: dict[str, tuple[Callable[[int], object], str]] = {
        "kill": (cluster.kill_broker, "was killed"),
        "pause": (cluster.pause_broker, "is paused; kafkalite cluster resume has it go on"),
        "resume": (cluster.resume_broker, "goes on"),
        "cut": (partial(cut_off, args.dir), "is cut off from ZooKeeper; kafkalite cluster heal undoes it"),
        "heal": (partial(heal, args.dir), "reaches ZooKeeper again"),
        "expire": (lambda number: _expire(cluster, number), "lost its ZooKeeper session"),
    }
    carry_out, outcome = faults[args.action]
    carry_out(broker)
    print(f"broker {broker} {outcome}")
    return 0


def _expire(cluster: LocalCluster, broker: int) -> None:
    from kafkalite.testing.sessions import expire_session

    security = None if cluster.security is None else cluster.security.zookeeper_security()
    expire_session(cluster.zookeeper, broker, _EXPIRE_TIMEOUT, _SESSION_TIMEOUT_MS, security)
