"""All cells, in the order in which they run and are shown."""

from __future__ import annotations

from integration.bench.cell import Cell
from integration.bench.produce import PRODUCE_CELLS

CELLS: list[Cell] = [*PRODUCE_CELLS]
