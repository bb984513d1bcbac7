"""A user's project, with the built wheel in an empty environment, runs the lines of ``docs/testing.md``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration.harness.stranger import ROOT, run, shown_files

pytestmark = pytest.mark.kafkalite_only
DOCUMENT = ROOT / "docs" / "testing.md"
IN_CONTAINERS = {"test_container.py", "test_secured_container.py", "three_containers.py"}
LONGEST = 11


def test_the_documented_lines_for_pytest_run(stranger_python: Path, tmp_path: Path) -> None:
    files = {name: text for name, text in shown_files(DOCUMENT).items() if name not in IN_CONTAINERS}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    tests = [name for name in files if name.startswith("test_")]
    done = run(str(stranger_python), "-m", "pytest", "-q", cwd=tmp_path)
    assert re.search(rf"^{len(tests)} passed", done, re.MULTILINE), done


def test_the_documented_lines_without_pytest_run(stranger_python: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(shown_files(DOCUMENT)["without_pytest.py"])
    assert run(str(stranger_python), "program.py", cwd=tmp_path).startswith("[1, 2, 3] 127.0.0.1:")


def test_the_documented_lines_are_few() -> None:
    lengths = {
        name: len([line for line in text.splitlines() if line.strip()]) for name, text in shown_files(DOCUMENT).items()
    }
    assert len(lengths) >= 6
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}
