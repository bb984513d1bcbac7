"""``kafkalite trace produce``: send one record, and show its whole way through the cluster with times.

Answers to: nothing in Kafka. Reactor shell (client library), with plain blocking sockets for the brokers' pages.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urljoin

from kafkalite.cli.clients import add_bootstrap, add_json, librdkafka_settings, read_properties, with_login
from kafkalite.cli.event_pages import PageAccess, configured_pages, page_access
from kafkalite.cli.main import UsageError
from kafkalite.cluster.record_story import CLIENT, ClockRange, RecordStep, RecordStory, tell
from kafkalite.common.trace_points import TraceFrames, TracePoint, TracePointKind, decode_trace

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_TIMEOUT = 10.0
_EXCHANGES = 8
"""Looks at a broker's clock: the fastest of them bounds its difference best."""
_PAUSE = 0.05
_FOLLOWERS_WAIT = 5.0
"""Seconds to wait for followers that the answer did not wait for."""
EXAMPLES = (
    "kafkalite trace produce --bootstrap-server localhost:9092 --topic flights",
    "kafkalite trace produce --bootstrap-server localhost:9092 --topic flights --partition 0 --wait-consumer --json",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``trace`` with its action."""
    parser = subparsers.add_parser("trace", help="send one record and show its way through the cluster")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    produce = actions.add_parser("produce", help="send one record and show its way through the cluster")
    add_bootstrap(produce)
    produce.add_argument("--topic", required=True)
    produce.add_argument("--partition", type=int, default=0, help="default: 0")
    produce.add_argument("--acks", choices=["all", "-1", "1"], default="all", help="default: all")
    produce.add_argument("--value", default="a record of kafkalite trace", help="the value of the record")
    produce.add_argument(
        "--wait-consumer", action="store_true", help="wait until a consumer has fetched the record, and show it"
    )
    produce.add_argument("--timeout", type=int, default=30, metavar="SECONDS", help="for each wait; default: 30")
    add_json(produce)


def run(args: argparse.Namespace) -> int:
    """Trace one record. Returns 1 if it was not acknowledged, or if no consumer read it in time."""
    if not 1 <= args.timeout <= 300:
        raise UsageError("--timeout must be between 1 and 300 seconds")
    urls = configured_pages(args)
    access = page_access(with_login(read_properties(args.command_config)))
    sender = _Sender(args)
    leader, replicas = sender.placement()
    if leader not in urls:
        raise OSError(f"broker {leader}, the leader, serves no page: set metrics.listener in its server.properties")
    # Consumers may read from any replica; other brokers see nothing of the record.
    pages = {broker: TracePage(urljoin(urls[broker], "trace"), access) for broker in replicas if broker in urls}
    for broker in sorted(set(replicas) - set(pages)):
        print(f"kafkalite trace: broker {broker} serves no page, so its own steps are missing", file=sys.stderr)
    where = {"topic": args.topic, "partition": str(args.partition)}
    for page in pages.values():
        page.ask({**where, "seconds": str(2 * args.timeout + 60)}, method="POST")
    clocks = {broker: page.clock() for broker, page in pages.items()}
    offset, sent, answered = sender.send()
    points, consumed = _collect(pages, where, offset, leader, replicas, args)
    story = tell(offset, sent, answered, leader, points, clocks)
    name = f"{args.topic}-{args.partition}"
    if args.json:
        print(json.dumps(as_json(story, name, offset, leader), ensure_ascii=False))
    else:
        print("\n".join(as_text(story, name, offset, leader)))
    if args.wait_consumer and not consumed:
        print(f"kafkalite trace: no consumer fetched the record in {args.timeout} s", file=sys.stderr)
        return 1
    return 0


class TracePage:
    """The page ``/trace`` of one broker."""

    def __init__(self, url: str, access: PageAccess) -> None:
        self._url = url
        self._access = access

    def ask(self, query: Mapping[str, str], method: str = "GET") -> TraceFrames:
        """What the page answers. Raises ``OSError``."""
        url = f"{self._url}?{urlencode(query)}" if query else self._url
        request = urllib.request.Request(url, method=method, headers=dict(self._access.headers))
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._access.tls) as response:
                return decode_trace(response.read())
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"{self._url}: {error}") from None

    def clock(self) -> ClockRange:
        """How far the broker's monotonic clock is ahead of this process's."""
        exchanges = []
        for _ in range(_EXCHANGES):
            sent = time.monotonic()
            now = self.ask({}).now
            exchanges.append((sent, now, time.monotonic()))
        return ClockRange.of_exchanges(exchanges)


class _Sender:
    """The producer of the one record."""

    def __init__(self, args: argparse.Namespace) -> None:
        from confluent_kafka import Producer

        self._args = args
        self._up: set[int] = set()
        settings: dict[str, object] = {
            **librdkafka_settings(args, {"acks": args.acks, "linger.ms": "0", "retries": "0"}),
            # Connect to all brokers at once, and notice when it is done: connecting is no part of the record's way.
            "enable.sparse.connections": "false",
            "statistics.interval.ms": "50",
            "stats_cb": self._notice,
        }
        self._producer: Producer = Producer(settings)

    def _notice(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        self._up = {broker["nodeid"] for broker in brokers if broker["state"] == "UP"}

    def placement(self) -> tuple[int, list[int]]:
        """The leader and the replicas of the partition; returns when the leader is connected."""
        from confluent_kafka import KafkaException

        topic, partition = self._args.topic, self._args.partition
        try:
            found = self._producer.list_topics(topic, timeout=self._args.timeout).topics[topic]
        except KafkaException as error:
            raise OSError(str(error)) from None
        if found.error is not None or partition not in found.partitions:
            raise OSError(f"{topic}-{partition}: {found.error or 'no such partition'}")
        state = found.partitions[partition]
        if state.leader < 0:
            raise OSError(f"{topic}-{partition} has no leader")
        deadline = time.monotonic() + self._args.timeout
        while state.leader not in self._up and time.monotonic() < deadline:
            self._producer.poll(0.01)
        return state.leader, list(state.replicas)

    def send(self) -> tuple[int, float, float]:
        """The offset of the record, and when it was sent and acknowledged (monotonic seconds). Raises ``OSError``."""
        outcome: list[tuple[float, KafkaError | None, int | None]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcome.append((time.monotonic(), error, message.offset()))

        args = self._args
        sent = time.monotonic()
        self._producer.produce(args.topic, args.value.encode(), partition=args.partition, on_delivery=delivered)
        deadline = sent + args.timeout
        while not outcome and time.monotonic() < deadline:
            self._producer.poll(0.1)
        if not outcome:
            raise OSError(f"the record was not acknowledged in {args.timeout} s")
        answered, error, offset = outcome[0]
        if error is not None or offset is None:
            raise OSError(f"the record was refused: {error}")
        return offset, sent, answered


def _collect(
    pages: Mapping[int, TracePage],
    where: Mapping[str, str],
    offset: int,
    leader: int,
    replicas: list[int],
    args: argparse.Namespace,
) -> tuple[list[TracePoint], bool]:
    """All points, once every follower and (if it is waited for) a consumer has the record, or the time is over."""
    started = time.monotonic()
    while True:
        points = [point for page in pages.values() for point in page.ask(where).points]
        of_record = [point for point in points if point.first <= offset < point.end]
        followers = {point.reader for point in of_record if point.kind == TracePointKind.ACKNOWLEDGED}
        consumed = any(point.kind == TracePointKind.SENT and point.reader < 0 for point in of_record)
        elapsed = time.monotonic() - started
        replicated = followers >= set(replicas) - {leader} or elapsed > min(_FOLLOWERS_WAIT, args.timeout)
        if replicated and (consumed or not args.wait_consumer or elapsed > args.timeout):
            return points, consumed
        time.sleep(_PAUSE)


def as_text(story: RecordStory, name: str, offset: int, leader: int) -> list[str]:
    """The story as lines."""
    lines = [f"{name}, offset {offset}"]
    lines += [f"{step.ms:9.1f} ms  {_who(step, leader):<19} {step.text}" for step in story.steps]
    longest = story.longest
    lines.append(f"total {story.total_ms:.1f} ms, of which {longest.ms:.1f} ms {longest.text}")
    exact = ", ".join(f"broker {broker} ± {ms:.1f} ms" for broker, ms in sorted(story.uncertainty_ms.items()))
    lines.append(f"clocks: {exact}")
    return lines


def _who(step: RecordStep, leader: int) -> str:
    if step.broker == CLIENT:
        return "client"
    return f"broker {step.broker} ({'leader' if step.broker == leader else 'follower'})"


def as_json(story: RecordStory, name: str, offset: int, leader: int) -> dict[str, object]:
    """The story as one JSON object."""
    return {
        "partition": name,
        "offset": offset,
        "leader": leader,
        "total_ms": story.total_ms,
        "steps": [asdict(step) for step in story.steps],
        "legs": [asdict(leg) for leg in story.legs],
        "longest": asdict(story.longest),
        "uncertainty_ms": {str(broker): ms for broker, ms in story.uncertainty_ms.items()},
    }
