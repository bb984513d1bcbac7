"""Runs the commands that a document shows, as its reader would run them, and compares what they print.

A document has blocks of three kinds for it: ``sh`` blocks run in one shell in the order of the document; a ``text``
block directly below one shows its output; a ``python`` block whose first line is ``# NAME.py`` is a file of that name.

In the shown output ``…`` stands for what differs from run to run: within a line for any characters, alone on a line for
any number of lines. ``~`` stands before a measured number. Times, zxids, ids, controller epochs
and checksums may differ without either, and a client may print that it has no connection to a broker.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration.blocks import ROOT, Block, blocks_of
from kafkalite.embedded.processes import free_ports, is_free

BROKERS: Final = 3
"""Brokers of the largest cluster that a document starts."""
SHOWN_PORT: Final = 9092
"""Port of the first broker in the documents; a run takes other ports instead."""
PATIENCE: Final = 600.0
"""Seconds that a document may take on a loaded machine."""
_VARYING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]?\d*"), "DATE"),
    (re.compile(r"\b\d{13}\b"), "MILLISECONDS"),
    (re.compile(r" *\b\d+\.\d+ ms\b"), " N ms"),
    (re.compile(r"(zxids?|crc:|pid|session|version:?) (?:0x[0-9a-f]+|\d+)"), r"\1 N"),
    (re.compile(r'(controller epoch |"controller_epoch":|/controller_epoch  \[v\d+]  )\d+'), r"\1N"),
    (re.compile(r"(/controller_epoch  )\[v\d+]"), r"\1[vN]"),
    (re.compile(r'("unclean_start_epochs":)\{[^}]*\}'), r"\1{}"),
    (re.compile(r'(TopicId: |"topic_id":"|"id":")[\w-]{22}'), r"\1ID"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:PORT"),
    (re.compile(r"~[\d.,]+"), "~N"),
    (re.compile(r"^(?:GroupCoordinator: )?(?:localhost|127\.0\.0\.1):\d+(?:/\w+)?: .*\n", re.MULTILINE), ""),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)


def matches(shown: str, printed: str, *, any_order: bool = False) -> bool:
    """Whether a command printed what the document shows; with ``any_order`` the order of the lines does not count."""
    if any_order:
        return sorted(_settled(shown).splitlines()) == sorted(_settled(printed).splitlines())
    return re.fullmatch(_pattern(shown), _settled(printed), re.DOTALL) is not None


def _pattern(shown: str) -> str:
    lines = _settled(shown).splitlines(keepends=True)
    return "".join(
        r"(?:[^\n]*\n)*" if line.strip() == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) for line in lines
    )


def _settled(text: str) -> str:
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return text


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a reader works: a folder, and the programs of this checkout on the path."""

    folder: Path
    environment: Mapping[str, str]
    ports: Sequence[int]
    """Ports of the brokers, which the documents show as 9092 and the following."""
    patience: float = PATIENCE

    def compare(self, document: str | Path, test: str) -> str:
        """Run the blocks of a document that name a test, and compare their output; returns the output of all blocks.

        ``test`` is the test's ``__file__``. Raises ``AssertionError`` if a block prints something else than the
        document shows, or a traceback where it shows nothing.
        """
        everything = ""
        for block, printed in self.run(document, test):
            if block.output is None:
                is_right = "Traceback" not in printed
            else:
                is_right = matches(block.output, printed, any_order=bool(block.mark.any_order))
            assert is_right, f"{block}:\n{block.text}\nshown:\n{block.output}\nprinted:\n{printed}"
            everything += printed
        return everything

    def run(self, document: str | Path, test: str) -> list[tuple[Block, str]]:
        """The ``sh`` blocks of a document that name a test, and what each printed.

        Raises ``AssertionError`` with the output of the last block if a command fails or the document takes too long.
        """
        shell, running = ["set -eu -o pipefail"], list[tuple[Block, Path]]()
        for block in blocks_of(document, test):
            if block.file:
                (self.folder / block.file).write_text(self._ported(block.text))
            elif block.kind == "sh":
                running.append((block, self.folder / f".{block.document.stem}.{block.line}"))
                shell.append(f"{{\n{self._ported(block.text)}}} >{running[-1][1]} 2>&1")
        with subprocess.Popen(
            ["bash", "-c", "\n".join(shell)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                _, complaint = process.communicate(timeout=self.patience)
            except subprocess.TimeoutExpired:
                # The commands of the shell, too, which would go on without it.
                os.killpg(process.pid, signal.SIGKILL)
                complaint = f"not done after {self.patience:.0f} s"
        printed = [(block, self._shown(file.read_text())) for block, file in running if file.exists()]
        assert process.returncode == 0, f"{document} failed: {printed[-1:]} {complaint}"
        return printed

    def kafkalite(self, *arguments: str) -> None:
        """Run a command of kafkalite, which may fail."""
        subprocess.run(
            ["kafkalite", *arguments], cwd=self.folder, env=self.environment, capture_output=True, check=False
        )

    def _ported(self, text: str) -> str:
        ports = {str(SHOWN_PORT + index): str(port) for index, port in enumerate(self.ports)}
        return re.sub(r"\b909\d\b", lambda found: ports.get(found[0], found[0]), text)

    def _shown(self, text: str) -> str:
        for index, port in enumerate(self.ports):
            text = re.sub(rf"\b{port}\b", str(SHOWN_PORT + index), text)
        return text.replace(f"{self.folder}/", "")


@contextmanager
def desk(folder: Path, bootstrap: str = "", *, patience: float = PATIENCE, **variables: str) -> Iterator[Desk]:
    """A desk in an empty folder, for which all clusters that its documents start are stopped at the end.

    ``bootstrap`` names the brokers that run already; without it those that the documents start get free ports in a row.
    ``variables`` belong to the environment.
    """
    programs, work = folder / "bin", folder / "work"
    programs.mkdir()
    work.mkdir()
    for name, words in {"kafkalite": " -m kafkalite.cli.main", "python3": ""}.items():
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n')
        script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        # As on a terminal, where a line of output does not wait for the next one.
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "120",
        **variables,
    }
    running = [int(address.rpartition(":")[2]) for address in filter(None, bootstrap.split(","))]
    made = Desk(work, environment, running or _free_row(), patience)
    try:
        yield made
    finally:
        for state in sorted(work.rglob("cluster.json")):
            made.kafkalite("cluster", "stop", "--dir", str(state.parent.relative_to(work)))


def _free_row() -> Sequence[int]:
    """Free ports in a row, as the brokers of one cluster take them."""
    rows = (range(first, first + BROKERS) for first in iter(lambda: free_ports(1)[0], 0))
    return next(row for row in rows if all(map(is_free, row)))
