"""Writes the diagrams."""

from __future__ import annotations

from integration.diagrams import DIAGRAMS, ROOT, diagram

for path in DIAGRAMS:
    (ROOT / path).write_text(diagram(path))
    print(path)
