"""A broker whose clock is wrong: ``python -P skewed_broker.py AHEAD_MS broker start --config FILE``.

Only the time of day is changed, before the broker's modules are read; what measures durations goes right.
"""

from __future__ import annotations

import sys
import time


def set_clock(ahead_ms: int) -> None:
    """Let this process believe that it is ``ahead_ms`` later than it is."""
    true_ns, true = time.time_ns, time.time
    time.time_ns = lambda: true_ns() + ahead_ms * 1_000_000
    time.time = lambda: true() + ahead_ms / 1000


if __name__ == "__main__":
    set_clock(int(sys.argv[1]))
    from kafkalite.cli.main import main

    sys.exit(main(sys.argv[2:]))
