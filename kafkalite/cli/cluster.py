"""``kafkalite cluster start|stop|status|kill|pause|resume|expire|cut|heal``: a whole cluster on this machine.

Answers to: the quick start's five terminals. Reactor shell (processes).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.cli.broker import parse_overrides
from kafkalite.cli.clients import add_json, print_json
from kafkalite.cli.cluster_faults import FAULTS, inflict
from kafkalite.common.errors import StartupError

if TYPE_CHECKING:
    from kafkalite.embedded.security import ClusterSecurity

_NEW_BROKERS = 3
EXAMPLES = (
    "kafkalite cluster start --dir cluster --brokers 3 --port-base 9092 --detach",
    "kafkalite cluster start --dir cluster --secure --detach",
    "kafkalite cluster start --dir cluster --dashboard",
    "kafkalite cluster status --dir cluster",
    "kafkalite cluster stop --dir cluster",
    *(f"kafkalite cluster {fault} --dir cluster --broker 2" for fault in FAULTS),
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``cluster`` with its actions."""
    parser = subparsers.add_parser("cluster", help="start, stop or show a local cluster, or have a broker fail")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    start = actions.add_parser("start", help="start ZooKeeper and brokers; what stood in --dir goes on")
    start.add_argument("--brokers", type=int, metavar="N", help="as many as --dir has, or 3 in a new one")
    start.add_argument(
        "--port-base", type=int, default=0, metavar="PORT", help="of the first broker; without it, free ports"
    )
    start.add_argument("--zookeeper", metavar="CONNECT", help="a ZooKeeper that runs already")
    start.add_argument("--detach", action="store_true", help="come back when the cluster is ready; it goes on")
    start.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a property of all brokers; later starts on --dir keep it, unless they give it another value",
    )
    start.add_argument(
        "--secure",
        action="store_true",
        help="encrypt all connections by certificates of an own CA, and admit only users with a password, by ACLs; "
        "cluster.json has the client properties of the user client and of the super user admin",
    )
    start.add_argument(
        "--relay-zookeeper",
        action="store_true",
        help="let brokers reach ZooKeeper through a relay, by which kafkalite cluster cut cuts them off; "
        "--allow-changes does so, too",
    )
    start.add_argument("--dashboard", action="store_true", help="serve a live page of the cluster on a free port, too")
    start.add_argument(
        "--allow-changes", action="store_true", help="for --dashboard: let the page change the cluster and its brokers"
    )
    stop = actions.add_parser("stop", help="stop brokers, one after the other, then ZooKeeper")
    status = actions.add_parser("status", help="show what runs; exit code 1 where not all does")
    add_json(status)
    faults = [actions.add_parser(name, help=text, description=text) for name, text in FAULTS.items()]
    for fault in faults:
        fault.add_argument("--broker", type=int, required=True, metavar="N", help="the broker's id")
    for each in (start, stop, status, *faults):
        each.add_argument("--dir", type=Path, required=True, help="where the cluster lives")


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments."""
    return {"start": start, "stop": stop, "status": status, **dict.fromkeys(FAULTS, inflict)}[args.action](args)


def start(args: argparse.Namespace) -> int:
    """``cluster start``: run until Ctrl-C or SIGTERM, or with ``--detach`` until the cluster is ready."""
    from kafkalite.embedded.cluster import LocalCluster
    from kafkalite.embedded.dashboard import DashboardProcess
    from kafkalite.embedded.security import ADMIN, FOLDER, USERS
    from kafkalite.embedded.state import broker_process, read_brokers, read_overrides

    known = read_brokers(args.dir)
    count = len(known) or _NEW_BROKERS if args.brokers is None else args.brokers
    if count < 1:
        raise StartupError(f"--brokers {count}: at least 1")
    running = [broker.id for broker in known if broker_process(broker).is_alive()]
    if running:
        raise StartupError(f"brokers {running} of {args.dir} are running: kafkalite cluster stop --dir {args.dir}")
    security = _security(args)
    if args.allow_changes and not args.dashboard:
        raise StartupError("--allow-changes is for the page: give --dashboard, too")
    cluster = LocalCluster(
        args.dir,
        count,
        security=security,
        metrics=True,
        port_base=args.port_base,
        zookeeper=args.zookeeper,
        overrides={**read_overrides(args.dir), **parse_overrides(args.override)},
        detached=args.detach,
        relayed=args.relay_zookeeper or args.allow_changes,
    )
    stopped = threading.Event()
    # A handler instead of an exception, so that SIGTERM during the start still ends the processes started so far.
    signal.signal(signal.SIGTERM, lambda *_: stopped.set() if cluster.is_ready else interrupt())
    cluster.start()
    where = args.dir / "cluster.json"
    print(f"{count} brokers at {cluster.bootstrap}, ZooKeeper at {cluster.zookeeper} ({where})", flush=True)
    if cluster.security is not None:
        files = " and ".join(str(args.dir / FOLDER / f"{user}.properties") for user in USERS)
        print(f"client properties of the users {' and '.join(USERS)}: {files}", flush=True)
    dashboard = None
    if args.dashboard:
        try:
            dashboard = DashboardProcess.start(args.dir, allow_changes=args.allow_changes)
        except StartupError:
            cluster.stop()
            raise
        if cluster.security is not None:
            where = cluster.security.properties_file(ADMIN)
            print(f"the dashboard asks for the user {ADMIN}, whose password is in {where}", flush=True)
        print(f"dashboard at {dashboard.address}", flush=True)
    if args.detach:
        return 0
    try:
        stopped.wait()
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr)
    if dashboard is not None:
        dashboard.stop()
    cluster.stop()
    return 0


def _security(args: argparse.Namespace) -> ClusterSecurity | None:
    """The security that ``--secure`` asks for, or that the cluster has had since its first start."""
    from kafkalite.embedded.security import ClusterSecurity
    from kafkalite.embedded.state import read_state

    found = ClusterSecurity.find(args.dir)
    if args.secure and args.zookeeper is not None:
        raise StartupError("--secure starts a ZooKeeper of its own, over TLS: leave --zookeeper out")
    if args.secure and found is None and read_state(args.dir) is not None:
        raise StartupError(f"the cluster in {args.dir} was started without --secure: choose another --dir")
    return ClusterSecurity.create(args.dir) if args.secure else found


def interrupt() -> None:
    """End the running start, as Ctrl-C does."""
    raise KeyboardInterrupt


def stop(args: argparse.Namespace) -> int:
    """``cluster stop``."""
    from kafkalite.embedded.state import stop_cluster

    stop_cluster(args.dir)
    return 0


def status(args: argparse.Namespace) -> int:
    """``cluster status``: pids, addresses, and whether each process lives and answers."""
    from kafkalite.embedded.probe import ask
    from kafkalite.embedded.security import ADMIN, ClusterSecurity
    from kafkalite.embedded.state import broker_process, read_brokers, read_state

    state = read_state(args.dir)
    if state is None:
        raise StartupError(f"no cluster in {args.dir}")
    security = ClusterSecurity.find(args.dir)
    admin = None if security is None else security.client_config(ADMIN)
    brokers = []
    controller = -1
    for broker in read_brokers(args.dir):
        word = "running" if broker_process(broker).is_alive() else "stopped"
        if word == "running":
            try:
                controller = ask(broker.host, broker.port, client=admin).controller
            except OSError:
                word = "running, does not answer"
        brokers.append(
            {
                "id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "pid": broker.pid,
                "dir": broker.dir,
                "status": word,
            }
        )
    if args.json:
        print_json(
            {
                "zookeeper": state["zookeeper"],
                "bootstrap": state["bootstrap"],
                "controller": controller,
                "brokers": brokers,
            }
        )
    else:
        print(f"zookeeper {state['zookeeper']}")
        for entry in brokers:
            mark = ", controller" if entry["id"] == controller else ""
            address, where = f"{entry['host']}:{entry['port']}", os.path.relpath(str(entry["dir"]))
            print(f"broker {entry['id']} {address} pid {entry['pid']} {entry['status']}{mark} ({where})")
    return 0 if all(entry["status"] == "running" for entry in brokers) else 1
