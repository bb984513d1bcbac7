"""A user's project, with the built wheel in an empty environment, runs the lines of ``docs/testing.md``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration.blocks import ROOT, blocks, blocks_of
from integration.harness.stranger import run

pytestmark = pytest.mark.kafkalite_only
LONGEST = 12


def test_the_documented_lines_for_pytest_run(stranger_python: Path, tmp_path: Path) -> None:
    files = {block.file: block.text for block in blocks_of("docs/testing.md", __file__)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    tests = [name for name in files if name.startswith("test_")]
    done = run(str(stranger_python), "-m", "pytest", "-q", cwd=tmp_path)
    assert re.search(rf"^{len(tests)} passed", done, re.MULTILINE), done


def test_the_documented_lines_without_pytest_run(stranger_python: Path, tmp_path: Path) -> None:
    [block] = blocks_of("docs/testing.md", __file__, "Without pytest")
    (tmp_path / "program.py").write_text(block.text)
    assert run(str(stranger_python), "program.py", cwd=tmp_path).startswith("[1, 2, 3] 127.0.0.1:")


def test_the_documented_lines_are_few() -> None:
    shown = {block.file: block.text.splitlines() for block in blocks(ROOT / "docs" / "testing.md")}
    lengths = {name: len([line for line in lines if line.strip()]) for name, lines in shown.items()}
    assert len(lengths) >= 6
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}
