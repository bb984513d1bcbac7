"""Counts the records of a topic in windows of ten minutes, and writes each new count to another topic: a small job.

Answers to: ``org.apache.kafka.streams.kstream.internals.KStreamWindowAggregate`` for
``groupBy(…).windowedBy(ofSizeAndGrace(…)).count()``. Blocking shell (client library) around :class:`WindowCounts`,
which is pure. A value is the time of the event and a name, ``10:08 eve``; a result has the start of its window as its
key.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kafkalite.common.errors import StartupError
from kafkalite.record.records import Record

WIDTH: Final = 10
"""Minutes of a window."""
TIMEOUT: Final = 60.0


class WindowCounts:
    """The open windows. A window is closed once an event came that is ``delay`` minutes later than its end."""

    def __init__(self, delay: int) -> None:
        self.late = 0
        """Events that were left out, because their window was closed."""
        self._delay = delay
        self._newest = 0
        self._counts: Counter[int] = Counter()

    def add(self, minute: int) -> tuple[int, int] | None:
        """The start of the event's window and its new count; ``None`` if the window is closed."""
        self._newest = max(self._newest, minute)
        start = minute - minute % WIDTH
        if start + WIDTH <= self._newest - self._delay:
            self.late += 1
            return None
        self._counts[start] += 1
        return start, self._counts[start]


def minute_of(text: str) -> int:
    """``10:08 …`` as minutes of the day. Raises ``ValueError``."""
    hours, _, minutes = text.partition(" ")[0].partition(":")
    return int(hours) * 60 + int(minutes)


def clock(minute: int) -> str:
    """The reverse of :func:`minute_of`."""
    return f"{minute // 60:02}:{minute % 60:02}"


def table(records: Iterable[Record]) -> dict[str, int]:
    """The last count of each window: the results as a table, in which a record replaces the one before of its key."""
    return {(each.key or b"").decode(): int(each.value or b"0") for each in records}


def run(bootstrap: str, source: str, target: str, delay: int) -> WindowCounts:
    """Read ``source`` from its beginning to its present end, and write each new count to ``target``."""
    counts = WindowCounts(delay)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in _values(bootstrap, source):
        result = counts.add(minute_of(value))
        if result is not None:
            start, count = result
            producer.produce(target, str(count), clock(start))
    if producer.flush(TIMEOUT):
        raise StartupError(f"results to {target} got no answer within {TIMEOUT:.0f} s")
    return counts


def _values(bootstrap: str, topic: str) -> Iterator[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "window-counts",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(TIMEOUT)) is not None:
            error = message.error()
            if error is None:
                yield (message.value() or b"").decode()
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    raise StartupError(f"no records of {topic}-0 within {TIMEOUT:.0f} s")


def main(words: Sequence[str] | None = None) -> None:
    """``python -m kafkalite.learn.window_counts``, with ``words`` in place of those of the process."""
    parser = argparse.ArgumentParser(description="Count the records of a topic in windows of ten minutes.")
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--from", dest="source", required=True, metavar="TOPIC")
    parser.add_argument("--to", dest="target", required=True, metavar="TOPIC")
    parser.add_argument(
        "--delay", type=int, required=True, metavar="MINUTES", help="how long late events are waited for"
    )
    args = parser.parse_args(words)
    counts = run(args.bootstrap_server, args.source, args.target, args.delay)
    print(f"{args.source} is counted in {args.target}; {counts.late} events were too late")


if __name__ == "__main__":
    main()
