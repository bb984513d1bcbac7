"""Compares the walks of ``docs/architecture.md`` with the code: ``python -m integration.walks`` prints their lengths.

A walk is a code block marked ``walk``. A line is a hop: ``module: function`` (below ``kafkalite``) and, after two
blanks, a remark. A hop is below its caller, indented by two; a hop without indentation is called by a socket, a queue
or another process. The caller, or the constructor of its class, must mention the function's name. ``~`` marks a call
through a callback; then any module of the walk must mention the name.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import FunctionType, ModuleType

from integration.blocks import ROOT, blocks

DOCUMENT = ROOT / "docs" / "architecture.md"
_HOP = re.compile(r"( *)(~ )?([\w.]+): ([\w.]+)(?:  .*)?")


@dataclass(frozen=True, slots=True)
class Hop:
    """One line of a walk."""

    depth: int
    """Number of callers above it."""
    module: str
    function: str
    caller: Hop | None
    is_callback: bool

    def __str__(self) -> str:
        return f"{self.module}: {self.function}"

    @property
    def names(self) -> set[str]:
        """The names by which a caller may mention it: its name, or its class if it is ``__call__``."""
        parts = self.function.split(".")
        return {parts[-2].lstrip("_"), parts[-2]} if parts[-1] == "__call__" else {parts[-1]}


def walks() -> dict[str, list[Hop]]:
    """The document's walks by their headings. Raises ``ValueError`` for a line that is no hop."""
    return {block.heading: list(parse(block.text)) for block in blocks(DOCUMENT) if block.kind == "walk"}


def parse(block: str) -> Iterator[Hop]:
    """The hops of a walk. Raises ``ValueError`` for a line that is no hop."""
    above: list[Hop] = []
    for line in block.splitlines():
        found = _HOP.fullmatch(line)
        if found is None or len(found[1]) % 2 or len(found[1]) // 2 > len(above):
            raise ValueError(f"no hop: {line!r}")
        depth = len(found[1]) // 2
        del above[depth:]
        hop = Hop(depth, found[3], found[4], above[-1] if above else None, bool(found[2]))
        above.append(hop)
        yield hop


def complaint(hop: Hop, walk: list[Hop]) -> str:
    """The defect of a hop; empty if it has none."""
    try:
        function_of(hop)
    except (ImportError, AttributeError, TypeError) as error:
        return f"{hop}: {error}"
    if hop.caller is None:
        return ""
    if hop.is_callback:
        mentioned = set().union(*(mentions_of_module(module) for module in {other.module for other in walk}))
        return "" if hop.names & mentioned else f"{hop}: no module of the walk hands it over"
    return "" if hop.names & mentions(hop.caller) else f"{hop}: {hop.caller} does not call it"


def function_of(hop: Hop) -> FunctionType:
    """The function of a hop. Raises ``ImportError``, ``AttributeError`` or ``TypeError`` if it does not exist."""
    found: object = module_of(hop.module)
    for name in hop.function.split("."):
        found = getattr(found, name)
    if not isinstance(found, FunctionType):
        raise TypeError("is no function")
    if found.__module__ != f"kafkalite.{hop.module}":
        raise TypeError(f"stands in {found.__module__}")
    return found


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"kafkalite.{name}")


def mentions(hop: Hop) -> set[str]:
    """The names in a function, and in the constructor of its class."""
    found = names_in(inspect.getsource(function_of(hop)))
    owner = hop.function.rpartition(".")[0]
    if owner:
        constructor = getattr(getattr(module_of(hop.module), owner), "__init__", None)
        if isinstance(constructor, FunctionType):
            found |= names_in(inspect.getsource(constructor))
    return found


@cache
def mentions_of_module(name: str) -> frozenset[str]:
    return frozenset(names_in(inspect.getsource(module_of(name))))


def names_in(source: str) -> set[str]:
    """Names and attributes that a piece of code uses, without those that it defines."""
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(ast.parse(textwrap.dedent(source)))
        if isinstance(node, ast.Name | ast.Attribute)
    }


def main() -> int:
    for title, walk in walks().items():
        deepest = max(hop.depth for hop in walk) + 1
        modules = len({hop.module for hop in walk})
        print(f"{title}: {len(walk)} hops, {deepest} calls at the deepest, {modules} modules")
        for hop in walk:
            if why := complaint(hop, walk):
                print(f"  {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
