"""Size and structure of the package: ``python -m integration.structure`` (``--json`` for a script).

For each room: files, lines, lines of code (without blank lines, comments and docstrings), lines with ``Any``. For the
package: import circles, where imports under ``TYPE_CHECKING`` and inside functions count, and names of public classes
that are defined twice. A file whose docstring, or whose first comment, begins with "Generated" counts as generated, and
in no room.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "kafkalite"
BROKER = (
    "common",
    "record",
    "cluster",
    "protocol",
    "log",
    "zk",
    "network",
    "controller",
    "replication",
    "coordinator",
    "admin",
    "apis",
    "broker",
)
"""Rooms of the broker, from the lowest floor up."""
GENERATED, TOP = "(generated)", "(top)"
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}


@dataclass(slots=True)
class Size:
    """Figures of a room, or of several."""

    files: int = 0
    lines: int = 0
    code: int = 0
    """Lines with more than a comment or a docstring."""
    any_lines: int = 0
    """Lines of code with the name ``Any``; imports count."""

    def add(self, other: Size) -> None:
        self.files += other.files
        self.lines += other.lines
        self.code += other.code
        self.any_lines += other.any_lines


@dataclass(slots=True)
class Structure:
    """Result of :func:`measure`."""

    rooms: dict[str, Size]
    circles: list[list[str]]
    """Modules that import each other, directly or through others: one list for each circle."""
    duplicates: dict[str, list[str]] = field(default_factory=dict)
    """Public class defined twice → its modules."""

    def total(self, rooms: Iterable[str]) -> Size:
        """Sum over some rooms."""
        total = Size()
        for room in rooms:
            total.add(self.rooms.get(room, Size()))
        return total


def measure(root: Path = ROOT) -> Structure:
    """The structure of the package below ``root``."""
    paths = sorted(path for path in (root / PACKAGE).rglob("*") if path.suffix in (".py", ".pyi"))
    sources = {path: path.read_text() for path in paths}
    rooms: dict[str, Size] = {}
    trees: dict[str, ast.Module] = {}
    classes: dict[str, list[str]] = {}
    for path, source in sources.items():
        relative = path.relative_to(root)
        tree = ast.parse(source)
        generated = is_generated(source, tree)
        room = GENERATED if generated else relative.parts[1] if len(relative.parts) > 2 else TOP
        rooms.setdefault(room, Size()).add(size(source, tree))
        if path.suffix == ".pyi":
            continue
        module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        trees[module] = tree
        if not generated:
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    classes.setdefault(node.name, []).append(module)
    graph = {module: imports(tree, trees) for module, tree in trees.items()}
    duplicates = {name: modules for name, modules in sorted(classes.items()) if len(modules) > 1}
    return Structure(rooms, circles(graph), duplicates)


def is_generated(source: str, tree: ast.Module) -> bool:
    return (ast.get_docstring(tree) or source.lstrip("# ")).startswith("Generated")


def size(source: str, tree: ast.Module) -> Size:
    """Figures of one file."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        # An expression that is only a string is a docstring, also of an attribute.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    any_lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT and token.start[0] not in docstrings:
            code.update(range(token.start[0], token.end[0] + 1))
            if token.type == tokenize.NAME and token.string == "Any":
                any_lines.add(token.start[0])
    return Size(1, len(source.splitlines()), len(code), len(any_lines))


def imports(tree: ast.Module, modules: Mapping[str, object]) -> set[str]:
    """The modules of the package that a module imports, also inside functions and under ``TYPE_CHECKING``."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found.add(inner if inner in modules else node.module)
    return {name for name in found if name in modules}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which reaches all others of its group (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            group = [stack.pop()]
            while group[-1] != module:
                group.append(stack.pop())
            if len(group) > 1 or module in graph[module]:
                found.append(sorted(group))

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * len(graph) + 1000))
    for module in sorted(graph):
        if module not in index:
            visit(module)
    return sorted(found)


def report(structure: Structure) -> str:
    """The figures as text."""
    sums = {
        "broker": structure.total(BROKER),
        "others": structure.total(set(structure.rooms) - {*BROKER, GENERATED}),
        "package": structure.total(structure.rooms),
    }
    out = [f"{'':<14}{'files':>7}{'lines':>9}{'code':>9}{'Any':>6}"]
    ordered = [*BROKER, *sorted(set(structure.rooms) - set(BROKER))]
    for name, figures in [*((room, structure.rooms.get(room, Size())) for room in ordered), *sums.items()]:
        out.append(f"{name:<14}{figures.files:>7}{figures.lines:>9,}{figures.code:>9,}{figures.any_lines:>6}")
    out.append(f"import circles: {len(structure.circles)}")
    out += [f"  {' '.join(circle)}" for circle in structure.circles]
    out.append(f"public classes defined twice: {len(structure.duplicates)}")
    out += [f"  {name}: {' '.join(modules)}" for name, modules in structure.duplicates.items()]
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m integration.structure", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args()
    structure = measure()
    print(json.dumps(asdict(structure), indent=1) if args.json else report(structure))
    return 0


if __name__ == "__main__":
    sys.exit(main())
