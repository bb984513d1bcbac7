"""Each code block of the documents runs in a test, which compares its output, or says why not, and is well-formed."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path

import pytest

from integration import blocks
from integration.harness.documented import matches
from kafkalite.broker.config_keys import BROKER_CONFIGS, is_known_elsewhere
from kafkalite.broker.properties import parse_properties

ALL = [block for document in blocks.documents() for block in blocks.blocks(document)]
READERS: dict[str, Callable[[str], object]] = {
    "python": ast.parse,
    "toml": tomllib.loads,
    "json": lambda text: [json.loads(part) for part in re.split(r"\n(?=\{)", text)],
}


def test_there_are_blocks() -> None:
    assert len(ALL) > 150


@pytest.mark.parametrize("document", blocks.documents(), ids=lambda path: path.relative_to(blocks.ROOT).as_posix())
def test_each_block_runs_in_a_test_or_says_why_not(document: Path) -> None:
    silent = [str(block) for block in ALL if block.document == document and not block.tests and not block.reason]
    assert not silent, "write <!-- run by: FILE --> or <!-- not run: REASON --> above it (integration/blocks.py)"


def test_the_tests_that_are_named_read_the_blocks() -> None:
    wrong = []
    for block in ALL:
        for name in block.tests:
            test = blocks.ROOT / name
            if not test.is_file():
                wrong.append(f"{block}: {name} does not exist")
            elif not any(block.document in blocks.documents_of(test, each) for each in (blocks.COMPARE, "blocks_of")):
                wrong.append(f"{block}: {name} takes no block from {block.document.name}")
    assert not wrong


def test_every_output_that_is_shown_is_compared() -> None:
    assert len([block for block in ALL if block.output is not None and block.tests]) > 50
    assert [complaint for block in ALL for complaint in blocks.not_compared(block)] == []


def test_a_comparing_test_runs_every_block_that_names_it() -> None:
    """It runs those of kind ``sh``, and writes files."""
    assert [
        str(block)
        for block in ALL
        for test in block.tests
        if block.document in blocks.documents_of(blocks.ROOT / test, blocks.COMPARE)
        and block.kind != "sh"
        and not block.file
    ] == []


def test_commands_are_blocks_of_kind_sh() -> None:
    """Also where a session shows command and output in one block."""
    commands = [block for block in ALL if list(blocks.commands(block.text))]
    assert commands
    assert [str(block) for block in commands if block.kind != "sh"] == []
    assert [str(block) for block in ALL if re.search(r"^\$ ", block.text, re.MULTILINE)] == []


def test_the_extras_that_are_installed_exist() -> None:
    named = {
        extra
        for block in ALL
        for found in re.findall(r"pip install.*?\[([a-z,]+)]", block.text)
        for extra in found.split(",")
    }
    assert named
    assert named <= set(metadata("kafkalite").get_all("Provides-Extra") or [])


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
        ("```sh\na\n```\n", [("", "", None)]),
        ("<!-- not run: why -->\n\n```sh\na\n```\n\n```text\nb\n```\n", [("", "why", "b\n")]),
        ("<!-- run by: a.py, b.py -->\n```sh\na\n```\n\n```sh\nb\n```\n", [("a.py b.py", "", None), ("", "", None)]),
        (
            "## A\n\n<!-- not run: why -->\n\nText.\n\n```sh\na\n```\n\n### B\n\n```sh\nb\n```\n",
            [("", "why", None), ("", "why", None)],
        ),
        ("## A\n\n<!-- not run: why -->\n\n## B\n\n```sh\nb\n```\n", [("", "", None)]),
        ("<!-- not run: why -->\n\nText.\n\n```sh\na\n```\n", [("", "", None)]),
        ("<!-- run by: a.py -->\n```sh\na\n```\n\nIt prints\n\n```\nb\n```\n", [("a.py", "", None), ("", "", None)]),
        ("<!-- run by: a.py -->\n```sh\na\n```\n\n```text\n```\n", [("a.py", "", "")]),
        ("<!-- run by: a.py; lines in any order: why -->\n```sh\na\n```\n\n```\nb\n```\n", [("a.py", "", "b\n")]),
    ],
)
def test_what_a_mark_holds_for(text: str, expected: list[tuple[str, str, str | None]], tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(text)
    found = [(" ".join(block.tests), block.reason, block.output) for block in blocks.blocks(document)]
    assert found == expected


def test_a_mark_says_why_lines_come_in_any_order(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("<!-- run by: a.py; lines in any order:\n  two threads -->\n```sh\na\n```\n\n```sh\nb\n```\n")
    assert [block.mark.any_order for block in blocks.blocks(document)] == ["two threads", ""]


SHOWN = "# T\n\n<!-- run by: test_x.py -->\n\n```sh\na\n```\n\n```text\nb\n```\n"
COMPARES = 'def test_a():\n    desk.compare("a.md", __file__)\n'


@pytest.mark.parametrize(
    ("document", "test", "complaint"),
    [
        (SHOWN, COMPARES, ""),
        (SHOWN, f"@pytest.fixture\n{COMPARES.replace('test_a', 'made')}", ""),
        (SHOWN, COMPARES.replace("test_a", "never_called"), "has no call of compare"),
        (SHOWN, COMPARES.replace("a.md", "b.md"), "has no call of compare"),
        (SHOWN, COMPARES.replace("desk.compare", "desk.run"), "has no call of compare"),
        (SHOWN, COMPARES.replace("__file__", '"test_y.py"'), "has no call of compare"),
        (SHOWN.replace("run by: test_x.py", "not run: why"), "", ""),
        (SHOWN.replace("```sh", "```json"), COMPARES, "a block of kind 'json' is not compared"),
        (SHOWN.replace("```text", "It prints\n\n```text"), COMPARES, "directly below the block with its command"),
        (SHOWN.replace("```text", "It prints\n\n```"), COMPARES, "directly below the block with its command"),
    ],
)
def test_an_output_that_no_test_compares_is_found(
    document: str, test: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text(document)
    (tmp_path / "test_x.py").write_text(test)
    found = [each for block in blocks.blocks(tmp_path / "a.md") for each in blocks.not_compared(block)]
    assert len(found) == bool(complaint)
    assert complaint in "".join(found)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("a\n", "a\nb\n", False),
        ("a …\n", "a b c\n", True),
        ("a …\n", "a b\nc\n", False),
        ("a\n…\nc\n", "a\nb\nb\nc\n", True),
        ("a\n…\nc\n", "a\nc\n", True),
        ("a\n…\nc\n", "a\nb\n", False),
        ("in 1.5 ms\n", "in   12.25 ms\n", True),
        ("in 1.5 ms\n", "in 1.5 s\n", False),
        ("leader epoch 1\n", "leader epoch 2\n", False),
        ("zxid 1 at 1795493386227\n", "zxid 2 at 1795493386228\n", True),
        ("a\n", "localhost:9092/1: Connect to ipv4#127.0.0.1:9092 failed: Connection refused\na\n", True),
        ("a\n", "%1: Connection refused\na\n", False),
    ],
)
def test_what_is_the_same_output(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) == same


def test_lines_in_any_order_are_the_same_output() -> None:
    assert matches("1.5 ms a\n2.5 ms b\n", "1.7 ms b\n1.9 ms a\n", any_order=True)
    assert not matches("a\nb\n", "b\na\n")
    assert not matches("a\nb\n", "b\nb\na\n", any_order=True)
