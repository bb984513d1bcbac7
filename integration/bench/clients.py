"""Starts the client processes of :mod:`integration.bench.load` together and adds up their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from integration.bench.side import Side

ALLOCATOR = {"MALLOC_TOP_PAD_": str(64 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
"""Settings that make the clients keep their memory, because returning it costs CPU that the brokers need."""

Order = tuple[str, dict[str, Any]]
"""Name of a client, and its arguments."""


def run_clients(
    side: Side, orders: Sequence[Order], timeout: float = 180.0, meanwhile: Callable[[], None] | None = None
) -> tuple[list[dict[str, float]], float]:
    """Run the clients together; returns the figures of each, and the CPU seconds of all brokers meanwhile.

    ``meanwhile`` is called once the clients run.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "integration.bench.load", what, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ALLOCATOR},
        )
        for what, arguments in orders
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError("a client of the bench did not start")
        before = side.cpu()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        if meanwhile is not None:
            meanwhile()
        results = []
        for process in processes:
            out, _ = process.communicate(timeout=timeout)
            if process.returncode:
                raise RuntimeError("a client of the bench failed")
            results.append(json.loads(out))
        return results, side.cpu() - before
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
