"""The pages on which brokers serve their events: where they are, and what each has told.

Answers to: nothing in Kafka. Plain blocking sockets, and the client library.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import ssl
import time
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from kafkalite.cli.clients import admin_client, broker_configs
from kafkalite.cli.zookeeper_security import read_zookeeper_security
from kafkalite.common.errors import ApiError
from kafkalite.common.events import BrokerEvent, EventFrames, decode_frames
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.zk.znodes.brokers import IDS, broker_path, decode_broker

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

_TIMEOUT = 10.0
LISTENER = "metrics.listener"
_EVERYWHERE = ("0.0.0.0", "::", "")


class PageSource(Protocol):
    """Knows the brokers of a cluster. ``unknown``: brokers whose page the last ``find`` did not learn, and why."""

    unknown: dict[int, str]

    def find(self, silent: Collection[int] = ()) -> dict[int, str]:
        """The pages of the registered brokers that serve one; ``silent`` are brokers whose page did not answer.

        Raises ``OSError`` if the cluster does not answer, and :class:`ApiError` for a user that may not know the pages.
        """
        ...


class RegisteredPages:
    """The addresses that live brokers announce in ``/brokers/ids``, read in one session of ZooKeeper."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.unknown: dict[int, str] = {}
        self._connect = args.zookeeper
        self._security = read_zookeeper_security(args.zk_tls_config_file, args.digest)
        self._open = ExitStack()
        self._reader: ZnodeReader | None = None

    def find(self, silent: Collection[int] = ()) -> dict[int, str]:  # noqa: ARG002
        """As in :class:`PageSource`."""
        try:
            return self._read()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """End the session; the next ``find`` begins another."""
        self._reader = None
        self._open.close()

    def _read(self) -> dict[int, str]:
        if self._reader is None:
            self._reader = self._open.enter_context(ZnodeReader(self._connect, self._security))
        self.unknown = {}
        pages = {}
        for name in filter(str.isdigit, self._reader.children(IDS)):
            data = self._reader.get(broker_path(int(name)))
            if data is None:
                continue
            try:
                broker = decode_broker(int(name), data)
            except ValueError as error:
                self.unknown[int(name)] = str(error)
                continue
            if broker.events:
                pages[broker.id] = broker.events
        return pages


class ConfiguredPages:
    """The addresses by each broker's configuration, read through one admin client.

    A broker that listens on every address is asked at its own. The configuration of a broker is read again after it
    was not registered, and while its page does not answer, because it may have come back with another address.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.unknown: dict[int, str] = {}
        # One broker that hangs must not keep the events of the others back for longer than its page may.
        self._args = argparse.Namespace(**{**vars(args), "request_timeout_ms": int(_TIMEOUT * 1000)})
        self._given = args.bootstrap_server
        self._open = ExitStack()
        self._admin: KafkaAdminClient | None = None
        self._pages: dict[int, str | None] = {}

    def find(self, silent: Collection[int] = ()) -> dict[int, str]:
        """As in :class:`PageSource`."""
        from kafka.errors import KafkaError

        try:
            self._read(silent)
        except Exception as error:
            self.close()
            if isinstance(error, KafkaError):
                raise OSError(_reason(error)) from error
            raise
        return {number: url for number, url in self._pages.items() if url is not None}

    def close(self) -> None:
        """Close the client; the next ``find`` makes another."""
        self._admin = None
        self._open.close()

    def _read(self, silent: Collection[int]) -> None:
        from kafka.errors import KafkaError

        admin = self._admin or self._connect()
        brokers = {each["broker_id"]: each for each in admin.describe_cluster()["brokers"]}
        # The brokers that were given may be those that die first.
        known = [f"{each['host']}:{each['port']}" for each in brokers.values()]
        self._args.bootstrap_server = ",".join(dict.fromkeys([*known, *self._given.split(",")]))
        self.unknown = {}
        self._pages = {number: url for number, url in self._pages.items() if number in brokers and number not in silent}
        missing = sorted(brokers.keys() - self._pages.keys())
        if missing and self._admin is not None:
            # A client learns of new brokers and of new addresses after minutes, and waits long before it tries one that
            # has failed again.
            self.close()
            admin = self._connect()
        for number in missing:
            try:
                self._pages[number] = _configured_page(admin, number, brokers[number]["host"])
            except (KafkaError, OSError) as error:
                self.unknown[number] = _reason(error)
        self._admin = admin

    def _connect(self) -> KafkaAdminClient:
        return self._open.enter_context(admin_client(self._args))


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _configured_page(admin: KafkaAdminClient, number: int, host: str) -> str | None:
    found = broker_configs(admin, number, [LISTENER])
    listener = found[LISTENER]["value"] if LISTENER in found else None
    return events_address(listener, host) if listener else None


@contextmanager
def page_source(args: argparse.Namespace) -> Iterator[PageSource]:
    """The source that the flags name; its connection is closed at the end."""
    source = ConfiguredPages(args) if args.zookeeper is None else RegisteredPages(args)
    try:
        yield source
    finally:
        source.close()


def configured_pages(args: argparse.Namespace) -> dict[int, str]:
    """The addresses by each broker's configuration, now. Raises ``OSError`` if a registered broker does not answer."""
    source = ConfiguredPages(args)
    try:
        pages = source.find()
    finally:
        source.close()
    for number, why in source.unknown.items():
        raise OSError(f"broker {number} does not tell its {LISTENER}: {why}")
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
            if found.started_ms != self.started_ms:
                # Another life numbers its events from 1.
                found = self._get(0) if self.last else found
                self.started_ms, self.last = found.started_ms, 0
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.complaint = f"broker {self.broker} does not answer at {self.url}: {error}"
            return []
        self.complaint = ""
        self.last = found.events[-1].sequence if found.events else self.last
        return list(found.events)

    def _get(self, after: int) -> EventFrames:
        sent = time.time()
        found = decode_frames(self._fetch(after))
        if found.broker != self.broker:
            # The ports of brokers that restart may be exchanged before their registrations are read again.
            raise ValueError(f"broker {found.broker} answers there")
        self.ahead_ms = found.now_ms - int((sent + time.time()) * 500)
        return found

    def _fetch(self, after: int) -> bytes:
        request = urllib.request.Request(f"{self.url}?after={after}", headers=dict(self.access.headers))
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self.access.tls) as response:
            data: bytes = response.read()
        return data


class FollowedPages:
    """The pages of all brokers that were ever registered while the command runs.

    A page stays when its broker's registration ends, because a broker that lost its session may tell why.
    """

    def __init__(self, source: PageSource, access: PageAccess) -> None:
        self.pages: dict[int, BrokerPage] = {}
        self._source = source
        self._access = access

    def refresh(self) -> dict[str, str]:
        """Follow new brokers, and known ones to another address; returns what the cluster does not tell, and why.

        A broker that comes back keeps what is known of it, so that none of its events is told twice. Raises what the
        source raises.
        """
        silent = {number for number, page in self.pages.items() if page.complaint}
        for number, url in self._source.find(silent).items():
            self.pages.setdefault(number, BrokerPage(number, url, self._access)).url = url
        return {f"the page of broker {number}": why for number, why in self._source.unknown.items()}

    def try_to_refresh(self) -> dict[str, str]:
        """As :meth:`refresh`, but an error is part of the answer, because the known brokers are followed without it."""
        try:
            return self.refresh()
        except (OSError, ApiError) as error:
            return {"the brokers of the cluster": _reason(error)}
