"""``make bench``: measure kafkalite beside Apache Kafka 3.9.1, alternating, and write ``docs/performance.md``.

``python -m integration.bench.run [--cells NAME,…] [--rounds N] [--quick] [--list] [--output FILE]
[--results FILE]``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from integration.bench.catalogue import CELLS
from integration.bench.cell import Cell, ClusterCell, FreshCell
from integration.bench.report import Results, write_report
from integration.bench.side import KAFKA, KAFKALITE, Side

OUTPUT = Path(__file__).resolve().parents[2] / "docs" / "performance.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen cells; returns 0 unless a cell failed."""
    args = _parser().parse_args(arguments)
    if args.list:
        for cell in CELLS:
            print(f"{cell.name:24} {cell.group}: {cell.title}")
        return 0
    cells = _chosen(args.cells)
    rounds = 1 if args.quick else args.rounds
    directory = Path(args.dir or tempfile.mkdtemp(prefix="kafkalite-bench-"))
    directory.mkdir(parents=True, exist_ok=True)
    results = Results(Path(args.results) if args.results else None)
    for cell in cells:
        results.forget(cell)
    start = time.monotonic()
    try:
        failed = Bench(directory, rounds, args.sides.split(",")).run(cells, results)
    finally:
        if args.dir is None:
            shutil.rmtree(directory, ignore_errors=True)
    minutes = (time.monotonic() - start) / 60
    print(results.table(cells))
    print(f"{minutes:.1f} minutes", flush=True)
    if args.output:
        write_report(Path(args.output), CELLS, results, rounds, minutes)
        print(f"written to {args.output}")
    for name, reason in failed.items():
        print(f"{name} failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


class Bench:
    """Runs each round of a cell with kafkalite and Kafka in turn."""

    def __init__(self, directory: Path, rounds: int, sides: Sequence[str]) -> None:
        self._directory = directory
        self._rounds = rounds
        self._makers = [maker for maker in (KAFKALITE, KAFKA) if maker.name in sides]

    def run(self, cells: Sequence[Cell], results: Results) -> dict[str, str]:
        """Measure into ``results``; cell → reason for those that failed."""
        failed: dict[str, str] = {}
        for fresh in (cell for cell in cells if isinstance(cell, FreshCell)):
            self._guarded(fresh, failed, partial(self._fresh, fresh, results))
        on_cluster = [cell for cell in cells if isinstance(cell, ClusterCell)]
        if on_cluster:
            sides = [Side(maker, self._directory / "clusters") for maker in self._makers]
            try:
                for side in sides:
                    side.start()
                for cell in on_cluster:
                    self._guarded(cell, failed, partial(self._clusters, cell, sides, results))
            finally:
                for side in sides:
                    side.close()
        return failed

    def _guarded(self, cell: Cell, failed: dict[str, str], measure: Callable[[], None]) -> None:
        try:
            measure()
        except Exception as error:
            failed[cell.name] = f"{type(error).__name__}: {error}"
            print(f"{cell.name} failed: {failed[cell.name]}", file=sys.stderr, flush=True)

    def _fresh(self, cell: FreshCell, results: Results) -> None:
        for _ in range(min(self._rounds, cell.rounds or self._rounds)):
            for maker in self._makers:
                directory = Path(tempfile.mkdtemp(prefix=f"{cell.name}-", dir=self._directory))
                try:
                    results.add(cell, maker.name, cell.run(maker, directory))
                finally:
                    shutil.rmtree(directory, ignore_errors=True)

    def _clusters(self, cell: ClusterCell, sides: Sequence[Side], results: Results) -> None:
        if cell.warm:
            for side in sides:
                cell.run(side)
        for _ in range(min(self._rounds, cell.rounds or self._rounds)):
            for side in sides:
                results.add(cell, side.name, cell.run(side))


def _chosen(names: str | None) -> list[Cell]:
    if not names:
        return list(CELLS)
    wanted = names.split(",")
    known = {cell.name for cell in CELLS}
    for name in wanted:
        if name not in known and not any(cell.startswith(name + "-") for cell in known):
            raise SystemExit(f"no cell {name!r}; there are {', '.join(sorted(known))}")
    return [
        cell
        for cell in CELLS
        if any(cell.name == name or (name not in known and cell.name.startswith(name + "-")) for name in wanted)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.bench.run", description=__doc__)
    parser.add_argument("--cells", help="names or first parts of names, separated by commas; all without it")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each side, after a warm-up")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--list", action="store_true", help="name the cells and end")
    parser.add_argument("--sides", default="kafkalite,kafka", help="measure only one of them (no report then)")
    parser.add_argument("--output", default=str(OUTPUT), help="the report; empty: none")
    parser.add_argument("--results", help="a file with all rounds: cells that do not run now are taken from it")
    parser.add_argument("--dir", help="where the clusters live; kept. A temporary directory without it")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
