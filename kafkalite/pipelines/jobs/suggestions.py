"""The job ``suggestions``: items that a user who has just rated one may like, too.

Answers to: nothing in Kafka; item-based collaborative filtering (Sarwar et al., 2001; Linden et al., 2003). Shell.

Two items are similar if the same users like both: the cosine ``n(a, b) / sqrt(n(a) · n(b))`` of how many like them.
An item that a user has not rated scores the sum over the items that the user likes. Each like makes pairs with the
``history`` likes of the same user before it, so the counts follow from the log, with any cut into micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

from kafkalite.pipelines.context import Context
from kafkalite.pipelines.increments import Increments
from kafkalite.pipelines.streams.values import from_json, to_record

RATED = "user STRING, item STRING, position BIGINT"
"""Each item that a user has rated. ``position`` counts the user's likes; an item rated but not liked has none."""
PAIRS = "item STRING, other STRING, together BIGINT"
"""Number of users who like both items; for an item with itself the number of users who like it."""


@dataclass(frozen=True)
class Options:
    """Ratings are JSON objects in the topic ``ratings``, keyed by user; ``user``, ``item`` and ``rating`` name their
    fields. ``errors`` says what to do with other values.

    A rating of at least ``like`` is a like; the first one of an item counts. At most ``history`` likes before it make
    pairs with it, and so many of the last ones are used for suggestions; pairs of fewer than ``support`` users are
    ignored. ``count`` suggestions for each user that rated in a micro-batch go to the topic ``suggestions``,
    created with ``partitions`` if it does not exist: keyed by user, compacted.
    """

    ratings: str
    suggestions: str
    user: str = "user"
    item: str = "item"
    rating: str = "rating"
    like: float = 4.0
    history: int = 30
    support: int = 2
    count: int = 10
    partitions: int = 3
    errors: Literal["fail", "skip"] = "fail"

    def __post_init__(self) -> None:
        for name in ("history", "support", "count", "partitions"):
            if getattr(self, name) < 1:
                raise ValueError(f"'{name}' must be 1 or more")


def start(context: Context, options: Options) -> list[StreamingQuery]:
    """Start the query. Raises :class:`PipelineError`."""
    context.ensure_topic(options.suggestions, options.partitions, cleanup_policy="compact")
    schema = f"`{options.user}` STRING, `{options.item}` STRING, `{options.rating}` DOUBLE"
    values = from_json(context.read_topic(options.ratings), schema, keep=("partition", "offset"), errors=options.errors)
    ratings = values.select(
        "partition",
        "offset",
        sql.col(options.user).alias("user"),
        sql.col(options.item).alias("item"),
        sql.col(options.rating).alias("rating"),
    ).dropna()
    return [context.write_each(ratings, Suggester(context, options).suggest, query="suggestions")]


class Suggester:
    """Keeps each user's ratings and the counts of pairs, and makes suggestions from them, once for each micro-batch."""

    def __init__(self, context: Context, options: Options) -> None:
        self._context = context
        self._options = options
        tables = context.checkpoint("tables")
        self._rated = Increments(context.spark, f"{tables}/rated", RATED)
        self._pairs = Increments(context.spark, f"{tables}/pairs", PAIRS, total)

    def suggest(self, ratings: DataFrame, number: int) -> None:
        """Process one micro-batch."""
        options = self._options
        ratings = ratings.persist()
        new = new_ratings(ratings, self._rated.before(number), options.like).persist()
        try:
            self._rated.add(number, new)
            rated = self._rated.before(number + 1)
            self._pairs.add(number, new_pairs(new, rated, options.history))
            users = ratings.select("user").distinct()
            found = suggestions(users, rated, self._pairs.before(number + 1), options)
            self._context.write_once(to_record(found, key="user"), options.suggestions, number)
        finally:
            new.unpersist()
            ratings.unpersist()


