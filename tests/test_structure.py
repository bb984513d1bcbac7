"""The structure of the package stays as it is, or gets better: circles, ``Any``, class names, size."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from integration import structure
from integration.structure import GENERATED, Structure
from kafkalite.broker.config_keys import BROKER_CONFIGS

DEFINED_TWICE = {
    "Options": "a pipeline job, also one of a user, is a module with a class of this name (docs/pipelines.md)",
    "Record": "Kafka's name for the record of a batch, and the name under which kafkalite.consumer exports its own",
}
"""Public class that may be defined twice → why."""
MOST_ANY = 150
"""Lines with ``Any``. Lower it when there are fewer."""


@pytest.fixture(scope="module")
def found() -> Structure:
    return structure.measure()


def test_no_import_circle(found: Structure) -> None:
    assert found.circles == []


def test_any_becomes_rarer(found: Structure) -> None:
    lines = found.total(room for room in found.rooms if room != GENERATED).any_lines
    assert lines <= MOST_ANY, f"{lines} lines with Any: `python -m integration.structure` shows in which rooms"


def test_a_class_name_is_defined_once(found: Structure) -> None:
    assert {name: modules for name, modules in found.duplicates.items() if name not in DEFINED_TWICE} == {}
    assert set(DEFINED_TWICE) <= set(found.duplicates), "no longer defined twice: take it out of the list"


def test_the_readme_says_how_big_it_is(found: Structure) -> None:
    """The document's figures are rounded, and differ by at most a tenth."""
    text = (structure.ROOT / "README.md").read_text()
    for pattern, size in (
        (r"broker is ([\d,]+) lines of code in (\d+) files", found.total(structure.BROKER)),
        (r"package has ([\d,]+) lines of code in (\d+) files", found.total(set(found.rooms) - {GENERATED})),
    ):
        match = re.search(pattern, " ".join(text.split()))
        assert match, f"README.md: nothing matches {pattern!r}"
        assert int(match[1].replace(",", "")) == pytest.approx(size.code, rel=0.1)
        assert int(match[2]) == pytest.approx(size.files, rel=0.1)


LOOKS_UP_VALUES = {
    "broker": "turns them into the configuration of each room",
    "log/log_config.py": "turns them into the configuration of a log",
    "security/tls.py": "turns them into a TLS context",
    "security/zookeeper_security.py": "turns them into the security of connections to ZooKeeper",
}
"""Room or module of the broker that may read configuration values by name → why."""


def test_configuration_reaches_the_rooms_as_typed_values() -> None:
    """A value that is looked up by its name has any type, and the class that uses it does not show that it needs it."""
    found = {}
    for room in (*structure.BROKER, "metrics", "security"):
        for path in sorted((structure.ROOT / structure.PACKAGE / room).rglob("*.py")):
            module = str(path.relative_to(structure.ROOT / structure.PACKAGE))
            keys = [
                node.slice.value
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Subscript)
                and isinstance(node.slice, ast.Constant)
                and node.slice.value in BROKER_CONFIGS.keys
            ]
            if keys:
                found[module] = keys
    allowed = {module for module in found if LOOKS_UP_VALUES.keys() & {module, module.partition("/")[0]}}
    assert {module: found[module] for module in found.keys() - allowed} == {}
    assert {module if module in LOOKS_UP_VALUES else module.partition("/")[0] for module in allowed} == set(
        LOOKS_UP_VALUES
    ), "no longer looks up values: take it out of the list"


SOURCE = '''"""A module.

Of two paragraphs.
"""
from typing import Any

# a comment
x = """text
in two lines"""  # Any


class A:
    """A class."""

    size: Any = 0
    """Bytes, or Any."""
'''


def test_lines_of_code_are_counted_without_comments_and_docstrings() -> None:
    figures = structure.size(SOURCE, ast.parse(SOURCE))
    assert (figures.lines, figures.code, figures.any_lines) == (16, 5, 2)


@pytest.mark.parametrize(
    ("graph", "circles"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"d", "b"}, "d": {"a"}}, [["a", "b", "c", "d"]]),
        ({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}, "e": {"e"}}, [["a", "b"], ["c", "d"], ["e"]]),
    ],
)
def test_circles(graph: dict[str, set[str]], circles: list[list[str]]) -> None:
    assert structure.circles(graph) == circles


def test_hidden_imports_and_generated_files_are_found(tmp_path: Path) -> None:
    """An import counts under TYPE_CHECKING and inside a function."""
    for name, text in {
        "kafkalite/__init__.py": "",
        "kafkalite/log/__init__.py": "",
        "kafkalite/log/a.py": "if TYPE_CHECKING:\n    from kafkalite.log.b import B\nclass A: ...\n",
        "kafkalite/log/b.py": "def f():\n    from kafkalite.log import a\nclass B: ...\nclass A: ...\n",
        "kafkalite/log/c.py": '"""Generated by a program."""\nclass A: ...\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = structure.measure(tmp_path)
    assert found.circles == [["kafkalite.log.a", "kafkalite.log.b"]]
    assert found.duplicates == {"A": ["kafkalite.log.a", "kafkalite.log.b"]}
    assert (found.rooms["log"].files, found.rooms[GENERATED].files) == (3, 1)
