"""The robust trend of each measure over a run, compared with a bound. Pure.

The trend is Theil and Sen's: the median of the slopes between all pairs of samples, which the few extreme samples of a
fault do not change. The verdict is about the line's rise between the warm-up and the end of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

MOST_POINTS = 400
"""Greatest number of points of a series; longer ones are thinned out, because the number of pairs grows with the
square."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Allowed rise of a measure: the greater of ``absolute``, in its unit, and ``share`` of its level."""

    absolute: float
    share: float = 0.0

    def limit(self, level: float) -> float:
        """The greatest rise of a measure whose plateau is at ``level``."""
        return max(self.absolute, self.share * level)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One measure: medians of its first samples, of the second and of the last quarter, and its rise."""

    name: str
    unit: str
    start: float
    plateau: float
    end: float
    rise: float
    limit: float
    samples: int

    @property
    def grows(self) -> bool:
        """Whether it rose by more than its bound."""
        return self.rise > self.limit


Point = tuple[float, float]
"""Seconds since the start, value."""


def slope(points: Sequence[Point]) -> float:
    """The median slope between all pairs of points, in units a second; 0 for fewer than two points."""
    points = points[:: len(points) // MOST_POINTS + 1]
    slopes = [(b - a) / (then - now) for (now, a), (then, b) in combinations(points, 2) if then > now]
    return median(slopes) if slopes else 0.0


def judge(name: str, unit: str, points: Sequence[Point], warm_up: float, end: float, bound: Bound) -> Verdict:
    """The measure's rise between the seconds ``warm_up`` and ``end``. Raises ``ValueError`` without samples between
    them."""
    judged = [point for point in points if warm_up <= point[0] <= end]
    if not judged:
        raise ValueError(f"{name}: no samples between {warm_up:.0f} s and {end:.0f} s")
    span = end - warm_up
    early = [value for at, value in judged if at <= warm_up + span / 3] or [judged[0][1]]
    late = [value for at, value in judged if at >= end - span / 3] or [judged[-1][1]]
    plateau = median(early)
    rise = slope(judged) * span
    first = median(value for _, value in points[:3])
    return Verdict(name, unit, first, plateau, median(late), rise, bound.limit(plateau), len(judged))


def markdown(verdicts: Sequence[Verdict]) -> str:
    """A table of all verdicts."""
    lines = ["| Measure | Start | Plateau | End | Trend | Bound |", "|---|---:|---:|---:|---:|---:|"]
    for each in verdicts:
        figures = [each.start, each.plateau, each.end]
        numbers = " | ".join(f"{figure:,.1f}" for figure in figures)
        unit = f" ({each.unit})" if each.unit else ""
        mark = " **grows**" if each.grows else ""
        lines.append(f"| {each.name}{unit} | {numbers} | {each.rise:+,.1f}{mark} | {each.limit:,.1f} |")
    return "\n".join(lines) + "\n"
