"""Two trees of kafkalite beside each other: ``python -m integration.bench.trees --old FOLDER``.

``FOLDER`` is a checkout of the other revision. The clusters of both take turns in one run, because the machine changes
from minute to minute more than the trees do. Printed is, for each figure of a cell, the median of the ratios new / old.
The exit code is 1 if a cell needs more than 5 % more CPU time.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from integration.bench.catalogue import CELLS
from integration.bench.cell import ClusterCell
from integration.bench.side import KAFKALITE, Maker, Side
from kafkalite.embedded.cluster import Launcher

DEFAULT = "produce-100,produce-1k,produce-single,all-1k,all-100,consume-1k,consume-100,commit-50"
WORSE = 1.05
"""Greatest ratio of CPU times that is no regression."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; returns 1 if a cell of the new tree needs more CPU time than :data:`WORSE` allows."""
    args = _parser().parse_args(arguments)
    if not (args.old / "kafkalite" / "__init__.py").is_file():
        raise SystemExit(f"--old {args.old}: no checkout of kafkalite, because it has no folder kafkalite")
    cells = [_cell(name) for name in args.cells.split(",")]
    directory = Path(tempfile.mkdtemp(prefix="kafkalite-trees-"))
    old = Side(Maker("old", launcher_of(args.old.resolve())), directory)
    new = Side(Maker("new", KAFKALITE.launcher), directory)
    worse = []
    try:
        old.start()
        new.start()
        for cell in cells:
            ratios = compare(cell, old, new, args.pairs)
            for name, found in ratios.items():
                spread = " ".join(f"{ratio:.2f}" for ratio in sorted(found))
                print(f"{cell.name:16} {name:24} {median(found):5.2f}  ({spread})", flush=True)
            if "cpu" in ratios and median(ratios["cpu"]) > WORSE:
                worse.append(cell.name)
    finally:
        old.close()
        new.close()
        shutil.rmtree(directory, ignore_errors=True)
    if worse:
        print(f"more than {WORSE:.2f} of the old tree's CPU time: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0


def compare(cell: ClusterCell, old: Side, new: Side, pairs: int) -> dict[str, list[float]]:
    """Name of a figure → new / old of each pair; the first pair warms up and does not count."""
    ratios: dict[str, list[float]] = {}
    for pair in range(pairs + 1):
        # The order changes, because what runs second finds a warmer machine.
        order = (old, new) if pair % 2 else (new, old)
        figures = {side.name: cell.run(side) for side in order}
        if pair:
            for name, value in figures["new"].items():
                ratios.setdefault(name, []).append(value / figures["old"][name])
    return ratios


def launcher_of(tree: Path) -> Launcher:
    """Starts brokers of ``tree`` by this interpreter; its version of the package comes before the installed one."""

    def command(config: Path) -> list[str]:
        # -P, because the working directory may be the other tree.
        python = ["env", f"PYTHONPATH={tree}", sys.executable, "-P", "-m", "kafkalite.cli.main"]
        return [*python, "broker", "start", "--config", str(config)]

    return command


def _cell(name: str) -> ClusterCell:
    for cell in CELLS:
        if cell.name == name and isinstance(cell, ClusterCell):
            return cell
    raise SystemExit(f"no cell {name!r} that runs on a lasting cluster; see python -m integration.bench.run --list")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.bench.trees", description=__doc__)
    parser.add_argument("--old", type=Path, required=True, metavar="FOLDER", help="a checkout of the other revision")
    parser.add_argument("--cells", default=DEFAULT, help="names of cells, separated by commas")
    parser.add_argument("--pairs", type=int, default=7, help="pairs of measurements of each cell")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
