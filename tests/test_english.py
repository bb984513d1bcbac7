"""Comments, docstrings, messages, names of functions and documents avoid the words that ``docs/style.md`` warns of."""

from __future__ import annotations

import io
import re
import token
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

INSTEAD = {
    "whoever": "the one that is meant: the client, the broker that leads, the caller",
    "whomever": "the one that is meant: the client, the broker, the caller",
    "nobody": "'no client', 'no broker', 'no member' …",
    "somebody": "'a client', 'another broker', 'an operator' …",
    "anybody": "'any client', 'any broker' …",
    "everybody": "'all members', 'every broker' …",
    "whatever": "'any', 'every', 'regardless of', 'also if'",
    "again and again": "'repeatedly', 'in a loop', or how often and until when",
    "what is there": "the thing: 'the existing znodes', 'the records in the log'",
    "what there is": "the thing: 'the existing znodes', 'the records in the log'",
    "only so": "'X, because otherwise Y'",
    "of its own accord": "'by itself', or what starts it",
    "in vain": "what did not happen: 'and no answer came'",
    "lest": "'because otherwise'",
    "anew": "'again', 'a new …', or the verb: 'repeat', 'rebuild', 'restart'",
    "once more": "'again', 'a second time', or the verb: 'repeat'",
    "under way": "'outstanding', 'in flight', 'running'",
    "by chance": "'at random', 'a random …'",
}
WORDS = re.compile(r"\b(?:" + "|".join(words.replace(" ", r"\s+") for words in INSTEAD) + r")\b", re.IGNORECASE)

# Texts that are not ours to write: they quote these words, or Kafka's and Spark's own sentences.
EXEMPT = {"docs/style.md", "tests/test_english.py"}

# How many of these words are left in each part of the repository. The numbers only go down; no row means none.
CEILINGS: dict[str, int] = {
    # Names of planted bugs and of a scenario, by which reports are found again.
    "docs": 12,
    "kafkalite/testing": 1,
}


class Finding(NamedTuple):
    """One unwanted word at ``path:line``."""

    path: str
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r}: write {INSTEAD[self.words]}"


def files() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))
    for folder in ("kafkalite", "tests", "integration"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def part(path: str) -> str:
    """The row of ``CEILINGS`` for ``path``: its first two folders."""
    folders = path.split("/")[:-1]
    return "/".join(folders[:2]) or "."


def prose(source: str, messages: bool) -> Iterator[tuple[int, str]]:
    """The comments, docstrings and names of functions and classes of a module, each with its first line.

    With ``messages`` all strings with a blank in them, too, because these are read by people.
    """
    before, begins = "", True
    for item in tokenize.generate_tokens(io.StringIO(source).readline):
        middle = token.tok_name[item.type] == "FSTRING_MIDDLE"  # Python 3.12 splits f-strings
        if item.type == token.COMMENT:
            yield item.start[0], item.string
        elif item.type == token.NAME and before in ("def", "class"):
            yield item.start[0], item.string.replace("_", " ")
        elif item.type == token.STRING or middle:
            quoted = not re.match(r"[a-zA-Z]*b", item.string.partition('"')[0], re.IGNORECASE)
            if begins or (messages and " " in item.string and (middle or quoted)):
                yield item.start[0], item.string
        if item.type not in (token.NL, token.COMMENT):
            begins = item.type in (token.NEWLINE, token.INDENT, token.DEDENT, token.ENCODING)
        before = item.string


def findings(path: str, text: str) -> list[Finding]:
    if not WORDS.search(text.replace("_", " ")):
        return []
    parts = prose(text, messages=path.startswith("kafkalite/")) if path.endswith(".py") else iter([(1, text)])
    return [
        Finding(path, line + words.count("\n", 0, found.start()), " ".join(found.group().lower().split()))
        for line, words in parts
        for found in WORDS.finditer(words)
    ]


@pytest.fixture(scope="module")
def found() -> dict[str, list[Finding]]:
    """All unwanted words, by the part of the repository that they are in."""
    result: dict[str, list[Finding]] = {}
    for file in files():
        path = file.relative_to(ROOT).as_posix()
        if path not in EXEMPT:
            for finding in findings(path, file.read_text()):
                result.setdefault(part(path), []).append(finding)
    return result


def test_each_part_has_as_many_unwanted_words_as_its_ceiling(found: dict[str, list[Finding]]) -> None:
    counts = {name: len(items) for name, items in found.items()}
    above = sorted(name for name, count in counts.items() if count > CEILINGS.get(name, 0))
    lines = [str(finding) for name in above for finding in found[name]]
    assert not above, f"more than the ceilings of {', '.join(above)} allow (docs/style.md):\n" + "\n".join(lines)
    below = {name: counts.get(name, 0) for name, ceiling in CEILINGS.items() if counts.get(name, 0) < ceiling}
    assert not below, f"lower the ceilings to the numbers that are left (no row for 0): {below}"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("kafkalite/x.py", "x = 1  # whoever asks\n", [(1, "whoever")]),
        ("kafkalite/x.py", '"""Docs.\n\nRead again\nand again.\n"""\n', [(3, "again and again")]),
        ("kafkalite/x.py", 'def f():\n    """Nobody."""\n', [(2, "nobody")]),
        ("kafkalite/x.py", "raise ValueError(f'{n}: nobody has it')\n", [(1, "nobody")]),
        ("tests/x.py", "raise ValueError('nobody has it')\n", []),
        ("tests/x.py", "def test_nobody_leads():\n    pass\n", [(1, "nobody")]),
        ("tests/x.py", "topic = 'nobody'\nwhatever = 1\n", []),
        ("kafkalite/x.py", "data = b'nobody has it'\nuser = 'nobody'\n", []),
        ("docs/x.md", "a\nb whatever\n", [(2, "whatever")]),
        ("kafkalite/x.py", '"""Requests under\nway."""\n', [(1, "under way")]),
        ("docs/x.md", "the client repeats the request\n", []),
    ],
)
def test_what_is_found(path: str, text: str, expected: list[tuple[int, str]]) -> None:
    assert [(finding.line, finding.words) for finding in findings(path, text)] == expected


def test_a_finding_says_what_to_write() -> None:
    assert str(findings("docs/x.md", "whoever")[0]).startswith("docs/x.md:1: 'whoever': write the one that is meant")
