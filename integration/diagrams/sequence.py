"""Drawing of a sequence diagram: a lane for each machine, time downwards, a row for each moment.

The rows have equal distances, because microseconds and tenths of a second stand in one diagram; the times stand on the
left. An arrow begins where a message was sent and ends where it arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from integration.diagrams.svg import BOX, OVER_LINES, arrowhead, svg, text, width_of

_WIDTH: Final = 736
_TIMES: Final = 52
_HEAD: Final = 48
_ROW: Final = 22
_BARE_ROW: Final = 10
"""The height of a row without text."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message from lane to lane; with the same lane twice one that a machine sent to itself."""

    sent: float
    arrived: float
    source: str
    target: str
    label: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened on one lane; ``ends``: the lane ends there."""

    at: float
    lane: str
    label: str
    ends: bool = False


@dataclass(slots=True)
class _Row:
    """One moment: at most one text, and the arrows that begin and end there."""

    at: float
    arrow: Arrow | None = None
    note: Note | None = None
    arrived: list[Arrow] = field(default_factory=list)
    y: int = 0

    @property
    def is_bare(self) -> bool:
        return self.arrow is None and self.note is None


def drawn(name: str, title: str, lanes: Mapping[str, tuple[str, str]], moments: Sequence[Arrow | Note]) -> str:
    """An SVG. ``lanes``: the name of each, and what stands below it."""
    rows = _rows(moments)
    y = _HEAD + 8
    for row in rows:
        y += _BARE_ROW if row.is_bare else _ROW
        row.y = y
    step = (_WIDTH - _TIMES) / len(lanes)
    places = {lane: round(_TIMES + step * (number + 0.5)) for number, lane in enumerate(lanes)}
    lines: list[str] = []
    texts: list[str] = []
    for lane, (label, below) in lanes.items():
        x = places[lane]
        last = next((row.y for row in rows if row.note and row.note.ends and row.note.lane == lane), y + 10)
        lines.append(f'<path d="M{x} {_HEAD}V{last}" stroke="currentColor" stroke-opacity=".4"/>')
        lines.append(f'<rect x="{x - step / 2 + 4:g}" y="2" width="{step - 8:g}" height="{_HEAD - 4}" {BOX}/>')
        lines.append(text(x, 21, label, 'text-anchor="middle" font-weight="bold"'))
        if below:
            lines.append(text(x, 37, below, 'text-anchor="middle"'))
    texts += _times(rows)
    ends = {id(arrow): row.y for row in rows for arrow in row.arrived}
    for row in rows:
        if row.arrow is not None:
            _draw_arrow(row.arrow, row.y, ends[id(row.arrow)], places, name, lines, texts)
        if row.note is not None:
            x = places[row.note.lane]
            _draw_note(row.note, x, row.y, any(places[each.source] > x for each in row.arrived), lines, texts)
    return svg(name, title, _WIDTH, y + 14, [*lines, f"<g {OVER_LINES}>", *texts, "</g>"])


def _rows(moments: Iterable[Arrow | Note]) -> list[_Row]:
    """The moments in order; at one time first what arrives, then what it brings about."""
    steps: list[tuple[float, int, float, int, Arrow | Note]] = []
    for number, moment in enumerate(moments):
        match moment:
            case Arrow():
                steps.append((moment.arrived, 0, 0.0, number, moment))
                # What arrives first is drawn first, so that messages of one time do not cross.
                steps.append((moment.sent, 2, moment.arrived, number, moment))
            case Note():
                steps.append((moment.at, 1, 0.0, number, moment))
    rows: list[_Row] = []
    for at, order, _, _, moment in sorted(steps, key=lambda step: step[:4]):
        # A message that is sent has a row of its own, because its text stands above its beginning.
        if not rows or rows[-1].at != at or order == 2 or (order == 1 and not rows[-1].is_bare):
            rows.append(_Row(at))
        match moment:
            case Note():
                rows[-1].note = moment
            case Arrow() if order == 0:
                rows[-1].arrived.append(moment)
            case Arrow():
                rows[-1].arrow = moment
    return rows


def _times(rows: Sequence[_Row]) -> Iterable[str]:
    """The time of each row with a text, in milliseconds from the first one."""
    begin, span = rows[0].at, rows[-1].at - rows[0].at
    digits = 2 if span < 1.0 else 1
    before = ""
    for row in rows:
        time = f"{(row.at - begin) * 1000:.{digits}f}"
        if not row.is_bare and time != before:
            yield text(_TIMES - 10, row.y + 4, time, 'text-anchor="end" fill-opacity=".75"')
            before = time
    yield text(_TIMES - 10, 30, "ms", 'text-anchor="end" fill-opacity=".75"')


def _draw_arrow(
    arrow: Arrow, begin: int, end: int, places: Mapping[str, int], name: str, lines: list[str], texts: list[str]
) -> None:
    x, to = places[arrow.source], places[arrow.target]
    line = f'fill="none" stroke="currentColor" marker-end="url(#{arrowhead(name)})"'
    if x == to:
        lines.append(f'<path d="M{x} {begin}C{x + 34} {begin} {x + 34} {end} {x} {end}" {line}/>')
        texts.append(_placed(arrow.label, x + 30, begin + 4))
        return
    lines.append(f'<path d="M{x} {begin}L{to} {end}" {line}/>')
    # Above its beginning, so that the texts of different rows never meet.
    middle, width = (x + to) / 2, width_of(arrow.label)
    left = middle - width / 2 if width < abs(to - x) - 12 else min(x, to) + 8
    texts.append(_placed(arrow.label, left, begin - 3))


def _draw_note(note: Note, x: int, y: int, from_right: bool, lines: list[str], texts: list[str]) -> None:
    """``from_right``: the message that brought it about comes from there, so the text stands on the left."""
    if note.ends:
        lines.append(f'<path d="M{x - 4} {y - 4}l8 8m0-8l-8 8" stroke="currentColor" stroke-width="2"/>')
    else:
        lines.append(f'<circle cx="{x}" cy="{y}" r="3.5"/>')
    if from_right or x + 8 + width_of(note.label) > _WIDTH:
        texts.append(text(x - 8, y + 4, note.label, 'font-style="italic" text-anchor="end"'))
    else:
        texts.append(text(x + 8, y + 4, note.label, 'font-style="italic"'))


def _placed(content: str, x: float, y: float) -> str:
    """A text from ``x`` on, or further to the left where it would leave the picture."""
    return text(round(min(x, _WIDTH - 4 - width_of(content))), y, content)
