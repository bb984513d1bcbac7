"""What the quotas of its client cost a request: the throttle time of the answer, and a muted connection.

Answers to: ``kafka.server.RequestHandlerHelper`` (``throttle``, ``sendResponseMaybeThrottle``). Deterministic.

The answer goes at once, and the connection is not read for the throttle time that it names (KIP-219). Where no quota
is configured, callers do nothing but ask :attr:`ClientQuotas.is_active`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from kafkalite.network.request import Request
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.wire import INT32
from kafkalite.security.client_quotas import ClientQuotas
from kafkalite.security.client_usage import ClientUsage
from kafkalite.security.quota_usage import QuotaUsage

_BETWEEN_BROKERS: Final = frozenset(
    (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
    )
)
"""Requests that only brokers may send: no quota throttles their answers."""


@runtime_checkable
class _Throttled(Protocol):
    """A response whose API names a throttle time, if not in every version."""

    throttle_time_ms: int | None


class Throttling:
    """Records what requests used, and throttles their connections. Methods return the throttle time in ms.

    The dispatcher and the APIs of the hot path share one. ``monotonic`` is the clock, in seconds.
    """

    def __init__(self, quotas: ClientQuotas, monotonic: Callable[[], float]) -> None:
        self._quotas = quotas
        self._monotonic = monotonic

    def end(self, request: Request) -> None:
        """The broker turns to other requests; perhaps ``request``, which it began to handle, waits for its answer."""
        if request.began is not None:
            request.spent += self._monotonic() - request.began
            request.began = None

    def produced(self, request: Request, acks: int) -> int:
        """Before the answer to Produce. Its time does not count with acks=0."""
        now = self._monotonic()
        now_ms = now * 1000
        client = self._client(request)
        throttle_ms = 0
        if (usage := client.produce) is not None:
            throttle_ms = usage.record(request.size, now_ms)
        if (usage := client.request) is not None and acks:
            # As in _time, without its calls, because this is done for every message of some producers.
            if (began := request.began) is not None:
                request.spent += now - began
                request.began = None
            time_ms = usage.record(request.spent * 100, now_ms)
            if time_ms:
                throttle_ms = max(throttle_ms, time_ms)
        if throttle_ms:
            request.throttle(throttle_ms)
        return throttle_ms

    def fetched(self, request: Request, size: int) -> int:
        """Before a consumer is answered ``size`` bytes. If it is throttled, send it none, because none are recorded."""
        now = self._monotonic()
        client = self._client(request)
        throttle_ms = 0 if client.fetch is None else client.fetch.record(size, now * 1000)
        if client.request is not None:
            throttle_ms = max(throttle_ms, self._time(request, client.request, now))
        if throttle_ms:
            if client.fetch is not None:
                client.fetch.take_back(size, now * 1000)
            request.throttle(throttle_ms)
        return throttle_ms

    def max_fetch_bytes(self, request: Request) -> float:
        """More bytes than these would be throttled for sure, and the consumer would never get them."""
        usage = self._client(request).fetch
        return float("inf") if usage is None else usage.most_in_windows

    def answered(self, request: Request, response: object, *, failed: bool = False) -> object:
        """The answer to any other request, with its throttle time.

        ``response`` is a message, which may name a throttle time of its own (of a quota of mutations), or its bytes.
        """
        if request.header.api_key in _BETWEEN_BROKERS and not failed:
            return response
        now = self._monotonic()
        # Here, because every client also sends requests other than Produce and Fetch, for which each call counts.
        self._quotas.tidy(int(now * 1000))
        throttle_ms = 0
        if self._quotas.measures_time:
            usage = self._client(request).request
            if usage is not None:
                throttle_ms = self._time(request, usage, now)
        if isinstance(response, _Throttled):
            throttle_ms = max(throttle_ms, response.throttle_time_ms or 0)
            response.throttle_time_ms = throttle_ms
        if throttle_ms:
            request.throttle(throttle_ms)
        return _bytes_with(throttle_ms, request, response) if isinstance(response, bytes) else response

    def _client(self, request: Request) -> ClientUsage:
        """What is kept with the connection, because a client asks for one name and by one principal."""
        connection = request.connection
        kept = connection.usage
        if (
            isinstance(kept, ClientUsage)
            and kept.generation is self._quotas.generation
            and kept.principal is connection.principal
            and kept.client_id == request.header.client_id
        ):
            return kept
        made = connection.usage = self._quotas.usage(connection.principal, request.header.client_id)
        return made

    def _time(self, request: Request, usage: QuotaUsage, now: float) -> int:
        """The throttle time for the time that ``request`` took until ``now``."""
        if request.began is not None:
            request.spent += now - request.began
            request.began = None
        # The percentage of one second, as `request_percentage` has it.
        return usage.record(request.spent * 100, now * 1000)


def _bytes_with(throttle_ms: int, request: Request, body: bytes) -> bytes:
    """``body``, which was encoded before its throttle time was known."""
    if not throttle_ms:
        return body
    key, version = request.header.api_key, request.header.api_version
    if key == ApiKey.METADATA and version >= 3:
        position = 0
    elif key == ApiKey.API_VERSIONS and version >= 1:
        # The last field; the empty list of tagged fields follows it in flexible versions.
        position = len(body) - (5 if version >= 3 else 4)
    else:
        return body
    return body[:position] + INT32.pack(throttle_ms) + body[position + 4 :]
