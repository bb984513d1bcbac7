"""One planted bug: the replacements in the package's texts, and the guarantee that they break. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Edit(NamedTuple):
    """Replace ``old``, which ``file`` (a path within the package) must contain once, by ``new``."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class PlantedBug:
    """A mistake that an engineer could make. ``also`` are edits that remove a second check of the same guarantee.

    ``breaks`` names the broken guarantee, ``needs`` the disorder that makes the simulation see it.
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
