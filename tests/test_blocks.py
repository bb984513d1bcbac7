"""Each code block of the documents runs in a test that its source names, or says why not, and is well-formed."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from integration import blocks
from kafkalite.broker.config_keys import BROKER_CONFIGS, is_known_elsewhere
from kafkalite.broker.properties import parse_properties

ALL = [block for document in blocks.documents() for block in blocks.blocks(document)]
READERS: dict[str, Callable[[str], object]] = {
    "python": ast.parse,
    "toml": tomllib.loads,
    "json": lambda text: [json.loads(part) for part in re.split(r"\n(?=\{)", text)],
}


def test_there_are_blocks() -> None:
    assert len(ALL) > 200


@pytest.mark.parametrize("document", blocks.documents(), ids=lambda path: path.relative_to(blocks.ROOT).as_posix())
def test_each_block_runs_in_a_test_or_says_why_not(document: Path) -> None:
    silent = [str(block) for block in ALL if block.document == document and not block.tests and not block.reason]
    assert not silent, "write <!-- run by: FILE --> or <!-- not run: REASON --> above it (integration/blocks.py)"


def test_the_tests_that_are_named_read_the_document() -> None:
    """They exist, and have the document's name in their source, apart from the pages of the course."""
    wrong = []
    for block in ALL:
        for name in block.tests:
            test = blocks.ROOT / name
            if not test.is_file():
                wrong.append(f"{block}: {name} does not exist")
            elif name != "integration/test_course.py" and block.document.name not in test.read_text():
                wrong.append(f"{block}: {name} does not name {block.document.name}")
    assert not wrong


def test_the_files_that_reasons_name_exist() -> None:
    named = [(str(block), path) for block in ALL for path in re.findall(r"\b\w+/[\w/.]*\w", block.reason)]
    assert named
    assert [(block, path) for block, path in named if not (blocks.ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "block", [block for block in ALL if block.reason and list(blocks.commands(block.text))], ids=str
)
def test_a_command_line_that_does_not_run_is_understood(block: blocks.Block) -> None:
    said = {" ".join(line): blocks.is_understood(line) for line in blocks.commands(block.text)}
    assert {line: complaint for line, complaint in said.items() if complaint} == {}


@pytest.mark.parametrize("block", [block for block in ALL if block.reason and block.kind in READERS], ids=str)
def test_a_block_that_does_not_run_can_be_read(block: blocks.Block) -> None:
    assert READERS[block.kind](block.text)


@pytest.mark.parametrize(
    "block", [block for block in ALL if block.reason and block.kind in ("properties", "ini")], ids=str
)
def test_the_properties_of_a_block_that_does_not_run_are_known(block: blocks.Block) -> None:
    names = parse_properties(block.text)
    assert names
    is_of_a_client = "security.protocol" in names
    unknown = [name for name in BROKER_CONFIGS.unknown(names) if not is_known_elsewhere(name)]
    assert [name for name in unknown if not (is_of_a_client and name.startswith(("security.", "sasl.")))] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```sh\na\n```\n", [("", "")]),
        ("<!-- not run: why -->\n\n```sh\na\n```\n\n```text\nb\n```\n", [("", "why"), ("", "why")]),
        ("<!-- run by: a.py, b.py -->\n```sh\na\n```\n\n```sh\nb\n```\n", [("a.py b.py", ""), ("", "")]),
        (
            "## A\n\n<!-- not run: why -->\n\nText.\n\n```sh\na\n```\n\n### B\n\n```sh\nb\n```\n",
            [("", "why"), ("", "why")],
        ),
        ("## A\n\n<!-- not run: why -->\n\n## B\n\n```sh\nb\n```\n", [("", "")]),
        ("<!-- not run: why -->\n\nText.\n\n```sh\na\n```\n", [("", "")]),
    ],
)
def test_what_a_mark_holds_for(text: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(text)
    assert [(" ".join(block.tests), block.reason) for block in blocks.blocks(document)] == expected
