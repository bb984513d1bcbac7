"""docs/architecture.md stays true: its tables name modules that exist and say the same of themselves, and tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = re.findall(
    r"^\| `([\w.]+)` \| `(kafkalite/[\w/]+\.py)` \|$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE
)
TRAPS = re.findall(
    r"^\| .+ \| `(kafkalite/[\w/]+\.py)` \| `((?:tests|integration)/[\w/]+\.py)::(\w+)` \|$",
    (ROOT / "docs/architecture.md").read_text(),
    re.MULTILINE,
)
# kazoo's and Twisted's ready-made pieces that wait, or copy, where a broker must not.
UNWANTED = re.compile(
    r"^\s*(?:from|import) (?:kazoo\.(?:recipe|handlers\.(?:eventlet|gevent))|twisted\.protocols)", re.M
)
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "kafkalite").rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


def docstring(module: str) -> str:
    return ast.get_docstring(ast.parse((ROOT / module).read_text())) or ""


def test_the_table_was_found() -> None:
    assert len(ROWS) > 40


@pytest.mark.parametrize(("kafka", "module"), ROWS)
def test_the_module_answers_to_the_class(kafka: str, module: str) -> None:
    assert (ROOT / module).is_file(), f"{module} does not exist"
    assert re.search(rf"\b{kafka.rpartition('.')[2]}\b", docstring(module)), (
        f"{module} does not say that it answers to {kafka}"
    )


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_answers_to(module: str) -> None:
    text = docstring(module)
    assert "Answers to:" in text, f"{module}: no Kafka class is named"


def test_the_traps_were_found() -> None:
    assert len(TRAPS) > 50
    section = (ROOT / "docs/architecture.md").read_text().partition("## Traps, and")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| trap ")]
    assert len(rows) == len(TRAPS), "a row that names no module and no test"


@pytest.mark.parametrize(("module", "path", "test"), TRAPS)
def test_each_trap_has_its_test(module: str, path: str, test: str) -> None:
    assert (ROOT / module).is_file(), f"{module} does not exist"
    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert test in functions, f"{path} has no {test}"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_blocks_the_reactor_by_design(module: str) -> None:
    """kazoo's recipes block; Twisted's framing copies what it has of a frame with every read."""
    assert not UNWANTED.search((ROOT / module).read_text())
