"""The page of a scrape, rendered by own code, because ``prometheus_client`` takes seconds for 10,000 partitions.

Answers to: ``prometheus_client.generate_latest``, whose text it writes byte for byte. Deterministic, but for the counts
of the process.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Final
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, gzip_accepted
from prometheus_client.utils import floatToGoString

from kafkalite.metrics.definitions import Collector, MetricDefinition, MetricKind, MetricSample
from kafkalite.metrics.scrape_metrics import ScrapeTimes

OnReactor = Callable[[Callable[[], list[MetricSample] | None]], list[MetricSample] | None]
"""Calls on the reactor, from another thread, and returns what the call returns."""

_SMALL: Final = 1_000_000
"""Integers from 0 up to this are written as they are; from it on Go writes exponents."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class TextPage:
    """Gathers the samples of ``collectors`` on the reactor, a piece at a time, and renders them in the calling thread.

    ``process`` has the metrics of the process, which the library renders; ``times`` is told how long pieces held the
    reactor.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        on_reactor: OnReactor,
        process: CollectorRegistry,
        times: ScrapeTimes,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        self._collectors = collectors
        self._on_reactor = on_reactor
        self._process = process
        self._times = times
        self._now = now

    def render(self) -> Iterator[bytes]:
        """The text, in parts of a few kilobytes. Call in a thread other than the reactor's."""
        times, now = self._times, self._now
        times.began()
        for collector in self._collectors:
            # Kept until the collector is through, because all samples of a metric must stand together.
            parts: dict[MetricDefinition, list[bytes]] = {metric: [] for metric in collector.DEFINITIONS}
            pieces = collector.collect()

            def piece(pieces: Iterator[list[MetricSample]] = pieces) -> list[MetricSample] | None:
                before = now()
                try:
                    return next(pieces, None)
                finally:
                    times.held(now() - before)

            while (samples := self._on_reactor(piece)) is not None:
                for metric, lines in _lines(samples).items():
                    parts[metric].append("".join(lines).encode())
            for metric, rendered in parts.items():
                yield _head(metric)
                yield from rendered
        yield generate_latest(self._process)


def _lines(samples: Sequence[MetricSample]) -> dict[MetricDefinition, list[str]]:
    found: dict[MetricDefinition, list[str]] = {}
    latest_names: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()
    text = ""
    for metric, labels, value, quantile in samples:
        if quantile is not None:
            rendered = _labels((*metric.labels, "quantile"), (*labels, quantile))
        else:
            # By identity, because the collectors give all samples of a partition one tuple.
            if labels is not latest or metric.labels is not latest_names:
                latest, latest_names = labels, metric.labels
                text = _labels(latest_names, latest)
            rendered = text
        # With a sign, because a bool is an int that is written as a word.
        small = isinstance(value, int) and 0 <= value < _SMALL
        number = f"{+value}.0" if small else floatToGoString(value)  # type: ignore[no-untyped-call]
        line = f"{_name(metric, quantile)}{rendered} {number}\n"
        lines = found.get(metric)
        if lines is None:
            found[metric] = [line]
        else:
            lines.append(line)
    return found


def _name(metric: MetricDefinition, quantile: str | None) -> str:
    if metric.kind is MetricKind.GAUGE or quantile is not None:
        return metric.name
    return metric.name + ("_total" if metric.kind is MetricKind.COUNTER else "_count")


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    """In the order of the names, as the library writes them; a label without a value is left out."""
    written = [
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in sorted(zip(names, values, strict=False)) if value
    ]
    return "{" + ",".join(written) + "}" if written else ""


def _head(metric: MetricDefinition) -> bytes:
    name = metric.name + ("_total" if metric.kind is MetricKind.COUNTER else "")
    meaning = metric.meaning.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {meaning}\n# TYPE {name} {metric.kind.value}\n".encode()


def text_page_app(page: TextPage, library: WSGIApplication) -> WSGIApplication:
    """Serves ``page``; requests for some metrics only (``?name[]=``) and other methods than GET go to ``library``."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "GET" or "name[]" in parse_qs(environ.get("QUERY_STRING", "")):
            return library(environ, start_response)
        headers = [("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)]
        parts = page.render()
        if gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")):
            headers.append(("Content-Encoding", "gzip"))
            parts = _compressed(parts)
        start_response("200 OK", headers)
        return parts

    return application


def _compressed(parts: Iterator[bytes]) -> Iterator[bytes]:
    # The fastest level, because a scraper is usually near, and each of these pages is read once.
    gzip = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for part in parts:
        if compressed := gzip.compress(part):
            yield compressed
    yield gzip.flush()