def new_ratings(ratings: DataFrame, rated: DataFrame, like: float) -> DataFrame:
    """What ``ratings`` (user, item, rating; partition and offset are their order) add to what is ``rated``."""
    likes = rated.where("position IS NOT NULL")
    last = likes.groupBy("user").agg(sql.max("position").alias("last"))
    order = sql.struct("partition", "offset")
    first = (
        ratings.where(sql.col("rating") >= like)
        .groupBy("user", "item")
        .agg(sql.min(order).alias("order"))
        .join(likes, ["user", "item"], "left_anti")
    )
    place = sql.row_number().over(Window.partitionBy("user").orderBy("order"))
    liked = first.join(last, "user", "left").select(
        "user", "item", (sql.coalesce("last", sql.lit(0)) + place).cast("bigint").alias("position")
    )
    seen = ratings.select("user", "item").distinct().join(rated, ["user", "item"], "left_anti")
    passed_over = seen.join(liked, ["user", "item"], "left_anti")
    return liked.unionByName(passed_over.withColumn("position", sql.lit(None).cast("bigint")))


def new_pairs(new: DataFrame, rated: DataFrame, history: int) -> DataFrame:
    """The counts that likes among ``new`` add; ``rated`` has them, and all before them."""
    later = new.where("position IS NOT NULL").alias("later")
    earlier = rated.where("position IS NOT NULL").alias("earlier")
    distance = sql.col("later.position") - sql.col("earlier.position")
    together = later.join(earlier, (sql.col("later.user") == sql.col("earlier.user")) & distance.between(1, history))
    one, other = sql.col("later.item"), sql.col("earlier.item")
    rows = [
        together.select(one.alias("item"), other.alias("other")),
        together.select(other.alias("item"), one.alias("other")),
        later.select(one.alias("item"), one.alias("other")),
    ]
    counted = rows[0].unionByName(rows[1]).unionByName(rows[2]).withColumn("together", sql.lit(1).cast("bigint"))
    return total(counted)


def total(pairs: DataFrame) -> DataFrame:
    """The sum of each pair's counts."""
    return pairs.groupBy("item", "other").agg(sql.sum("together").alias("together"))


def suggestions(users: DataFrame, rated: DataFrame, pairs: DataFrame, options: Options) -> DataFrame:
    """``user`` and ``items`` (item and score, the best first) for each of ``users`` with a suggestion."""
    own = rated.join(sql.broadcast(users), "user", "left_semi")
    newest_first = Window.partitionBy("user").orderBy(sql.desc("position"))
    likes = _first(own.where("position IS NOT NULL"), newest_first, options.history).select("user", "item")
    popularity = pairs.where("item = other")
    alike = (
        pairs.where(sql.col("item") != sql.col("other"))
        # Before the sum, because no user here likes most of the items, and Spark drops their pairs early.
        .join(sql.broadcast(likes.select("item").distinct()), "item", "left_semi")
        .where(sql.col("together") >= options.support)
        .join(likes, "item")
        .join(popularity.selectExpr("item", "together AS likes"), "item")
        .join(popularity.selectExpr("other", "together AS other_likes"), "other")
    )
    cosine = sql.col("together") / sql.sqrt(sql.col("likes") * sql.col("other_likes"))
    scores = (
        alike.groupBy("user", sql.col("other").alias("item"))
        .agg(sql.round(sql.sum(cosine), 6).alias("score"))
        .join(own.select("user", "item"), ["user", "item"], "left_anti")
    )
    best_first = Window.partitionBy("user").orderBy(sql.desc("score"), "item")
    best = _first(scores, best_first, options.count)
    # Spark compares structs by their first field, here the place.
    items = sql.sort_array(sql.collect_list(sql.struct("place", "item", "score")))
    return best.groupBy("user").agg(sql.transform(items, _item_and_score).alias("items"))


def _first(rows: DataFrame, order: WindowSpec, count: int) -> DataFrame:
    """The first ``count`` rows of each group, with their ``place``."""
    return rows.withColumn("place", sql.row_number().over(order)).where(sql.col("place") <= count)


def _item_and_score(each: Column) -> Column:
    return sql.struct(each["item"].alias("item"), each["score"].alias("score"))
