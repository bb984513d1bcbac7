"""The job ``suggestions`` over MovieLens, compared with plain Python, and with the most popular films."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from integration.conftest import SOAK
from integration.pipelines.films import Films, Scores, hit_rate, split
from integration.pipelines.reading import records
from integration.spark.topics import new_topic
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.feeders.ratings import main, movielens, send
from kafkalite.pipelines.jobs.suggestions import Options, start
from kafkalite.pipelines.pipeline import Pipeline, Trigger

PARTS = 8 if SOAK else 3
"""Number of micro-batches, each in a separate run."""
PEOPLE = 700 if SOAK else 250
Suggested = dict[str, list[dict[str, Any]]]


def run(spark: SparkSession, cluster: LocalCluster, state: Path, options: Options) -> None:
    """Process all existing ratings as one micro-batch."""
    kafka = {"bootstrap.servers": cluster.bootstrap}
    context = Context(spark, Pipeline("films", "suggestions", kafka, Trigger(once=True)), state)
    for query in start(context, options):
        query.awaitTermination()


def read(cluster: LocalCluster, topic: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """User and suggestions, in the order of each partition."""
    found = []
    for key, value in records(cluster.bootstrap, topic):
        assert key is not None and value is not None
        told = json.loads(value)
        assert told["user"] == key.decode()
        found.append((told["user"], told["items"]))
    return found


def check(scores: Scores, user: str, items: list[dict[str, Any]], count: int) -> None:
    """Check that ``items`` are the best for ``user``, with their scores, up to the rounding of float sums."""
    assert len(items) == len({each["item"] for each in items}) == min(count, len(scores)), user
    for each in items:
        assert each["score"] == pytest.approx(scores.pop(each["item"]), abs=2e-6), user
    given = [each["score"] for each in items]
    assert given == sorted(given, reverse=True), user
    assert max(scores.values(), default=0.0) <= given[-1] + 2e-6, user


@pytest.mark.full
def test_suggestions_as_ratings_arrive(
    spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run continues with the state of the runs before. Two runs fail, before and after the suggestions of a
    micro-batch are written, and are repeated. Each user who rated in a micro-batch gets suggestions once."""
    ratings, later = split((each for each in movielens() if int(each.user) <= PEOPLE), 0.8)
    topic, answers = new_topic(shared_cluster, "ratings", 2), new_topic(shared_cluster, "suggestions", 2)
    options = Options(topic, answers)
    films, last, seen = Films(), Suggested(), Counter[str]()
    size = len(ratings) // PARTS + 1
    for part in range(PARTS):
        some = ratings[part * size : (part + 1) * size]
        send(shared_cluster.bootstrap, topic, some)
        if part in (1, 2):
            with monkeypatch.context() as patch, pytest.raises(StreamingQueryException, match="the power is gone"):
                fail_to_write(patch, after=part == 2)
                run(spark, shared_cluster, tmp_path, options)
        run(spark, shared_cluster, tmp_path, options)
        for each in some:
            films.rate(each)
        found = read(shared_cluster, answers)
        told, last = Counter(user for user, _ in found), Suggested(found)
        scores = {user: films.scores(user) for user in {each.user for each in some}}
        assert told - seen == Counter(user for user, of_user in scores.items() if of_user), "once for each who rated"
        for user in told - seen:
            check(scores[user], user, last[user], options.count)
        seen = told

    ours = hit_rate({user: [each["item"] for each in items] for user, items in last.items()}, later)
    popular = hit_rate({user: films.most_popular(user, options.count) for user in last}, later)
    print(
        f"of {len(last)} users, {ours:.1%} later liked one of their suggestions, {popular:.1%} one of the most popular"
    )
    assert ours > 1.15 * popular


def fail_to_write(patch: pytest.MonkeyPatch, *, after: bool) -> None:
    """Make the next write of suggestions fail, before it or after it."""
    write = Context.write_once

    def fail(context: Context, frame: DataFrame, topic: str, number: int) -> None:
        if after:
            write(context, frame, topic, number)
        raise RuntimeError("the power is gone")

    patch.setattr(Context, "write_once", fail)


def test_the_command_that_sends_ratings(shared_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    topic = new_topic(shared_cluster, "ratings")
    assert main(["--bootstrap-server", shared_cluster.bootstrap, "--topic", topic, "--count", "50"]) == 0
    assert capsys.readouterr().out == f"50 ratings sent to topic {topic}\n"
    sent = [(key, json.loads(value or b"")) for key, value in records(shared_cluster.bootstrap, topic)]
    assert sent == [(each.user.encode(), asdict(each)) for each in movielens()[:50]]
