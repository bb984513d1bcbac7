"""Diagrams of states and transitions, from the tables of the code.

The states stand below each other in the order of the table. An arrow down is drawn on the right of them, an arrow up on
the left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from integration.diagrams.svg import BOX, arrowhead, svg, text
from kafkalite.controller.states import LEGAL_PREDECESSORS, PartitionState
from kafkalite.coordinator.group.states import TRANSITIONS, GroupState

_WIDTH: Final = 190
_HEIGHT: Final = 34
_STEP: Final = 84
_LEFT: Final = 190
_BULGE: Final = 38
"""How far an arrow to the next state but one goes out; one over more states goes out further."""


def group_states(name: str) -> str:
    """The states of a group."""
    edges = [(before, after) for before, followers in TRANSITIONS.items() for after in followers]
    return drawn(name, "States of a group", list(GroupState), edges, {})


def partition_states(name: str) -> str:
    """The states of a partition in the controller."""
    edges = [
        (before, after)
        for after, predecessors in LEGAL_PREDECESSORS.items()
        if isinstance(after, PartitionState)
        for before in predecessors
        if isinstance(before, PartitionState) and before is not after
    ]
    notes: dict[Enum, str] = {PartitionState.ONLINE: "has a leader"}
    return drawn(name, "States of a partition", list(PartitionState), edges, notes)


def drawn(
    name: str, title: str, states: Sequence[Enum], edges: Sequence[tuple[Enum, Enum]], notes: Mapping[Enum, str]
) -> str:
    """An SVG of states and transitions; ``notes`` stand below the names."""
    place = {state: number * _STEP + 20 for number, state in enumerate(states)}
    middle = _LEFT + _WIDTH // 2
    out: list[str] = []
    # The sides of a box have one place for each arrow that begins or ends there.
    ends: dict[tuple[Enum, bool], int] = {}
    for before, after in sorted(edges, key=lambda edge: (place[edge[0]], place[edge[1]])):
        down = place[after] > place[before]
        x, out_by = (_LEFT + _WIDTH, 1) if down else (_LEFT, -1)
        begin, end = (place[state] + 6 + 7 * _next(ends, (state, down)) for state in (before, after))
        bend = x + out_by * _BULGE * max(1, round(abs(place[after] - place[before]) / _STEP))
        out.append(
            f'<path d="M{x} {begin}C{bend} {begin} {bend} {end} {x} {end}" fill="none" stroke="currentColor" '
            f'marker-end="url(#{arrowhead(name)})"/>'
        )
    for state in states:
        y = place[state]
        out.append(f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" {BOX}/>')
        out.append(text(middle, y + 22, str(state.value), 'text-anchor="middle" font-size="14"'))
        if state in notes:
            out.append(text(middle, y + 50, notes[state], 'text-anchor="middle"'))
    return svg(name, title, 2 * _LEFT + _WIDTH, len(states) * _STEP, out)


def _next(ends: dict[tuple[Enum, bool], int], side: tuple[Enum, bool]) -> int:
    """The number of the next free place on a side of a state."""
    ends[side] = ends.get(side, -1) + 1
    return ends[side]
