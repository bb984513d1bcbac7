"""Connections of clients, and how much of its time the broker is idle.

Answers to: ``kafka.network.SocketServer``'s and ``Processor``'s metrics, ``KafkaRequestHandlerPool``. Reactor shell.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample
from kafkalite.network.server import KafkaServer

CONNECTIONS: Final = MetricDefinition(
    "kafka_server_socket_server_metrics_connection_count",
    MetricKind.GAUGE,
    "Open connections.",
    ("listener",),
    bean="kafka.server:type=socket-server-metrics,listener={listener},networkProcessor={n}",
)
FAILED_AUTHENTICATIONS: Final = MetricDefinition(
    "kafka_server_socket_server_metrics_failed_authentication",
    MetricKind.COUNTER,
    "Clients that failed to authenticate.",
    ("listener",),
    bean="kafka.server:type=socket-server-metrics,listener={listener},networkProcessor={n}",
    remedy="The broker's log names the addresses and the reasons.",
)


def _total(attribute: str, meaning: str, unit: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_socket_server_metrics_{attribute}",
        MetricKind.COUNTER,
        meaning,
        ("listener",),
        unit,
        CONNECTIONS.bean,
    )


CREATED: Final = _total("connection_creation", "Connections that were accepted.")
CLOSED: Final = _total("connection_close", "Connections that ended, by either side.")
AUTHENTICATED: Final = _total("successful_authentication", "Logins by SASL, the first one of each connection.")
REAUTHENTICATED: Final = _total(
    "successful_reauthentication", "Further logins of connections whose sessions are limited (KIP-368)."
)
BYTES_IN: Final = _total("incoming_byte", "Bytes that were read from connections, those of logins among them.", "bytes")
BYTES_OUT: Final = _total(
    "outgoing_byte", "Bytes that were written to connections, those of logins among them.", "bytes"
)
ANSWERS: Final = _total(
    "request",
    "Answers to requests. The name is Kafka's, whose class was made for clients: it calls what is sent a request.",
    "answers",
)
REQUESTS: Final = _total(
    "response", "Requests that came. The name is Kafka's, which calls what is received a response.", "requests"
)
EXPIRED: Final = MetricDefinition(
    "kafka_server_socket_server_metrics_expired_connections_killed_count",
    MetricKind.GAUGE,
    "Connections that were closed, because their session (connections.max.reauth.ms) was over and the client went on "
    "without another login.",
    ("listener",),
    bean=CONNECTIONS.bean,
    remedy="Clients do not know KIP-368 (older than 2.2): update them.",
)
ALL_EXPIRED: Final = MetricDefinition(
    "kafka_network_socketserver_expiredconnectionskilledcount",
    MetricKind.GAUGE,
    "The sum over all listeners.",
    bean="kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount",
    remedy=EXPIRED.remedy,
)


def _rate(attribute: str, meaning: str) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_socket_server_metrics_{attribute}",
        MetricKind.GAUGE,
        meaning,
        ("listener",),
        "per second",
        CONNECTIONS.bean,
        "If it stays high, clients connect in a loop: see their logs, and failed_authentication_total.",
    )


CREATION_RATE: Final = _rate("connection_creation_rate", "Connections accepted since the last scrape, per second.")
CLOSE_RATE: Final = _rate("connection_close_rate", "Connections that ended since the last scrape, per second.")
RESPONSES: Final = MetricDefinition(
    "kafka_network_requestchannel_responsequeuesize",
    MetricKind.GAUGE,
    "Always 0: an answer is written in the turn of the reactor in which it is made.",
    bean="kafka.network:type=RequestChannel,name=ResponseQueueSize",
)
MEMORY_USED: Final = MetricDefinition(
    "kafka_network_socketserver_memorypoolused",
    MetricKind.GAUGE,
    "Bytes of requests that are not answered yet.",
    unit="bytes",
    bean="kafka.network:type=SocketServer,name=MemoryPoolUsed",
)
MEMORY_FREE: Final = MetricDefinition(
    "kafka_network_socketserver_memorypoolavailable",
    MetricKind.GAUGE,
    "Bytes until the broker reads no further requests.",
    unit="bytes",
    bean="kafka.network:type=SocketServer,name=MemoryPoolAvailable",
    remedy="At 0 the broker is overloaded: raise queued.max.request.bytes, or move leaders to other brokers.",
)
QUEUE: Final = MetricDefinition(
    "kafka_network_requestchannel_requestqueuesize",
    MetricKind.GAUGE,
    "Requests that are not answered yet, those that wait for replicas or for records among them.",
    bean="kafka.network:type=RequestChannel,name=RequestQueueSize",
)
_IDLE: Final = (
    "Fraction of the time since the last scrape in which the broker's reactor, which does the work of Kafka's network "
    "and request handler threads, used no CPU."
)
_BUSY: Final = "Below 0.3 the broker is near its limit: move leaders to other brokers."
HANDLERS: Final = MetricDefinition(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    MetricKind.GAUGE,
    _IDLE,
    unit="fraction, 0 to 1",
    bean="kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
    remedy=_BUSY,
)
PROCESSORS: Final = MetricDefinition(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    MetricKind.GAUGE,
    _IDLE,
    unit="fraction, 0 to 1",
    bean="kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
    remedy=_BUSY,
)


class SocketServerMetricsCollector:
    """Reads the :class:`KafkaServer`. ``cpu`` is the CPU time of the calling thread, in seconds."""

    DEFINITIONS = (
        *(CONNECTIONS, CREATED, CLOSED, FAILED_AUTHENTICATIONS, AUTHENTICATED, REAUTHENTICATED),
        *(CREATION_RATE, CLOSE_RATE, BYTES_IN, BYTES_OUT, ANSWERS, REQUESTS, EXPIRED, ALL_EXPIRED),
        *(QUEUE, RESPONSES, MEMORY_USED, MEMORY_FREE, HANDLERS, PROCESSORS),
    )

    def __init__(
        self,
        server: KafkaServer,
        now: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._server = server
        self._now = now
        self._cpu = cpu
        self._last = (now(), cpu())
        self._counted = (server.totals.created.copy(), Counter(server.connections_by_listener))
        """Connections created by the last scrape, and open then, by listener."""

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        elapsed, idle = self._since_the_last_scrape()
        open_connections: Counter[str] = Counter(dict.fromkeys(self._server.listener_names, 0))
        open_connections.update(self._server.connections_by_listener)
        samples = [MetricSample(CONNECTIONS, (name,), count) for name, count in sorted(open_connections.items())]
        failed = self._server.failed_authentications.totals
        samples += [MetricSample(FAILED_AUTHENTICATIONS, (name,), failed[name]) for name in sorted(open_connections)]
        totals = self._server.totals
        for name in sorted(open_connections):
            created, traffic = totals.created[name], totals.traffic[name]
            samples += [
                MetricSample(BYTES_IN, (name,), traffic.bytes_in),
                MetricSample(BYTES_OUT, (name,), traffic.bytes_out),
                MetricSample(ANSWERS, (name,), traffic.answers),
                MetricSample(REQUESTS, (name,), traffic.requests),
                MetricSample(EXPIRED, (name,), totals.expired[name]),
                MetricSample(CREATED, (name,), created),
                MetricSample(CLOSED, (name,), created - open_connections[name]),
                MetricSample(AUTHENTICATED, (name,), totals.authenticated[name]),
                MetricSample(REAUTHENTICATED, (name,), totals.reauthenticated[name]),
            ]
        samples += self._rates(totals.created, open_connections, elapsed)
        samples.append(MetricSample(ALL_EXPIRED, (), totals.expired.total()))
        memory = self._server.memory
        samples += [
            MetricSample(QUEUE, (), memory.outstanding),
            MetricSample(RESPONSES, (), 0),
            MetricSample(MEMORY_USED, (), memory.held),
            MetricSample(MEMORY_FREE, (), max(0, memory.limit - memory.held)),
        ]
        yield [*samples, MetricSample(HANDLERS, (), idle), MetricSample(PROCESSORS, (), idle)]

    def _rates(self, created: Counter[str], open_now: Counter[str], elapsed: float) -> Iterator[MetricSample]:
        (before, were_open), self._counted = self._counted, (created.copy(), open_now)
        for name in sorted(open_now):
            new = created[name] - before[name]
            ended = new - (open_now[name] - were_open[name])
            yield MetricSample(CREATION_RATE, (name,), new / elapsed if elapsed > 0 else 0.0)
            yield MetricSample(CLOSE_RATE, (name,), ended / elapsed if elapsed > 0 else 0.0)

    def _since_the_last_scrape(self) -> tuple[float, float]:
        """Seconds, and the idle fraction of them."""
        (since, used), (now, cpu) = self._last, (self._now(), self._cpu())
        self._last = (now, cpu)
        elapsed = now - since
        return elapsed, 1.0 if elapsed <= 0 else max(0.0, 1 - (cpu - used) / elapsed)
