"""The code blocks of the documents, and what is said of each: which test runs it, or why none does.

A mark is a comment in the source, which no reader of the page sees: ``<!-- run by: integration/test_x.py -->`` or
``<!-- not run: REASON -->``. It stands directly above a block; or directly below a heading, for each block of that
section that has no mark of its own. ``test_course.py`` runs the pages of :func:`integration.course.pages`, which need
no mark. A block of kind ``text`` directly below another block is its output, and what is said of the one holds for the
other.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from integration import course
from kafkalite.cli.main import ALIASES, COMMANDS, build_parser

ROOT = Path(__file__).resolve().parents[1]
_MARK = re.compile(r"<!-- (run by|not run): ([^>]+?) -->", re.DOTALL)
_PART = re.compile(
    r"(?P<mark><!-- (?:run by|not run): [^>]+? -->)|^(?P<level>#+) [^\n]+$|^```(?P<kind>[^`\n]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
NO_CODE = ("{toctree}",)
_JOINED = re.compile(r"\\\n\s*")
_OPERATORS = ("|", "||", ">", ">>", "<", "&&", "&", ";", "<<")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a document."""

    document: Path
    line: int
    kind: str
    text: str
    tests: tuple[str, ...]
    """The files of the tests that run it."""
    reason: str
    """Why no test runs it."""

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class _Mark:
    tests: tuple[str, ...] = ()
    reason: str = ""


def documents() -> list[Path]:
    """The README and all pages."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(document: Path) -> Iterator[Block]:
    """The code blocks of a document with their marks."""
    text = document.read_text()
    course_pages = course.pages()
    of_sections: dict[int, _Mark] = {}
    level, own, last, end = 0, _Mark(), _Mark(), 0
    after_heading = False
    for found in _PART.finditer(text):
        between = text[end : found.start()].strip()
        end = found.end()
        if found["mark"]:
            mark = _parsed(found["mark"])
            if after_heading and not between:
                of_sections[level] = mark
            own = mark
            continue
        if found["level"]:
            level = len(found["level"])
            of_sections = {depth: mark for depth, mark in of_sections.items() if depth < level}
            own, after_heading = _Mark(), True
            continue
        after_heading = False
        if found["kind"] in NO_CODE:
            continue
        if found["kind"] == "text" and not between:
            mark = last
        elif own != _Mark() and not between:
            mark = own
        elif document in course_pages and _runs_in_the_course(found["kind"], found["text"]):
            mark = _Mark(("integration/test_course.py",))
        else:
            mark = of_sections[max(of_sections)] if of_sections else _Mark()
        own, last = _Mark(), mark
        line = text.count("\n", 0, found.start()) + 1
        yield Block(document, line, found["kind"], found["text"], mark.tests, mark.reason)


def _parsed(comment: str) -> _Mark:
    found = _MARK.fullmatch(comment)
    assert found
    text = " ".join(found[2].split())
    return _Mark(tuple(text.split(", "))) if found[1] == "run by" else _Mark(reason=text)


def _runs_in_the_course(kind: str, text: str) -> bool:
    return kind == "sh" or (kind == "python" and re.match(r"# \w+\.py\n", text) is not None)


def commands(text: str) -> Iterator[list[str]]:
    """The command lines of ``kafkalite`` in a block, without what a shell does with them."""
    for line in _JOINED.sub(" ", text).splitlines():
        words = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
        words.whitespace_split = True
        try:
            found = list(words)
        except ValueError:
            continue  # a quoted text goes on in the next line
        if found[:1] == ["kafkalite"]:
            end = next((number for number, word in enumerate(found) if word in _OPERATORS), len(found))
            yield found[1:end]


def is_understood(arguments: list[str]) -> str:
    """What the parser of ``kafkalite`` says against a command line; empty if nothing."""
    name = next((word for word in arguments if not word.startswith("-")), "")
    if ALIASES.get(name, name) not in COMMANDS:
        return f"{name!r} is no command"
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            build_parser(ALIASES.get(name, name)).parse_args(arguments)
    except SystemExit as error:
        return said.getvalue().splitlines()[-1] if error.code else ""
    return ""
