"""Requests by API and version, and how long each part of their handling took.

Answers to: the meters and histograms of ``kafka.network.RequestMetrics``. Deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kafkalite.common.errors import ErrorCode
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample, percentiles
from kafkalite.network.request import RequestTimes
from kafkalite.network.request_metrics import RequestChannelMetrics, RequestMetrics
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.messages import message_name

_BEAN: Final = "kafka.network:type=RequestMetrics,name={},request={{Produce|FetchConsumer|FetchFollower|…}}"

REQUESTS: Final = MetricDefinition(
    "kafka_network_requestmetrics_requests",
    MetricKind.COUNTER,
    "Requests that came. Fetch has the sum of FetchConsumer and FetchFollower.",
    ("request", "version"),
    "requests",
    _BEAN.format("RequestsPerSec") + ",version=[0-9]+",
)
ERRORS: Final = MetricDefinition(
    "kafka_network_requestmetrics_errors",
    MetricKind.COUNTER,
    "Errors in answers; one request may have several, for several partitions. NONE are the requests without an error. "
    "An error has a series from its first time on, UNKNOWN_SERVER_ERROR from the start.",
    ("request", "error"),
    "errors",
    "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request={Produce|FetchConsumer|FetchFollower|…},error={NONE|…}",
    "The name of the error says what is wrong; clients repeat most requests.",
)


def _times(name: str, meaning: str, remedy: str = "", unit: str = "milliseconds") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_network_requestmetrics_{name.lower()}",
        MetricKind.SUMMARY,
        meaning,
        ("request",),
        unit,
        _BEAN.format(name),
        remedy,
    )


PARTS: Final = (
    _times("TotalTimeMs", "From the last byte of the request to the last byte of its answer.", "See its parts."),
    _times(
        "RequestQueueTimeMs",
        "Until the broker takes the request.",
        "The broker is busy (kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent): add brokers, or move "
        "leaders.",
    ),
    _times("LocalTimeMs", "Until the broker has done its own part of the work.", "Look for slow disks."),
    _times(
        "RemoteTimeMs",
        "Until replicas, ZooKeeper or other brokers have done theirs; for fetches also until there are records.",
        "For Produce: a follower is slow, or the network to it is.",
    ),
    _times("ThrottleTimeMs", "For how long a quota muted the connection of the client.", "Raise its quota."),
    _times("ResponseQueueTimeMs", "Always 0: an answer is written in the turn of the reactor in which it is made."),
    _times(
        "ResponseSendTimeMs",
        "Until the last byte of the answer was handed to the kernel, those of earlier answers before it.",
        "The client reads slowly, or the network is slow.",
    ),
    _times("RequestBytes", "Size of the request.", unit="bytes"),
)


def _parts(times: RequestTimes) -> tuple[float, ...]:
    """The value of each of :data:`PARTS` for one request."""
    seconds = (
        times.sent - times.received,
        times.started - times.received,
        times.processed - times.started,
        times.answered - times.processed,
        times.throttled,
        0.0,
        times.sent - times.answered,
    )
    return (*(1000 * each for each in seconds), times.size)


class RequestMetricsCollector:
    """Reads the :class:`RequestChannelMetrics` of a broker."""

    DEFINITIONS = (REQUESTS, ERRORS, *PARTS)

    def __init__(self, metrics: RequestChannelMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        for key, metrics in sorted(self._metrics.apis.items()):
            if key == ApiKey.FETCH:
                followers = self._metrics.followers
                yield _samples("FetchConsumer", (metrics,))
                yield _samples("FetchFollower", (followers,))
                yield _samples("Fetch", (metrics, followers))
            else:
                yield _samples(message_name(key), (metrics,))


def _samples(name: str, parts: Sequence[RequestMetrics]) -> list[MetricSample]:
    newest = len(parts[0].versions) - 1
    versions = [sum(counts) for counts in zip(*(part.versions for part in parts), strict=True)]
    errors = Counter({int(ErrorCode.UNKNOWN_SERVER_ERROR): 0})
    latest: list[RequestTimes] = []
    for part in parts:
        errors.update(part.errors)
        errors[int(ErrorCode.NONE)] += part.count - part.failed
        latest += part.latest
        part.time_next()
    samples = [
        MetricSample(REQUESTS, (name, str(version)), count)
        for version, count in enumerate(versions)
        if count or version == newest
    ]
    samples += [MetricSample(ERRORS, (name, _error_name(code)), count) for code, count in sorted(errors.items())]
    total = sum(versions)
    columns = list(zip(*map(_parts, latest), strict=True)) or [()] * len(PARTS)
    for metric, values in zip(PARTS, columns, strict=True):
        samples += percentiles(metric, (name,), total, sorted(values))
    return samples


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
