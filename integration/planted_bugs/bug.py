"""One planted bug: which text of the package is replaced by which, and what that breaks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Edit(NamedTuple):
    """In ``file`` (a path within the package) the text ``old``, which stands there once, becomes ``new``."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class PlantedBug:
    """A mistake that an engineer could make. ``also`` are edits that break a second line of defence.

    ``breaks`` says what no longer holds, ``needs`` which disorder shows it.
    """

    name: str
    room: str
    file: str
    old: str
    new: str
    breaks: str
    needs: str
    also: tuple[Edit, ...] = ()

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits."""
        return Edit(self.file, self.old, self.new), *self.also
