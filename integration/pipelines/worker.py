"""A process with commands for load: ``hold BYTES`` of memory, ``free`` them, ``burn SECONDS`` of a core."""

from __future__ import annotations

import subprocess
import sys
import time
from types import TracebackType

WORKER = "integration.pipelines.worker"


def main() -> None:
    """Execute the commands on standard input, one a line, and answer each when it is done."""
    held = b""
    for line in sys.stdin:
        verb, _, amount = line.strip().partition(" ")
        if verb == "burn":
            end = time.process_time() + float(amount)
            while time.process_time() < end:
                pass
        else:
            held = b"x" * int(amount or 0)
        print(verb, len(held), flush=True)


class Worker:
    """Starts such a process, or one of another ``module`` with other commands, and sends it commands."""

    def __init__(self, module: str = WORKER, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def do(self, command: str) -> None:
        """Send a command, and wait until it is done."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline(), "the worker is gone"

    def kill(self) -> None:
        """Kill the process (-9); a second call does nothing."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()


if __name__ == "__main__":
    main()
