"""The code blocks of the documents, and what is said of each: which test runs it, or why none does.

A mark is a comment in the source, which no reader of the page sees: ``<!-- run by: integration/test_x.py -->`` or
``<!-- not run: REASON -->``. It stands directly above a block; or directly below a heading, for each block of that
section that has no mark of its own. :data:`COURSE_TEST` runs the pages of :func:`course_pages`, which need no mark.

Commands are blocks of kind ``sh``. A block of kind ``text`` directly below another block is its output, which
:meth:`integration.harness.documented.Desk.compare` compares with what the commands print; ``tests/test_blocks.py``
finds an output whose test does not call it. Where the order of the printed lines differs from run to run, the mark says
why:
``<!-- run by: integration/test_x.py; lines in any order: REASON -->``.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kafkalite.cli.main import ALIASES, COMMANDS, build_parser

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
COURSE: Final = DOCS / "course"
COURSE_START: Final = COURSE / "index.md"
COURSE_TEST: Final = "integration/test_course.py"
COMPARE: Final = "compare"
"""Name of the method that runs the blocks of a document and compares their output."""
OUTPUTS: Final = ("text", "")
"""Kinds of a block that is the output of the block directly above it."""
_MARK = re.compile(r"<!-- (run by|not run): ([^>]+?) -->", re.DOTALL)
_ANY_ORDER = "; lines in any order: "
_PART = re.compile(
    r"(?P<mark><!-- (?:run by|not run): [^>]+? -->)"
    r"|^(?P<level>#+) (?P<title>[^\n]+)$"
    r"|^```(?P<kind>[^`\n]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (\w+\.\w+)\n")
NO_CODE = ("{toctree}",)
_JOINED = re.compile(r"\\\n\s*")
_OPERATORS = ("|", "||", ">", ">>", "<", "&&", "&", ";", "<<")


@dataclass(frozen=True, slots=True)
class Mark:
    """What is said of a block."""

    tests: tuple[str, ...] = ()
    """The files of the tests that run it."""
    reason: str = ""
    """Why no test runs it."""
    any_order: str = ""
    """Why the lines of its output may come in another order; empty if they must not."""


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a document."""

    document: Path
    line: int
    heading: str
    """The heading above it."""
    kind: str
    text: str
    mark: Mark
    output: str | None = None
    """What the document shows of its output; ``None`` if nothing."""
    span: tuple[int, int] = (0, 0)
    """Where the shown output is in the document."""

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def tests(self) -> tuple[str, ...]:
        return self.mark.tests

    @property
    def reason(self) -> str:
        return self.mark.reason

    @property
    def file(self) -> str:
        """The file that it is, by the comment in its first line; empty if it is none."""
        found = _FILE.match(self.text) if self.kind in ("python", "ini") else None
        return found[1] if found else ""


def documents() -> list[Path]:
    """The README and all pages."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def course_pages() -> list[Path]:
    """All pages that run on the cluster of the course, the one that starts it first."""
    chapters = sorted(path for path in COURSE.glob("*.md") if path != COURSE_START)
    uses = sorted(path for path in (DOCS / "use-cases").glob("*.md") if path.stem != "index")
    return [COURSE_START, *chapters, *uses, DOCS / "cap.md"]


def blocks(document: Path) -> list[Block]:
    """The code blocks of a document with their marks and outputs."""
    text = document.read_text()
    is_of_course = document in course_pages()
    of_sections: dict[int, Mark] = {}
    level, title, own, end = 0, "", Mark(), 0
    after_heading = after_block = False
    found_blocks: list[Block] = []
    for found in _PART.finditer(text):
        is_next = not text[end : found.start()].strip()
        end = found.end()
        if found["mark"]:
            own = _parsed(found["mark"])
            if after_heading and is_next:
                of_sections[level] = own
            after_block = False
        elif found["level"]:
            level, title = len(found["level"]), found["title"]
            of_sections = {depth: mark for depth, mark in of_sections.items() if depth < level}
            own, after_heading, after_block = Mark(), True, False
        elif found["kind"] in OUTPUTS and after_block and is_next:
            found_blocks[-1] = replace(found_blocks[-1], output=found["text"], span=found.span("text"))
            after_block = False
        elif found["kind"] not in NO_CODE:
            line = text.count("\n", 0, found.start()) + 1
            block = Block(document, line, title, found["kind"], found["text"], Mark())
            if own != Mark() and is_next:
                mark = own
            elif is_of_course and (block.kind == "sh" or block.file):
                mark = Mark((COURSE_TEST,))
            else:
                mark = of_sections[max(of_sections)] if of_sections else Mark()
            found_blocks.append(replace(block, mark=mark))
            own, after_heading, after_block = Mark(), False, True
    return found_blocks


def blocks_of(document: str | Path, test: str, heading: str = "") -> list[Block]:
    """The blocks of a document that a test runs, below a heading that begins with ``heading``.

    ``document`` is a path from the root of the checkout, ``test`` the test's ``__file__``. Raises ``AssertionError`` if
    there is none.
    """
    name = Path(test).resolve().relative_to(ROOT).as_posix()
    found = [block for block in blocks(ROOT / document) if name in block.tests and block.heading.startswith(heading)]
    assert found, f"{document} names no block {heading and f'below {heading!r} '}for {name}"
    return found


def _parsed(comment: str) -> Mark:
    found = _MARK.fullmatch(comment)
    assert found
    text = " ".join(found[2].split())
    if found[1] == "not run":
        return Mark(reason=text)
    tests, _, any_order = text.partition(_ANY_ORDER)
    return Mark(tuple(tests.split(", ")), any_order=any_order)


def documents_of(test: Path, function: str) -> set[Path]:
    """The documents for which a file of tests calls ``function("docs/x.md", __file__)``.

    The call of ``compare`` must stand in a test or a fixture. The course's test makes it for each page of the course.
    """
    tree = ast.parse(test.read_text())
    found: set[Path] = set()
    for call in (
        node for part in (filter(_is_test, tree.body) if function == COMPARE else [tree]) for node in ast.walk(part)
    ):
        match call:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[document, ast.Name("__file__"), *_]):
                if name != function:
                    continue
                if isinstance(document, ast.Constant):
                    found.add(ROOT / str(document.value))
                elif test == ROOT / COURSE_TEST:
                    found.update(course_pages())
    return found


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and (
        node.name.startswith("test_") or any("fixture" in ast.unparse(each) for each in node.decorator_list)
    )


def not_compared(block: Block) -> list[str]:
    """Why the output that a document shows below a block, or as a block of its own, is compared by no test."""
    if not block.tests:
        return []
    if block.kind in OUTPUTS:
        return [f"{block}: an output stands directly below the block with its command"]
    if block.output is None:
        return []
    if block.kind != "sh":
        return [f"{block}: the output of a block of kind {block.kind!r} is not compared"]
    return [
        f"{block}: {test} has no call of {COMPARE}() for this document"
        for test in block.tests
        if block.document not in documents_of(ROOT / test, COMPARE)
    ]


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
