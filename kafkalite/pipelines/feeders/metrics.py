"""The sampler of the job *metrics*: figures of processes, and of a cluster, into a topic.

    python -m kafkalite.pipelines.feeders.metrics --bootstrap-server localhost:9092 --topic metrics --interval 5 \\
        --match 'brokers=kafkalite.* broker start' --process web:sites=4711 --cluster

Answers to: nothing in Kafka; the agents of monitoring systems (collectd, Prometheus' node exporter). Blocking shell.

``--process NAME[:GROUP]=PID`` samples one process, ``--match GROUP=EXPRESSION`` all whose command lines the expression
is found in, as they come and go, under the names ``GROUP-PID``. A process that is gone has one more sample, with the
gauge ``up`` 0. ``--cluster`` adds what the Kafka protocol tells: records and under-replicated partitions of topics, lag
of consumer groups, bytes in the log directories of brokers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psutil

from kafkalite.pipelines.feeders.cluster_figures import ClusterFigures

if TYPE_CHECKING:
    from confluent_kafka import Producer


@dataclass(frozen=True)
class Sample:
    """Figures of one process at one time: counters only grow while it lives, gauges go up and down."""

    host: str
    process: str
    group: str | None
    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The record's key, which keeps the samples of one process in order."""
        return f"{self.host}/{self.process}"

    def value(self, at: float) -> str:
        """The record, taken ``at`` seconds since 1970."""
        moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps({"time": moment, **asdict(self)})


@dataclass(frozen=True)
class Watched:
    """A process to sample."""

    process: str
    group: str | None
    pid: int


class ProcessSampler:
    """The processes ``watched``, and those whose command lines an expression of ``matches`` (group → expression) is
    found in, on this ``host``."""

    def __init__(self, watched: Sequence[Watched], matches: Mapping[str, re.Pattern[str]], host: str) -> None:
        self._watched = list(watched)
        self._matches = matches
        self._host = host
        self._alive: dict[Watched, psutil.Process] = {}

    def samples(self) -> Iterator[Sample]:
        """All that are alive, and those that died since the last time."""
        for one in self._watched:
            self._find(one)
        for one in self._matching():
            self._find(one)
        for one, process in list(self._alive.items()):
            found = figures(process)
            if found is None:
                del self._alive[one]
                yield Sample(self._host, one.process, one.group, {}, {"up": 0})
            else:
                yield Sample(self._host, one.process, one.group, *found)

    def _find(self, one: Watched) -> None:
        if one not in self._alive:
            try:
                self._alive[one] = psutil.Process(one.pid)
            except psutil.NoSuchProcess:
                pass

    def _matching(self) -> Iterator[Watched]:
        if not self._matches:
            return
        for process in psutil.process_iter(["cmdline"]):
            if process.pid == os.getpid():
                continue
            line = " ".join(process.info["cmdline"] or ())
            for group, expression in self._matches.items():
                if line and expression.search(line):
                    yield Watched(f"{group}-{process.pid}", group, process.pid)


def figures(process: psutil.Process) -> tuple[dict[str, float], dict[str, float]] | None:
    """Counters and gauges of ``process``; None if it is gone. Figures that this user cannot read are left out."""
    counters: dict[str, float] = {}
    gauges: dict[str, float] = {"up": 1}
    try:
        with process.oneshot():
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            times = process.cpu_times()
            counters["cpu_seconds"] = times.user + times.system
            gauges["resident_bytes"] = process.memory_info().rss
            gauges["threads"] = process.num_threads()
            try:
                gauges["descriptors"] = process.num_fds()
                moved = process.io_counters()
                counters["read_bytes"], counters["written_bytes"] = moved.read_chars, moved.write_chars
            except (psutil.AccessDenied, AttributeError):
                pass
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return counters, gauges
    return counters, gauges


def build_parser() -> argparse.ArgumentParser:
    """The flags of this command."""
    parser = argparse.ArgumentParser(
        prog="python -m kafkalite.pipelines.feeders.metrics", description="Samples of processes into a topic."
    )
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--topic", default="metrics")
    parser.add_argument("--interval", type=float, default=5.0, metavar="SECONDS", help="between two samples (5)")
    parser.add_argument("--host", default=socket.gethostname(), help="what to call this machine")
    parser.add_argument("--process", type=_watched, action="append", default=[], metavar="NAME[:GROUP]=PID")
    parser.add_argument("--match", type=_match, action="append", default=[], metavar="GROUP=EXPRESSION")
    parser.add_argument("--cluster", action="store_true", help="the cluster's own figures, too")
    parser.add_argument(
        "--topics", type=_expression, default="", metavar="EXPRESSION", help="of the cluster: only these topics"
    )
    parser.add_argument(
        "--property", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="of librdkafka's clients"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Sample until SIGTERM or SIGINT."""
    from confluent_kafka import Producer

    args = build_parser().parse_args(argv)
    settings = {"bootstrap.servers": args.bootstrap_server, **dict(args.property)}
    own = {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 20, "log_level": 0}
    producer = Producer({**own, **settings})
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    processes = ProcessSampler(args.process, dict(args.match), args.host)
    sampled: list[Callable[[], Iterable[Sample]]] = [processes.samples]
    if args.cluster:
        cluster = ClusterFigures(settings, args.topics)
        sampled.append(lambda: (Sample(*one) for one in cluster.figures()))
    # Two threads, because the cluster may be slow to answer just when its processes' figures matter most.
    threads = [
        threading.Thread(target=sample, args=(each, producer, args.topic, args.interval, ended)) for each in sampled
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


def sample(
    samples: Callable[[], Iterable[Sample]], producer: Producer, topic: str, interval: float, ended: threading.Event
) -> None:
    """One round of ``samples`` every ``interval`` seconds; after a longer round the missed ones are skipped."""
    due = time.monotonic()
    while not ended.is_set():
        now = time.time()
        for one in samples():
            producer.produce(topic, one.value(now), one.key)
        producer.flush(30)
        due = max(due + interval, time.monotonic())
        ended.wait(due - time.monotonic())


def _watched(text: str) -> Watched:
    name, pid = _pair(text)
    process, _, group = name.partition(":")
    if not pid.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}': '{pid}' is not the number of a process")
    return Watched(process, group or None, int(pid))


def _match(text: str) -> tuple[str, re.Pattern[str]]:
    group, expression = _pair(text)
    return group, _expression(expression)


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not a regular expression: {error}") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
