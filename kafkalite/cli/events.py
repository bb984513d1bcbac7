"""``kafkalite events``: what the brokers of a cluster decided and noticed, as one timeline in causal order.

Answers to: nothing in Kafka; there one reads ``controller.log`` and ``state-change.log`` of every broker side by side.
Plain blocking sockets, no reactor.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import ssl
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from kafkalite.cli.clients import add_bootstrap, add_json, admin_client, broker_configs, read_properties, with_login
from kafkalite.cli.main import UsageError
from kafkalite.cli.zookeeper_security import add_zookeeper_security, read_zookeeper_security
from kafkalite.cluster.timeline import merge
from kafkalite.common.events import BrokerEvent, EventFrames, EventKind, decode_frames
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.zk.znodes.brokers import IDS, broker_path, decode_broker

_TIMEOUT = 10.0
_PAUSE = 1.0
"""Seconds between two questions of ``--follow``."""
_LISTENER = "metrics.listener"
_EVERYWHERE = ("0.0.0.0", "::", "")
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
    parser.add_argument("--follow", action="store_true", help="go on, and print new events as they come")
    parser.add_argument(
        "--kind", action="append", choices=[kind.value for kind in EventKind], help="print events of this kind only"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Ask every broker and print the timeline. Returns 1 if no broker answered."""
    if (args.bootstrap_server is None) == (args.zookeeper is None):
        raise UsageError("give one of --bootstrap-server and --zookeeper")
    pages = registered_pages(args) if args.zookeeper is not None else configured_pages(args)
    if not pages:
        raise OSError(f"no broker serves its events: set {_LISTENER} in server.properties")
    access = page_access(with_login(read_properties(args.command_config)))
    brokers = {number: BrokerPage(number, url, access) for number, url in pages.items()}
    kinds = set(args.kind or ())
    answered = show(brokers, kinds, as_json=args.json)
    while args.follow:
        sys.stdout.flush()
        time.sleep(_PAUSE)
        show(brokers, kinds, as_json=args.json)
    return 0 if answered else 1


def registered_pages(args: argparse.Namespace) -> dict[int, str]:
    """The addresses that live brokers announce in ``/brokers/ids``."""
    security = read_zookeeper_security(args.zk_tls_config_file, args.digest)
    pages = {}
    with ZnodeReader(args.zookeeper, security) as zookeeper:
        for name in zookeeper.children(IDS):
            data = zookeeper.get(broker_path(int(name)))
            broker = None if data is None else decode_broker(int(name), data)
            if broker is not None and broker.events:
                pages[broker.id] = broker.events
    return pages


def configured_pages(args: argparse.Namespace) -> dict[int, str]:
    """The addresses by each broker's configuration; a broker that listens on every address is asked at its own."""
    pages = {}
    with admin_client(args) as admin:
        for broker in admin.describe_cluster()["brokers"]:
            found = broker_configs(admin, broker["broker_id"], [_LISTENER])
            listener = found[_LISTENER]["value"] if _LISTENER in found else None
            if listener:
                pages[broker["broker_id"]] = events_address(listener, broker["host"])
    return pages


def events_address(listener: str, host: str) -> str:
    """The page of a ``metrics.listener``; ``host`` replaces an address that means every address."""
    address = urlsplit(listener)
    name = host if (address.hostname or "") in _EVERYWHERE else address.hostname or ""
    return f"{address.scheme}://{f'[{name}]' if ':' in name else name}:{address.port}/events"


@dataclass(frozen=True)
class PageAccess:
    """How pages behind TLS are reached: a context, and the headers of a login."""

    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def page_access(properties: Mapping[str, str]) -> PageAccess:
    """The access by client properties in librdkafka's names: authority, certificate, user and password."""
    tls = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
    if "ssl.certificate.location" in properties:
        tls.load_cert_chain(
            properties["ssl.certificate.location"],
            properties.get("ssl.key.location"),
            properties.get("ssl.key.password"),
        )
    if "sasl.username" not in properties:
        return PageAccess(tls)
    login = f"{properties['sasl.username']}:{properties.get('sasl.password', '')}".encode()
    return PageAccess(tls, {"Authorization": f"Basic {base64.b64encode(login).decode()}"})


@dataclass(slots=True)
class BrokerPage:
    """A broker's page, and what is known of it: its present life, the last event, how far its clock is ahead (ms)."""

    broker: int
    url: str
    access: PageAccess
    started_ms: int = -1
    last: int = 0
    ahead_ms: int = 0
    complaint: str = ""

    def ask(self) -> list[BrokerEvent]:
        """The events since the last call, none if the broker does not answer: then the reason is in ``complaint``."""
        try:
            found = self._get(self.last)
            if found.started_ms != self.started_ms and self.last:
                found = self._get(0)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.complaint = f"broker {self.broker} does not answer at {self.url}: {error}"
            return []
        self.complaint = ""
        self.started_ms = found.started_ms
        self.last = found.events[-1].sequence if found.events else self.last
        return list(found.events)

    def _get(self, after: int) -> EventFrames:
        sent = time.time()
        request = urllib.request.Request(f"{self.url}?after={after}", headers=dict(self.access.headers))
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self.access.tls) as response:
            data = response.read()
        found = decode_frames(data)
        self.ahead_ms = found.now_ms - int((sent + time.time()) * 500)
        return found


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
