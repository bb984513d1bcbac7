"""``kafkalite`` commands as functions, in this process, because fifty commands would be fifty processes otherwise."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from typing import Any, NamedTuple
from unittest import mock

from integration.harness.wait import FailedError
from kafkalite.cli.main import main


class Outcome(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines of its standard output."""
        return self.out.splitlines()


def command(*arguments: object, stdin: str | bytes = b"", code: int | None = 0) -> Outcome:
    """Run ``kafkalite ARGUMENTS`` in this process; its exit code must be ``code``, unless ``code`` is ``None``."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    words = [str(argument) for argument in arguments]
    with (
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(data))),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            ended = main(words)
        except SystemExit as end:  # argparse
            ended = end.code if isinstance(end.code, int) else 1
    texts = [stream.buffer.getvalue().decode(errors="replace") for stream in (out, err)]
    return checked(Outcome(ended, *texts), words, code)


def process(*arguments: object, code: int = 0, timeout: float = 120.0) -> Outcome:
    """Run ``kafkalite ARGUMENTS`` as a process of its own; its exit code must be ``code``."""
    words = [str(argument) for argument in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "kafkalite.cli.main", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return checked(Outcome(done.returncode, done.stdout, done.stderr), words, code)


def checked(outcome: Outcome, words: list[str], code: int | None) -> Outcome:
    """``outcome`` if the command ended with ``code``. Raises :class:`FailedError` with its output otherwise."""
    said = f"{outcome.out[-3000:]}\n{outcome.err[-3000:]}"
    if code is not None and outcome.code != code:
        raise FailedError(f"kafkalite {' '.join(words)}: exit {outcome.code} instead of {code}\n{said}")
    return outcome
