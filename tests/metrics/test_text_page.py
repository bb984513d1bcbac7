"""The page of own code against that of the library."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from wsgiref.types import WSGIEnvironment

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import TopicPartition
from kafkalite.metrics.definitions import Collector, MetricDefinition, MetricKind, MetricSample, percentiles
from kafkalite.metrics.exposition import BrokerMetrics
from kafkalite.metrics.replica_metrics import ReplicaMetricsCollector
from kafkalite.metrics.scrape_metrics import ScrapeMetricsCollector, ScrapeTimes
from kafkalite.metrics.text_page import TextPage, text_page_app
from kafkalite.replication.partition import Role

COUNTER = MetricDefinition("kafka_c", MetricKind.COUNTER, "Counts \\ and \n breaks.", ("topic", "partition"))
GAUGE = MetricDefinition("kafka_g", MetricKind.GAUGE, "Is.", ("topic", "partition"))
SUMMARY = MetricDefinition("kafka_s", MetricKind.SUMMARY, "Took.", ("zone", "request"))
SILENT = MetricDefinition("kafka_n", MetricKind.GAUGE, "Has no sample.")
SHARED = ("t", "1")
VALUES = (0, 1, True, -1, 999_999, 1_000_000, 12_345_678, 2**53, 0.25, 1e21, 1e-9, float("inf"), float("nan"))


class Pieces:
    """A collector of pieces that the test made."""

    DEFINITIONS = (COUNTER, GAUGE, SUMMARY, SILENT)

    def __init__(self, *pieces: list[MetricSample]) -> None:
        self._pieces = pieces

    def collect(self) -> Iterator[list[MetricSample]]:
        yield from self._pieces


PIECES = Pieces(
    [MetricSample(metric, SHARED, value) for metric in (COUNTER, GAUGE) for value in VALUES],
    [],
    [MetricSample(COUNTER, ("", ""), 3), MetricSample(GAUGE, ('quo"te\\', "new\nline ü"), 4)],
    [MetricSample(COUNTER, ("", "2"), 3), *percentiles(SUMMARY, ("z", "Fetch"), 9, [1.0, 2.5, 1e7])],
)


def process() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    Gauge("process_of_the_test", "Of the library.", registry=registry).set(7)
    return registry


def page(*collectors: Any) -> TextPage:
    return TextPage(collectors, lambda call: call(), process(), ScrapeTimes())


def test_the_text_is_that_of_the_library_byte_for_byte() -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerMetrics([PIECES], lambda call: call()))
    registry.register(process())
    text = b"".join(page(PIECES).render())
    assert text == generate_latest(registry)
    assert sum(len(family.samples) for family in text_string_to_metric_families(text.decode())) == 37


def respond(app: Any, **environ: str) -> tuple[dict[str, str], bytes]:
    """The headers and the body of the answer to a request."""
    answered: list[tuple[str, dict[str, str]]] = []

    def start_response(status: str, headers: list[tuple[str, str]]) -> None:
        answered.append((status, dict(headers)))

    request = cast("WSGIEnvironment", {"REQUEST_METHOD": "GET", "wsgi.input": io.BytesIO(), **environ})
    body = b"".join(app(request, start_response))
    assert answered[0][0] == "200 OK"
    return answered[0][1], body


def test_the_answer_is_compressed_for_a_scraper_that_asks_for_it() -> None:
    app = text_page_app(page(PIECES), lambda _, __: pytest.fail("not by the library"))
    headers, plain = respond(app)
    assert headers == {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    headers, body = respond(app, HTTP_ACCEPT_ENCODING="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == plain == b"".join(page(PIECES).render())


def test_a_request_for_some_metrics_is_answered_by_the_library() -> None:
    def library(environ: WSGIEnvironment, start_response: Any) -> list[bytes]:  # noqa: ARG001
        start_response("200 OK", [])
        return [b"of the library"]

    assert respond(text_page_app(page(PIECES), library), QUERY_STRING="name[]=kafka_g")[1] == b"of the library"


class Reactor:
    """Counts what each call takes from the table of partitions, and how many calls there are."""

    def __init__(self) -> None:
        self.calls = 0
        self.samples: list[int] = []
        self.read: list[int] = []
        self.log_reads = 0

    def call(self, call: Any) -> list[MetricSample] | None:
        self.calls += 1
        before = self.log_reads
        piece = cast("list[MetricSample] | None", call())
        self.read.append(self.log_reads - before)
        self.samples.append(len(piece or ()))
        return piece


def partition(topic: str, number: int, reactor: Reactor) -> Any:
    """A led partition, whose log tells the reactor that it is read."""

    class Log:
        high_watermark = last_stable_offset = log_end_offset = 5
        log_start_offset = 0
        segments = (1,)
        producer_state = SimpleNamespace(entries={}, has_late_transaction=lambda _: False)

        @property
        def size(self) -> int:
            reactor.log_reads += 1
            return 100

    return SimpleNamespace(
        topic_partition=TopicPartition(topic, number),
        log=Log(),
        role=Role.LEADER,
        followers=(),
        isr=SimpleNamespace(committed=(1,)),
        min_in_sync=1,
        broker_id=1,
        state=LeaderAndIsr(topic, number, leader=1, leader_epoch=0, isr=(1,), assignment=PartitionAssignment((1,))),
    )


def test_a_turn_of_the_reactor_reads_at_most_fifty_of_ten_thousand_partitions() -> None:
    reactor = Reactor()
    partitions = {TopicPartition("t", number): partition("t", number, reactor) for number in range(10_000)}
    table = SimpleNamespace(partitions=partitions, metadata=SimpleNamespace(partitions=lambda _: partitions))
    collector = ReplicaMetricsCollector(cast("Any", table), lambda: 0, 0)
    text = b"".join(TextPage([collector], reactor.call, process(), ScrapeTimes()).render())
    assert max(reactor.read) == 50
    assert max(reactor.samples) <= 50 * 18
    # 200 pieces, the sums, and the end.
    assert reactor.calls == 202
    assert sum(reactor.read) == 10_000
    assert text.count(b"kafka_log_log_size{") == 10_000
    assert b"kafka_server_replicamanager_leadercount 10000.0\n" in text


def test_the_longest_hold_of_the_reactor_is_shown() -> None:
    clock = iter([0.0, 0.25, 1.0, 1.5, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0])
    times = ScrapeTimes(lambda: 9.0)
    collectors: tuple[Collector, ...] = (Pieces([MetricSample(SILENT, (), 1)]), ScrapeMetricsCollector(times))
    text = b"".join(TextPage(collectors, lambda call: call(), process(), times, lambda: next(clock)).render())
    assert b"kafkalite_scrape_longest_hold_seconds 0.5\n" in text
    assert b"kafkalite_scrape_duration_seconds 0.0\n" in text
