"""The diagram of the layers: the contract in ``setup.cfg``, and what the docstring of each package says of it."""

from __future__ import annotations

import ast
import configparser
from pathlib import Path
from textwrap import wrap
from typing import Final

from integration.diagrams.svg import BOX, SMALL, arrowhead, svg, text, width_of

ROOT: Final = Path(__file__).resolve().parents[2]
_WIDTH: Final = 736
_LEFT: Final = 30
_GAP: Final = 8
_MOST: Final = 4
"""Rooms beside each other; the others of the layer stand in a second row."""
_LINE: Final = 14
_HEAD: Final = 20
_PADDING: Final = 8


def layers() -> list[list[str]]:
    """The rooms of each layer of the contract, the highest layer first."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / "setup.cfg")
    lines = contracts["importlinter:contract:floors"]["layers"].split("\n")
    return [[room.strip() for room in line.split("|")] for line in lines if line.strip()]


def meaning(room: str) -> str:
    """The first line of the docstring of a package."""
    source = (ROOT / "kafkalite" / room / "__init__.py").read_text()
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0].replace("``", "")


def layers_of_the_package(name: str) -> str:
    """Rooms in layers; a room imports only those that stand lower."""
    out: list[str] = []
    y = 4
    for layer in layers():
        top = y
        for begin in range(0, len(layer), _MOST):
            y = _row(out, layer[begin : begin + _MOST], y) + _GAP
        out.append(
            f'<path d="M{_LEFT - 8} {top}V{y - _GAP}" stroke="currentColor" stroke-opacity=".6" stroke-width="2"/>'
        )
        y += _GAP
    bottom = y - 2 * _GAP
    out.append(f'<path d="M8 4V{bottom}" stroke="currentColor" marker-end="url(#{arrowhead(name)})"/>')
    return svg(name, "Layers: a room imports only rooms below its bar", _WIDTH, bottom + 4, out)


def _row(out: list[str], rooms: list[str], y: int) -> int:
    """Draw rooms beside each other; returns the lower edge."""
    width = (_WIDTH - _LEFT - 2 - _GAP * (len(rooms) - 1)) // len(rooms)
    columns = int((width - 2 * _PADDING) / width_of("x"))
    lines = {room: wrap(meaning(room), columns) for room in rooms}
    height = _HEAD + _LINE * max(len(each) for each in lines.values()) + 4
    for number, room in enumerate(rooms):
        x = _LEFT + number * (width + _GAP)
        out.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {BOX}/>')
        out.append(text(x + _PADDING, y + 16, f"{room}/", f'font-weight="bold" font-size="{SMALL + 1}"'))
        for line, content in enumerate(lines[room], 1):
            out.append(text(x + _PADDING, y + 16 + line * _LINE, content))
    return y + height
