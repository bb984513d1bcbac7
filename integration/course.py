"""Runs the commands of the course (``docs/course``) and compares what they print with what the pages show.

The pages of the use cases (``docs/use-cases``) and ``docs/cap.md`` run on the same cluster.

``python -m integration.course [PAGE…]`` runs the pages and writes the output below each command. It leaves output that
matches already, and complains of output that does not and that a writer has shortened.

A page has three kinds of blocks: ``sh`` blocks run in one shell in the order of the page; a ``text`` block directly
below shows their output; a ``python`` block whose first line is ``# NAME.py`` is a file of that name. Above a block
that cannot run stands ``<!-- not run: REASON -->``. The commands of ``index.md`` start the cluster of all pages.

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
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkalite.embedded.processes import free_ports, is_free

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FOLDER = DOCS / "course"
START = FOLDER / "index.md"
BROKERS: Final = 3
SHOWN_PORT: Final = 9092
"""Port of the first broker on the pages; a run takes free ports instead."""
PATIENCE: Final = 600.0
"""Seconds that a page may take on a loaded machine."""
_BLOCK = re.compile(
    r"(?P<reason><!-- not run: [^>]+ -->\n+)?^```(?P<kind>[^`\n]*)\n(?P<text>.*?)^```$"
    r"(?:\n\n^```text\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (\w+\.py)\n")
_VARYING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]?\d*"), "DATE"),
    (re.compile(r"\b\d{13}\b"), "MILLISECONDS"),
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


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a page."""

    kind: str
    text: str
    output: str | None
    """What the page shows of its output; ``None`` if nothing."""
    reason: str
    """Why it cannot run; empty if it runs."""
    span: tuple[int, int]
    """Where the shown output is in the page."""


def pages() -> list[Path]:
    """All pages that run on the cluster of the course, the one that starts it first."""
    chapters = sorted(path for path in FOLDER.glob("*.md") if path != START)
    uses = sorted(path for path in (DOCS / "use-cases").glob("*.md") if path.stem != "index")
    return [START, *chapters, *uses, DOCS / "cap.md"]


def blocks(text: str) -> list[Block]:
    return [
        Block(found["kind"], found["text"], found["output"], found["reason"] or "", found.span("output"))
        for found in _BLOCK.finditer(text)
    ]


def matches(shown: str, printed: str) -> bool:
    """Whether a command printed what the page shows."""
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
    """Where a student works: a folder, and the programs of this checkout on the path."""

    folder: Path
    environment: Mapping[str, str]
    port: int
    """Port of the first broker."""

    def run(self, page: Path) -> list[str]:
        """What each ``sh`` block of a page printed.

        Raises ``AssertionError`` with the output of the last block if a command fails or the page takes too long.
        """
        shell, files = ["set -eu -o pipefail"], []
        for number, block in enumerate(blocks(page.read_text())):
            name = _FILE.match(block.text)
            if block.kind == "python" and name and not block.reason:
                (self.folder / name[1]).write_text(self._ported(block.text))
            elif block.kind == "sh" and not block.reason:
                files.append(self.folder / f".{page.stem}.{number}")
                shell.append(f"{{\n{self._ported(block.text)}}} >{files[-1]} 2>&1")
        with subprocess.Popen(
            ["bash", "-c", "\n".join(shell)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                _, complaint = running.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                # The commands of the shell, too, which would go on without it.
                os.killpg(running.pid, signal.SIGKILL)
                complaint = f"not done after {PATIENCE:.0f} s"
        printed = [self._shown(file.read_text()) for file in files if file.exists()]
        assert running.returncode == 0, f"{page.name}: block {len(printed)} failed: {printed[-1:]} {complaint}"
        return printed

    def _ported(self, text: str) -> str:
        ports = {str(SHOWN_PORT + index): str(self.port + index) for index in range(BROKERS)}
        return re.sub(r"\b909\d\b", lambda found: ports.get(found[0], found[0]), text)

    def _shown(self, text: str) -> str:
        for index in range(BROKERS):
            text = re.sub(rf"\b{self.port + index}\b", str(SHOWN_PORT + index), text)
        return text.replace(f"{self.folder}/", "")


def free_base() -> int:
    """The first of the free ports in a row that the brokers take."""
    return next(port for port in iter(lambda: free_ports(1)[0], 0) if all(map(is_free, range(port, port + BROKERS))))


@contextmanager
def desk(folder: Path) -> Iterator[Desk]:
    """A desk with the cluster of the first page; all clusters of the pages are stopped at the end."""
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
    }
    try:
        yield Desk(work, environment, free_base())
    finally:
        for state in work.glob("*/cluster.json"):
            subprocess.run(
                [programs / "kafkalite", "cluster", "stop", "--dir", state.parent.name],
                cwd=work,
                env=environment,
                capture_output=True,
                check=False,
            )


def commands_with_output(page: Path) -> list[Block]:
    """The blocks whose output :meth:`Desk.run` returns."""
    return [block for block in blocks(page.read_text()) if block.kind == "sh" and not block.reason]


def filled(text: str, printed: list[str]) -> tuple[str, list[str]]:
    """A page's text with what its commands printed, and the shortened outputs that no longer match."""
    wrong = []
    running = [block for block in blocks(text) if block.kind == "sh" and not block.reason]
    for block, output in reversed(list(zip(running, printed, strict=True))):
        if block.output is None or (block.output != "…\n" and matches(block.output, output)):
            continue
        if "…" in block.output and block.output != "…\n":
            wrong.append(f"{block.text}\nshown:\n{block.output}\nprinted:\n{output}")
        else:
            text = text[: block.span[0]] + output + text[block.span[1] :]
    return text, wrong


def main(names: list[str]) -> int:
    wrong = []
    with tempfile.TemporaryDirectory() as folder, desk(Path(folder)) as student:
        chosen = [page for page in pages() if page != START and (not names or page.stem in names)]
        for page in [START, *chosen]:
            text, more = filled(page.read_text(), student.run(page))
            page.write_text(text)
            wrong += more
            print(page.relative_to(ROOT), flush=True)
    print("\n".join(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
