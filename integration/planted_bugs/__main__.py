"""``python -m integration.planted_bugs``: how many histories the simulation needs to find each planted bug."""

from __future__ import annotations

import argparse
import sys

from integration.planted_bugs.hunting import Hunt, hunt
from integration.planted_bugs.table import TABLE

_LONGEST = 140


def row(found: Hunt) -> str:
    """One line of the Markdown table."""
    bug = found.bug
    histories = str(found.histories) if found.found else f"not in {found.histories}"
    violation = found.violation.splitlines()[0][:_LONGEST].replace("|", "\\|") if found.found else ""
    return f"| {bug.name} | {bug.room} | {bug.breaks} | {histories} | {violation} |"


def main() -> int:
    """Returns 0 if every bug was found."""
    parser = argparse.ArgumentParser(prog="python -m integration.planted_bugs", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="only this bug, or all whose name holds NAME")
    parser.add_argument("--histories", type=int, default=500, help="after so many a bug counts as not found")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the seed to begin with")
    parser.add_argument("--jobs", type=int, default=2, help="histories at a time")
    args = parser.parse_args()
    bugs = [bug for bug in TABLE if not args.only or any(part in bug.name for part in args.only)]
    print(
        "| bug | room | what it breaks | histories until found | first violation |\n|---|---|---|---|---|", flush=True
    )
    missed = 0
    for bug in bugs:
        found = hunt(bug, args.histories, args.jobs, args.first)
        missed += not found.found
        print(row(found), flush=True)
    print(f"\n{len(bugs) - missed} of {len(bugs)} bugs found", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
