"""The contract of the ZooKeeper tree: one JSON Schema and one example for every znode.

``NAME.schema.json`` says what one kind of znode means (``description``), describes its data and says, under ``x-…``
keys, where it stands (``x-path``, with ``{placeholders}``), who writes it (``x-writer``), who watches it
(``x-watchers``), how long it lives (``x-lifetime``: ``persistent``, ``persistent sequential`` or ``ephemeral``) and
what form it has (``x-format``: ``json``, ``text`` or ``empty``). ``x-may-be-empty`` marks those that are created
without data and filled later.
``NAME.example.json`` or ``NAME.example.txt`` holds data as real Kafka writes them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class ZnodeSchema:
    """One kind of znode."""

    name: str
    path: str
    description: str
    writer: str
    watchers: str
    lifetime: str
    format: str
    schema: dict[str, Any]

    @property
    def ephemeral(self) -> bool:
        """Whether it goes with its writer's session."""
        return self.lifetime.startswith("ephemeral")

    @property
    def sequential(self) -> bool:
        """Whether ZooKeeper appends ten digits to its name."""
        return self.lifetime.endswith("sequential")

    def example(self) -> bytes:
        """Data as real Kafka writes them."""
        ending = "json" if self.format == "json" else "txt"
        return (_HERE / f"{self.name}.example.{ending}").read_bytes().rstrip(b"\n")

    @property
    def may_be_empty(self) -> bool:
        """Whether it may stand there without data, as a parent or before its first use."""
        return bool(self.schema.get("x-may-be-empty"))

    def matches(self, path: str) -> bool:
        """Whether ``path`` is of this kind."""
        return _pattern(self.path, self.sequential).fullmatch(path) is not None

    def value(self, data: bytes) -> object:
        """What the schema is applied to. Raises ``ValueError`` for what is not JSON, or not text."""
        text = data.decode("utf-8")
        return json.loads(text) if self.format == "json" else text


@cache
def _pattern(path: str, sequential: bool) -> re.Pattern[str]:
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
    return re.compile(pattern + (r"\d{10}" if sequential else ""))


@cache
def schemas() -> tuple[ZnodeSchema, ...]:
    """All kinds, those with fewer placeholders first: a literal path goes before one that it happens to fit."""
    found = []
    for file in sorted(_HERE.glob("*.schema.json")):
        schema = json.loads(file.read_text("utf-8"))
        name = file.name.removesuffix(".schema.json")
        path, meaning, writer = schema["x-path"], schema["description"], schema["x-writer"]
        watchers, lifetime = schema["x-watchers"], schema["x-lifetime"]
        found.append(ZnodeSchema(name, path, meaning, writer, watchers, lifetime, schema["x-format"], schema))
    return tuple(sorted(found, key=lambda kind: (kind.path.count("{"), kind.name)))


def lookup(path: str) -> ZnodeSchema | None:
    """The kind of the znode at ``path``, or ``None``."""
    return next((kind for kind in schemas() if kind.matches(path)), None)
