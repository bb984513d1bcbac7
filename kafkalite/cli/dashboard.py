"""``kafkalite dashboard``: a live page of a cluster.

Answers to: nothing in Kafka. Reactor shell.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from kafkalite.cli.main import UsageError
from kafkalite.cli.zookeeper_security import add_zookeeper_security, read_zookeeper_security
from kafkalite.common.errors import ConfigError, StartupError

EXAMPLES = (
    "kafkalite dashboard --zookeeper localhost:2181/kafka --listen 127.0.0.1:8080",
    "kafkalite dashboard --zookeeper zk1:2182/kafka --zk-tls-config-file zookeeper.properties "
    "--command-config admin.properties --listen 0.0.0.0:8443 --listen-config page.properties",
    "kafkalite dashboard --dir cluster --allow-changes",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``dashboard``."""
    parser = subparsers.add_parser("dashboard", help="serve a live page of a cluster until interrupted")
    cluster = parser.add_mutually_exclusive_group(required=True)
    cluster.add_argument("--zookeeper", metavar="CONNECT", help="host:port[,host:port…][/chroot]")
    cluster.add_argument(
        "--dir", type=Path, help="a local cluster: its ZooKeeper, its keys, and faults of its brokers as actions"
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help="a loopback address, or with --listen-config any; port 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--listen-config",
        type=Path,
        metavar="FILE",
        help="serve the page over TLS, to users only: properties ssl.keystore.location and so on, and "
        "plain.sasl.jaas.config with user_NAME=PASSWORD, or ssl.client.auth=required",
    )
    parser.add_argument("--command-config", type=Path, metavar="FILE", help="client properties, for secured brokers")
    parser.add_argument("--digest", metavar="USER:PASSWORD", help="credentials for ZooKeeper's digest scheme")
    add_zookeeper_security(parser)
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="let users of the page create and delete topics, elect leaders, and change offsets",
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page; returns 1 where ZooKeeper cannot be reached or the port cannot be had."""
    from kafkalite.cli.dashboard_access import broker_access, page_login
    from kafkalite.dashboard.actions import ToolAccess
    from kafkalite.dashboard.process import DashboardSettings, serve

    host, colon, port = args.listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--listen {args.listen}: expected HOST:PORT")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    if args.dir is not None:
        _complete(args)
    tls_file = args.zk_tls_config_file
    tools = ToolAccess(
        args.zookeeper,
        () if tls_file is None else ("--zk-tls-config-file", str(tls_file)),
        args.digest,
        None if args.command_config is None else str(args.command_config),
        None if args.dir is None else str(args.dir),
    )
    settings = DashboardSettings(
        host.strip("[]"),
        int(port),
        args.zookeeper,
        broker_access(args.command_config),
        read_zookeeper_security(tls_file, args.digest),
        tools if args.allow_changes else None,
        None if args.listen_config is None else page_login(args.listen_config),
    )
    return serve(settings, lambda url: print(url, flush=True))


def _complete(args: argparse.Namespace) -> None:
    """Fill in what a local cluster knows: its ZooKeeper and, if it is secured, the files of its super user."""
    from kafkalite.embedded.security import ADMIN, ClusterSecurity
    from kafkalite.embedded.state import read_state

    if args.digest is not None or args.zk_tls_config_file is not None or args.command_config is not None:
        raise UsageError("--dir knows the security of its cluster: leave --digest and the files of properties out")
    state = read_state(args.dir)
    if state is None:
        raise StartupError(f"no cluster in {args.dir}")
    args.zookeeper = str(state["zookeeper"])
    security = ClusterSecurity.find(args.dir)
    if security is not None:
        args.zk_tls_config_file = security.properties_file("zookeeper")
        args.command_config = security.properties_file(ADMIN)
        args.listen_config = args.listen_config or security.write_page_properties()
