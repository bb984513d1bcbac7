"""The glossary names znodes, requests, files and configurations that exist, and is in the order of the alphabet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalite.apis.registry import served
from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.cli.main import COMMANDS
from kafkalite.protocol.messages import message_name
from zk_schema import schemas

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines()
    if line.startswith("| ") and "](" in line
]
SEEN = re.compile(r"(?:(znode|file|configuration|command) )?`([^`]+)`")
"""One place of the third column: a kind (none: a request) and a name."""


def test_terms_are_in_the_order_of_the_alphabet() -> None:
    terms = [row[0].lower() for row in ROWS]
    assert len(terms) > 60
    assert terms == sorted(terms)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_term_has_a_sentence_a_place_and_a_link(row: tuple[str, ...]) -> None:
    assert len(row) == 4
    _, meaning, seen, more = row
    assert meaning.endswith(".")
    assert SEEN.sub("", seen).strip(", ") == ""
    assert re.fullmatch(r"\[[\w ]+\]\([\w/.-]+\.md(#[\w-]+)?\)", more)


def existing() -> dict[str, set[str]]:
    """Kind → names that exist. A file is known if a module of the log's room writes its name."""
    files = "".join(path.read_text() for path in sorted((ROOT / "kafkalite").rglob("*.py")))
    named = {name for row in ROWS for kind, name in SEEN.findall(row[2]) if kind == "file"}
    return {
        "": {message_name(key) for key in served()},
        "znode": {schema.path for schema in schemas()},
        "file": {name for name in named if f'"{name}"' in files},
        "configuration": set(BROKER_CONFIGS.keys),
        "command": set(COMMANDS),
    }


def test_each_place_exists() -> None:
    known = existing()
    unknown = [
        f"{row[0]}: {kind} {name}"
        for row in ROWS
        for kind, name in SEEN.findall(row[2])
        if (name.split()[0] if kind == "command" else name) not in known[kind]
    ]
    assert not unknown
