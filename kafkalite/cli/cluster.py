"""``kafkalite cluster start|stop|status``: a whole cluster on this machine.

Answers to: the quick start's five terminals. Reactor shell (processes).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from kafkalite.cli.broker import parse_overrides
from kafkalite.cli.clients import add_json, print_json
from kafkalite.common.errors import StartupError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``cluster`` with its three actions."""
    parser = subparsers.add_parser("cluster", help="start, stop or show a local cluster")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    start = actions.add_parser("start", help="start ZooKeeper and brokers; what stood in --dir goes on")
    start.add_argument("--brokers", type=int, default=3, metavar="N")
    start.add_argument(
        "--port-base", type=int, default=0, metavar="PORT", help="of the first broker; without it, free ports"
    )
    start.add_argument("--zookeeper", metavar="CONNECT", help="a ZooKeeper that runs already")
    start.add_argument("--detach", action="store_true", help="come back when the cluster is ready; it goes on")
    start.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a property of all brokers"
    )
    stop = actions.add_parser("stop", help="stop brokers, one after the other, then ZooKeeper")
    status = actions.add_parser("status", help="show what runs; exit code 1 where not all does")
    add_json(status)
    for each in (start, stop, status):
        each.add_argument("--dir", type=Path, required=True, help="where the cluster lives")


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments."""
    return {"start": start, "stop": stop, "status": status}[args.action](args)


def start(args: argparse.Namespace) -> int:
    """``cluster start``: run until Ctrl-C or SIGTERM, or with ``--detach`` until the cluster is ready."""
    from kafkalite.embedded.cluster import LocalCluster
    from kafkalite.embedded.state import broker_process, read_brokers

    if args.brokers < 1:
        raise StartupError(f"--brokers {args.brokers}: at least 1")
    running = [broker.id for broker in read_brokers(args.dir) if broker_process(broker).is_alive()]
    if running:
        raise StartupError(f"brokers {running} of {args.dir} are running: kafkalite cluster stop --dir {args.dir}")
    cluster = LocalCluster(
        args.dir,
        args.brokers,
        port_base=args.port_base,
        zookeeper=args.zookeeper,
        overrides=parse_overrides(args.override),
        detached=args.detach,
    )
    stopped = threading.Event()
    # A handler instead of an exception, so that SIGTERM during the start still ends the processes started so far.
    signal.signal(signal.SIGTERM, lambda *_: stopped.set() if cluster.is_ready else interrupt())
    cluster.start()
    where = args.dir / "cluster.json"
    print(f"{args.brokers} brokers at {cluster.bootstrap}, ZooKeeper at {cluster.zookeeper} ({where})", flush=True)
    if args.detach:
        return 0
    try:
        stopped.wait()
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr)
    cluster.stop()
    return 0


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
    from kafkalite.embedded.state import broker_process, read_brokers, read_state

    state = read_state(args.dir)
    if state is None:
        raise StartupError(f"no cluster in {args.dir}")
    brokers = []
    controller = -1
    for broker in read_brokers(args.dir):
        word = "running" if broker_process(broker).is_alive() else "stopped"
        if word == "running":
            try:
                controller = ask(broker.host, broker.port).controller
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
