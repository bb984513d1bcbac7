"""The links of the documents: where they lead, and which functions they name.

A link to a module may name a function or class of it: ``[Log.append_as_leader](../kafkalite/log/log.py)``. Then the
module must define that name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"(?<!\[)`[^`\n]+`")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_NAME = re.compile(r"`?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`?")
_PATH = re.compile(r"`((?:kafkalite|integration|tests|docker|zk_schema|docs)/[\w./-]+\.[a-z]+)`")


def documents() -> list[Path]:
    """README.md, CONTRIBUTING.md and all of ``docs/``."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def complaints(document: Path) -> Iterator[str]:
    """The dead links of a document, the names that no module defines, and the quoted paths that do not exist."""
    text = _FENCED.sub("", document.read_text())
    for path in _PATH.findall(text):
        if not (ROOT / path).exists():
            yield f"`{path}` does not exist"
    # A whole label may be code; other code may look like a link.
    for label, address in _LINK.findall(_QUOTED.sub("", text)):
        if re.match(r"[a-z]+:", address):
            continue
        name, _, anchor = address.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists():
            yield f"[{label}]({address}): no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"[{label}]({address}): {target.name} has no such heading"
        elif target.suffix == ".py" and (named := _NAME.fullmatch(label)) and named[1] not in names(target):
            yield f"[{label}]({address}): {target.name} does not define it"


@cache
def anchors(document: Path) -> frozenset[str]:
    """The anchors of a document's headings, as GitHub and MyST make them."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#{1,6} (.+)$", _FENCED.sub("", document.read_text()), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", _LINK.sub(r"\1", heading).lower()).replace(" ", "-")
        names.add(f"{plain}-{found[plain]}" if plain in found else plain)
        found[plain] = found.get(plain, 0) + 1
    return frozenset(names)


@cache
def names(module: Path) -> frozenset[str]:
    """The name of a module, and the functions, classes, methods and constants that it defines (``Log.read``)."""
    return frozenset([module.name, *_defined(ast.parse(module.read_text()).body, "")])


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{prefix}{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from _defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield f"{prefix}{target.id}"
