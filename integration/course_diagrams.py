"""Diagrams of the course, drawn from the tables of the code: ``python -m integration.course_diagrams`` writes them.

The states stand below each other in the order of the table. An arrow down is drawn on the right of them, an arrow up on
the left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from html import escape
from pathlib import Path
from typing import Final

from kafkalite.controller.states import LEGAL_PREDECESSORS, PartitionState
from kafkalite.coordinator.group.states import TRANSITIONS, GroupState

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "course"
COMMAND = "python -m integration.course_diagrams"
_WIDTH: Final = 190
_HEIGHT: Final = 34
_STEP: Final = 84
_LEFT: Final = 190
_BULGE: Final = 38
"""How far an arrow to the next state but one goes out; one over more states goes out further."""


def group_states() -> str:
    """The states of a group."""
    edges = [(before, after) for before, followers in TRANSITIONS.items() for after in followers]
    return drawn("States of a group", list(GroupState), edges, {})


def partition_states() -> str:
    """The states of a partition in the controller."""
    edges = [
        (before, after)
        for after, predecessors in LEGAL_PREDECESSORS.items()
        if isinstance(after, PartitionState)
        for before in predecessors
        if isinstance(before, PartitionState) and before is not after
    ]
    return drawn("States of a partition", list(PartitionState), edges, {PartitionState.ONLINE: "has a leader"})


def drawn(title: str, states: Sequence[Enum], edges: Sequence[tuple[Enum, Enum]], notes: Mapping[Enum, str]) -> str:
    """An SVG of states and transitions; ``notes`` stand below the names."""
    place = {state: number * _STEP + 20 for number, state in enumerate(states)}
    height, width = len(states) * _STEP, 2 * _LEFT + _WIDTH
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="14">',
        f"<title>{escape(title)}</title>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    # The sides of a box have one place for each arrow that begins or ends there.
    ends: dict[tuple[Enum, bool], int] = {}
    for before, after in sorted(edges, key=lambda edge: (place[edge[0]], place[edge[1]])):
        down = place[after] > place[before]
        x, out_by = (_LEFT + _WIDTH, 1) if down else (_LEFT, -1)
        begin, end = (place[state] + 6 + 7 * _next(ends, (state, down)) for state in (before, after))
        bend = x + out_by * _BULGE * max(1, round(abs(place[after] - place[before]) / _STEP))
        out.append(
            f'<path d="M{x} {begin}C{bend} {begin} {bend} {end} {x} {end}" fill="none" stroke="#555" '
            'marker-end="url(#end)"/>'
        )
    for state in states:
        y = place[state]
        out.append(f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="#eef" stroke="#336"/>')
        text = escape(str(state.value))
        out.append(f'<text x="{_LEFT + _WIDTH // 2}" y="{y + 22}" text-anchor="middle">{text}</text>')
        if state in notes:
            out.append(
                f'<text x="{_LEFT + _WIDTH // 2}" y="{y + 50}" text-anchor="middle" font-size="11">'
                f"{escape(notes[state])}</text>"
            )
    return "\n".join([*out, "</svg>"]) + "\n"


def _next(ends: dict[tuple[Enum, bool], int], side: tuple[Enum, bool]) -> int:
    """The number of the next free place on a side of a state."""
    ends[side] = ends.get(side, -1) + 1
    return ends[side]


DIAGRAMS: Final[Mapping[str, Callable[[], str]]] = {
    "group-states.svg": group_states,
    "partition-states.svg": partition_states,
}
"""File in ``docs/course`` → function that returns its text."""


def main() -> int:
    for name, text in DIAGRAMS.items():
        (FOLDER / name).write_text(text())
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
