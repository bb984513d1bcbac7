"""A cell of the bench: a measurement of both sides, and the bounds on the two results."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from integration.bench.side import Maker, Side

_numbers = itertools.count(1)


def fresh_topic(prefix: str) -> str:
    """A topic name that this run has not used before."""
    return f"{prefix}-{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Metric:
    """One number that a cell measures.

    ``at_least``/``at_most`` bound the ratio kafkalite / Kafka, ``limit`` and ``floor`` bound kafkalite's own figure
    from above and from below; without any of them the number is shown for information.
    """

    name: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    limit: float | None = None
    floor: float | None = None

    def target(self) -> str:
        """The bounds as text."""
        words = []
        if self.at_least is not None:
            words.append(f"≥ {self.at_least:g} ×")
        if self.at_most is not None:
            words.append(f"≤ {self.at_most:g} ×")
        if self.limit is not None:
            words.append(f"≤ {self.limit:g} {self.unit.partition(',')[0]}")
        if self.floor is not None:
            words.append(f"≥ {self.floor:,g} {self.unit.partition(',')[0]}")
        return ", ".join(words)

    def met(self, ours: float, theirs: float) -> bool | None:
        """Whether all bounds are kept; ``None`` without bounds."""
        if not self.target():
            return None
        ratio = ours / theirs if theirs else float("inf")
        return (
            (self.at_least is None or ratio >= self.at_least)
            and (self.at_most is None or ratio <= self.at_most)
            and (self.limit is None or ours <= self.limit)
            and (self.floor is None or ours >= self.floor)
        )


@dataclass(slots=True)
class Figure:
    """The medians of one metric of one cell."""

    cell: Cell
    metric: Metric
    kafkalite: float
    kafka: float

    @property
    def ratio(self) -> float:
        """kafkalite / Kafka."""
        return self.kafkalite / self.kafka if self.kafka else float("nan")


class Cell:
    """One measurement. ``group`` is its heading in the report."""

    name: str
    title: str
    group: str
    metrics: Sequence[Metric]
    rounds: int | None = None
    """Greatest number of rounds of a cell whose rounds are long; ``None``: no limit."""

    def figures(self, results: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Figure]:
        """The medians of each side's rounds."""
        found = []
        for metric in self.metrics:
            values = {
                side: [each[metric.name] for each in rounds if metric.name in each] for side, rounds in results.items()
            }
            if all(values.get(side) for side in ("kafkalite", "kafka")):
                found.append(Figure(self, metric, median(values["kafkalite"]), median(values["kafka"])))
        return found


class ClusterCell(Cell, abc.ABC):
    """A measurement on the cluster of three brokers that a side keeps throughout the run."""

    warm = False
    """Whether a first round is discarded, because a JVM is slow until it has compiled."""

    @abc.abstractmethod
    def run(self, side: Side) -> dict[str, float]:
        """Measure once."""


class FreshCell(Cell, abc.ABC):
    """A measurement that starts its own brokers, while the clusters of the other cells are idle."""

    @abc.abstractmethod
    def run(self, maker: Maker, directory: Path) -> dict[str, float]:
        """Measure once, in an empty directory."""
