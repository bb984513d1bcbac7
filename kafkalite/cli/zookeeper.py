"""``kafkalite zookeeper start``: a real ZooKeeper in the foreground, from its jars.

Answers to: ``bin/zookeeper-server-start.sh``. Plain process, no reactor.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time

from kafkalite.embedded.zookeeper import EmbeddedZooKeeper

EXAMPLES = ("kafkalite zookeeper start --port 2181 --dir data/zookeeper",)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``zookeeper`` with its one command."""
    parser = subparsers.add_parser("zookeeper", help="start a real ZooKeeper from its jars")
    commands = parser.add_subparsers(dest="zookeeper_command", metavar="COMMAND", required=True)
    start = commands.add_parser(
        "start", help="run until interrupted", description="Run a ZooKeeper until SIGINT or SIGTERM; its data stay."
    )
    start.add_argument("--port", type=int, default=2181, help="client port; 0 takes a free one (default: %(default)s)")
    start.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    start.add_argument("--dir", default="zookeeper", help="directory of its data and log (default: ./%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Start, print the address, and wait; returns 1 if ZooKeeper ends by itself."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    server = EmbeddedZooKeeper(args.dir, args.port, host=args.host)
    started = time.monotonic()
    server.start()
    print(
        f"ZooKeeper serves at {server.connect_string} (pid {server.pid}, {time.monotonic() - started:.1f} s)",
        flush=True,
    )
    while not ended.wait(0.5):
        if not server.running:
            print(f"ZooKeeper has ended; see {server.log_file}", flush=True)
            return 1
    server.stop()
    return 0
