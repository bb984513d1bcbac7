"""All cells, in the order in which they run and are shown."""

from __future__ import annotations

from integration.bench.cell import Cell
from integration.bench.commits import COMMIT_CELLS
from integration.bench.consume import CONSUME_CELLS
from integration.bench.guards import GUARD_CELLS
from integration.bench.latency import LATENCY_CELLS
from integration.bench.lifecycle import FRESH_CELLS, LIFE_CELLS
from integration.bench.metrics_cost import METRICS_CELLS
from integration.bench.produce import PRODUCE_CELLS
from integration.bench.spark import SPARK_CELLS
from integration.bench.spark_write import SPARK_WRITE_CELLS
from integration.bench.tls import TLS_CELLS

CELLS: list[Cell] = [
    *FRESH_CELLS,
    *PRODUCE_CELLS,
    *CONSUME_CELLS,
    *LATENCY_CELLS,
    *COMMIT_CELLS,
    *LIFE_CELLS,
    *TLS_CELLS,
    *GUARD_CELLS,
    *METRICS_CELLS,
    *SPARK_CELLS,
    *SPARK_WRITE_CELLS,
]
