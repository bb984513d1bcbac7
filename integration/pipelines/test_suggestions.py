"""The job ``suggestions``: MovieLens, against plain Python, and against what is most popular."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from integration.conftest import SOAK
from integration.pipelines.films import Films, hit_rate, split
from integration.pipelines.reading import records
from integration.spark.topics import new_topic
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.feeders.ratings import movielens, send
from kafkalite.pipelines.jobs.suggestions import Options, start
from kafkalite.pipelines.pipeline import Pipeline, Trigger

PARTS = 8 if SOAK else 4
"""Micro-batches, each in a run of its own."""
PEOPLE = 700 if SOAK else 400
Suggested = dict[str, list[dict[str, Any]]]


def run(spark: SparkSession, cluster: LocalCluster, state: Path, options: Options) -> None:
    """All ratings that there are now, as one micro-batch."""
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


def check(films: Films, user: str, items: list[dict[str, Any]], count: int) -> None:
    """These are the best for ``user``, with their scores, as far as sums of floats can say."""
    scores = films.scores(user)
    assert len(items) == len({each["item"] for each in items}) == min(count, len(scores)), user
    for each in items:
        assert each["score"] == pytest.approx(scores.pop(each["item"]), abs=2e-6), user
    given = [each["score"] for each in items]
    assert given == sorted(given, reverse=True), user
    assert max(scores.values(), default=0.0) <= given[-1] + 2e-6, user


def test_suggestions_as_ratings_arrive(
    spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run goes on with what those before it knew. Two fail where that hurts most: before and after the
    suggestions of a micro-batch are written; then it is done again. Who rated in it gets suggestions once."""
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
        told = Counter(user for user, _ in found)
        assert told - seen == Counter({each.user: 1 for each in some if films.scores(each.user)})
        seen = told
        last = Suggested(found)
        for user in {each.user for each in some} & last.keys():
            check(films, user, last[user], options.count)

    ours = hit_rate({user: [each["item"] for each in items] for user, items in last.items()}, later)
    popular = hit_rate({user: films.most_popular(user, options.count) for user in last}, later)
    print(
        f"of {len(last)} users, {ours:.1%} later liked one of their suggestions, {popular:.1%} one of the most popular"
    )
    assert ours > 1.15 * popular


def fail_to_write(patch: pytest.MonkeyPatch, *, after: bool) -> None:
    """The next write of suggestions fails, after it was done or before."""
    write = Context.write_once

    def fail(context: Context, frame: DataFrame, topic: str, number: int) -> None:
        if after:
            write(context, frame, topic, number)
        raise RuntimeError("the power is gone")

    patch.setattr(Context, "write_once", fail)
