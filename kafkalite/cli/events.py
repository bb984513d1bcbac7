"""``kafkalite events``: what the brokers of a cluster decided and noticed, as one timeline in causal order.

Answers to: nothing in Kafka; there one reads ``controller.log`` and ``state-change.log`` of every broker side by side.
Plain blocking sockets, no reactor.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from datetime import datetime

from kafkalite.cli.clients import add_bootstrap, add_json, read_properties, with_login
from kafkalite.cli.event_pages import LISTENER, BrokerPage, FollowedPages, page_access, page_source
from kafkalite.cli.main import UsageError
from kafkalite.cli.zookeeper_security import add_zookeeper_security
from kafkalite.cluster.timeline import merge
from kafkalite.common.events import BrokerEvent, EventKind

_PAUSE = 1.0
"""Seconds between two questions of ``--follow``."""
EXAMPLES = (
    "kafkalite events --bootstrap-server localhost:9092",
    "kafkalite events --zookeeper localhost:2181 --follow",
    "kafkalite events --zookeeper localhost:2181 --kind controller --kind leadership --json",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``events`` with its flags."""
    parser = subparsers.add_parser("events", help="show what brokers decided, as one timeline in causal order")
    add_bootstrap(parser, required=False)
    parser.add_argument("--zookeeper", metavar="CONNECT", help="host:port[,host:port…][/chroot]")
    parser.add_argument("--digest", metavar="USER:PASSWORD", help="credentials for ZooKeeper's digest scheme")
    add_zookeeper_security(parser)
    parser.add_argument(
        "--follow",
        action="store_true",
        help="go on, and print new events as they come, also those of brokers that are added or come back",
    )
    parser.add_argument(
        "--kind", action="append", choices=[kind.value for kind in EventKind], help="print events of this kind only"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Ask every broker and print the timeline. Returns 1 if no broker answered."""
    if (args.bootstrap_server is None) == (args.zookeeper is None):
        raise UsageError("give one of --bootstrap-server and --zookeeper")
    access = page_access(with_login(read_properties(args.command_config)))
    kinds = set(args.kind or ())
    with page_source(args) as source:
        followed = FollowedPages(source, access)
        complaints = complain(followed.refresh())
        if not followed.pages:
            raise OSError(f"no broker serves its events: set {LISTENER} in server.properties")
        answered = show(followed.pages, kinds, as_json=args.json)
        while args.follow:
            sys.stdout.flush()
            time.sleep(_PAUSE)
            complaints = complain(followed.try_to_refresh(), complaints)
            show(followed.pages, kinds, as_json=args.json)
    return 0 if answered else 1


def complain(complaints: Mapping[str, str], former: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Print complaints about subjects that ``former`` has none about; returns ``complaints``."""
    for subject, why in complaints.items():
        if subject not in (former or {}):
            print(f"kafkalite events: {subject} cannot be looked up: {why}", file=sys.stderr)
    return complaints


def show(brokers: Mapping[int, BrokerPage], kinds: set[str], *, as_json: bool) -> bool:
    """Print what is new; returns whether a broker answered."""
    events: list[BrokerEvent] = []
    for page in brokers.values():
        former = page.complaint
        events += page.ask()
        if page.complaint and page.complaint != former:
            print(f"kafkalite events: {page.complaint}", file=sys.stderr)
    ahead = {page.broker: page.ahead_ms for page in brokers.values()}
    for event in merge(events, ahead):
        if not kinds or event.kind in kinds:
            print(json_line(event) if as_json else text_line(event, ahead.get(event.broker, 0)))
    return any(not page.complaint for page in brokers.values())


def json_line(event: BrokerEvent) -> str:
    """One event as a JSON object."""
    return json.dumps(event.facts(), ensure_ascii=False)


def text_line(event: BrokerEvent, ahead_ms: int) -> str:
    """One event as a line, with the time of this machine's clock."""
    when = datetime.fromtimestamp((event.time_ms - ahead_ms) / 1000).isoformat(" ", "milliseconds")
    known = {
        "controller epoch": event.controller_epoch,
        "leader epoch": event.leader_epoch,
        "zxid": event.zxid,
        "after zxid": event.cause,
    }
    facts = ", ".join(f"{name} {value}" for name, value in known.items() if value >= 0)
    why = f": {event.why}" if event.why else ""
    return f"{when}  broker {event.broker}  {event.kind:<15} {event.text}{why}{f' ({facts})' if facts else ''}"
