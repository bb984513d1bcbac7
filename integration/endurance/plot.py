"""Small multiples of time series as SVG. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

from integration.endurance.trend import Point

COLUMNS = 2
WIDTH, HEIGHT = 420, 150
LEFT, RIGHT, TOP, BOTTOM = 56, 24, 26, 22
LEGEND = 44
COLOURS = ("#1f6feb", "#d1782f", "#2f9e5b", "#8250df", "#6e7781")
MOST_POINTS = 600


@dataclass(frozen=True, slots=True)
class Panel:
    """One small plot. A ``None`` in a line is a gap, where one process ended and the next one began."""

    title: str
    lines: Mapping[str, Sequence[Point | None]]


def draw(title: str, panels: Sequence[Panel], faults: Sequence[float], seconds: float) -> str:
    """An SVG of all panels over the same ``seconds``, with a thin line at the time of each fault."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * WIDTH, LEGEND + rows * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="17" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    for i, name in enumerate(names):
        x = LEFT + i * 110
        parts.append(f'<rect x="{x}" y="28" width="14" height="4" fill="{colours[name]}"/>')
        parts.append(f'<text x="{x + 19}" y="34">{escape(name)}</text>')
    x = LEFT + len(names) * 110
    parts.append(f'<line x1="{x + 6}" y1="24" x2="{x + 6}" y2="36" stroke="#c9ced6"/>')
    parts.append(f'<text x="{x + 19}" y="34">fault</text>')
    for number, panel in enumerate(panels):
        left = number % COLUMNS * WIDTH
        top = LEGEND + number // COLUMNS * HEIGHT
        parts.append(f'<g transform="translate({left} {top})">')
        parts.extend(_panel(panel, faults, seconds, colours))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def ceiling(value: float) -> float:
    """The least round number that is not below ``value``: 1, 2, 3, 4, 5, 6 or 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = float(10 ** floor(log10(value)))
    return next(power * factor for factor in (1, 2, 3, 4, 5, 6, 8, 10, 20) if power * factor >= value)


def _panel(panel: Panel, faults: Sequence[float], seconds: float, colours: Mapping[str, str]) -> list[str]:
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    values = [point[1] for line in panel.lines.values() for point in line if point is not None]
    # The axis begins at 0, so that the height of a rise shows its share of the level.
    top = ceiling(max(values, default=0.0))
    seconds = seconds or 1.0

    def place(point: Point) -> str:
        return f"{LEFT + point[0] / seconds * across:.1f},{TOP + down - point[1] / top * down:.1f}"

    parts = [f'<text x="{LEFT}" y="16" font-weight="bold">{escape(panel.title)}</text>']
    marks = "".join(f"M{LEFT + at / seconds * across:.1f} {TOP}v{down}" for at in faults)
    parts.append(f'<path d="{marks}" stroke="#dfe3e8"/>')
    for share in (0.0, 0.5, 1.0):
        y = TOP + down - share * down
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + across}" y2="{y:.1f}" stroke="#b8bec6"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{top * share:,.4g}</text>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, minute = LEFT + share * across, seconds * share / 60
        parts.append(f'<text x="{x:.1f}" y="{TOP + down + 14}" text-anchor="middle">{minute:.3g} min</text>')
    for name, line in panel.lines.items():
        for run in _runs(line):
            points = " ".join(place(point) for point in run)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colours[name]}" stroke-width="1.4"/>')
    return parts


def _runs(line: Sequence[Point | None]) -> list[list[Point]]:
    """The pieces of a line between its gaps, thinned out."""
    runs: list[list[Point]] = [[]]
    for point in line:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    step = len(line) // MOST_POINTS + 1
    return [run[::step] for run in runs if run]
