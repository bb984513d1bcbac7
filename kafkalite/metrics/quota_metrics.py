"""What clients use of their quotas, and for how long they are throttled.

Answers to: the metrics of ``kafka.server.{ClientQuotaManager,ClientRequestQuotaManager}`` and of
``ControllerMutationQuotaManager``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample
from kafkalite.security.client_quotas import ClientQuotas

_RAISE: Final = "Raise the quota of the user or of the client: kafka-configs --alter --entity-type users."


def _of_client(type_: str, attribute: str, meaning: str, unit: str, remedy: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_{type_.lower()}_{attribute.replace('-', '_')}",
        MetricKind.GAUGE,
        meaning + " Only while the client has such a quota.",
        ("user", "client_id"),
        unit,
        f"kafka.server:type={type_},user={{user}},client-id={{client-id}} ({attribute})",
        remedy,
    )


def _throttled(type_: str) -> MetricDefinition:
    return _of_client(
        type_,
        "throttle-time",
        "Throttle time of the latest request that this quota throttled; 0 if none was within the quota's windows.",
        "milliseconds",
        _RAISE,
    )


_WINDOWS: Final = "over quota.window.num windows."
PRODUCED: Final = _of_client("Produce", "byte-rate", f"Bytes of Produce requests {_WINDOWS}", "bytes per second")
FETCHED: Final = _of_client("Fetch", "byte-rate", f"Bytes of answers to consumers {_WINDOWS}", "bytes per second")
TIME: Final = _of_client("Request", "request-time", f"Time that requests took of the reactor {_WINDOWS}", "percent")
_THROTTLED: Final = tuple(_throttled(type_) for type_ in ("Produce", "Fetch", "Request"))
TOKENS: Final = _of_client(
    "ControllerMutation",
    "tokens",
    "Partitions that the client may still create or delete at once on this broker; below 0 the quota is exceeded.",
    "partitions",
    _RAISE,
)
MUTATIONS: Final = _of_client(
    "ControllerMutation",
    "mutation-rate",
    "Partitions created or deleted by requests to this broker, over controller.quota.window.num windows.",
    "per second",
)
_MUTATIONS_THROTTLED: Final = _throttled("ControllerMutation")


class QuotaMetricsCollector:
    """Reads :class:`ClientQuotas`. ``monotonic``: the clock that measures the rates, in seconds."""

    DEFINITIONS = (PRODUCED, FETCHED, TIME, *_THROTTLED, TOKENS, MUTATIONS, _MUTATIONS_THROTTLED)
    _AT_ONCE: Final = 200

    def __init__(self, quotas: ClientQuotas, monotonic: Callable[[], float]) -> None:
        self._quotas = quotas
        self._monotonic = monotonic

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        quotas = self._quotas
        if not quotas.is_active:
            return
        for manager, rate_metric, throttle_metric in zip(
            (quotas.produce, quotas.fetch, quotas.request), (PRODUCED, FETCHED, TIME), _THROTTLED, strict=True
        ):
            piece: list[MetricSample] = []
            for user, client_id, usage in list(manager.usages()):
                rate, throttled_ms = usage.measure(self._monotonic() * 1000)
                labels = (user, client_id)
                piece += (MetricSample(rate_metric, labels, rate), MetricSample(throttle_metric, labels, throttled_ms))
                if len(piece) >= self._AT_ONCE:
                    yield piece
                    piece = []
            yield piece
        yield from self._mutations()

    def _mutations(self) -> Iterator[list[MetricSample]]:
        usages = list(self._quotas.mutations.usages())
        for start in range(0, len(usages), self._AT_ONCE):
            piece: list[MetricSample] = []
            for user, client_id, usage in usages[start : start + self._AT_ONCE]:
                measured = usage.measure(int(self._monotonic() * 1000))
                for metric, value in zip((TOKENS, MUTATIONS, _MUTATIONS_THROTTLED), measured, strict=True):
                    piece.append(MetricSample(metric, (user, client_id), value))
            yield piece
