"""docs/architecture.md stays true: its table names modules that exist and that say the same of themselves."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = re.findall(
    r"^\| `([\w.]+)` \| `(kafkalite/[\w/]+\.py)` \|$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE
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
