"""A table to which micro-batches add, some of them twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from kafkalite.pipelines.increments import Increments
from kafkalite.pipelines.jobs.suggestions import PAIRS, total

EVERY = 3
TWICE = (4, 5)
"""Micro-batches that are repeated: one that adds an increment, and one that writes the whole table."""


# trap: kafkalite/pipelines/increments.py: A repeated micro-batch would count twice in the state of `foreachBatch`.
def test_each_micro_batch_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """A micro-batch is interrupted before or after its write, and repeated with other rows: the last attempt counts.
    The folder does not grow with the number of micro-batches."""
    table = Increments(spark, str(tmp_path / "pairs"), PAIRS, total, every=EVERY)
    wanted: Counter[tuple[str, str]] = Counter()

    def there(number: int) -> dict[tuple[str, str], int]:
        return {(row.item, row.other): row.together for row in table.before(number).collect()}

    for number in range(2 * EVERY + 2):
        assert there(number) == wanted, "nobody sees what a micro-batch adds before the next"
        for attempt in range(2 if number in TWICE else 1):
            rows = [("a", "b", 1), ("a", f"{number}, attempt {attempt}", 2)]
            table.add(number, spark.createDataFrame(rows, PAIRS))
        wanted.update({(item, other): together for item, other, together in rows})
    assert there(number + 1) == wanted
    folders = sorted(path.name.replace("-00000000", "-") for path in (tmp_path / "pairs").iterdir())
    assert folders == ["more-03", "more-04", "more-06", "more-07", "whole-02", "whole-05"]
