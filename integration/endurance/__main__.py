"""``python -m integration.endurance --minutes 60 --out FILE.json --plot FILE.svg --dir DIR``; 1 if a measure grows.

It also writes ``FILE.md`` with the figures beside ``FILE.json``.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from integration.endurance.run import Endurance


def main() -> int:
    """Run it and write its results; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m integration.endurance")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--fault-interval", type=float, default=60.0, help="seconds from one fault to the next")
    parser.add_argument("--out", type=Path, help="all samples as JSON, and the figures beside it as Markdown")
    parser.add_argument("--plot", type=Path, help="the plot as SVG")
    parser.add_argument("--dir", type=Path, help="the cluster's directory, kept; default: a temporary one")
    args = parser.parse_args()
    # SIGTERM is handled like an interrupt, because then the run still ends its processes and writes its samples.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = args.dir or Path(tempfile.mkdtemp(prefix="kafkalite-endurance-"))
    run = Endurance(directory, args.minutes, args.fault_interval)
    try:
        run.run()
    finally:
        result = run.result
        if result.samples:
            if args.out:
                args.out.write_text(result.json())
                args.out.with_suffix(".md").write_text(result.markdown())
            if args.plot:
                args.plot.write_text(result.svg())
            print(result.markdown(), flush=True)
        if args.dir is None:
            shutil.rmtree(directory, ignore_errors=True)
    return 1 if any(verdict.grows for verdict in result.verdicts()) else 0


if __name__ == "__main__":
    sys.exit(main())
