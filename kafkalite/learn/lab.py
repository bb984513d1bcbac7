"""What a lab is: the attributes and the two functions that its folder hands to the engine.

Answers to: nothing in Kafka. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkalite.learn.workspace import Workspace


class LabKind(StrEnum):
    """A guided lab names each step; a puzzle names only the goal."""

    GUIDED = "guided"
    PUZZLE = "puzzle"


@dataclass(frozen=True, slots=True)
class LabFinding:
    """One thing that a check has looked at: whether it is ``right``, what was found, and what is missing and why."""

    right: bool
    what: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class LabNeeds:
    """The cluster of a lab: how many brokers, properties of ``server.properties`` as (name, value), and whether it is
    ``secure``, with the users ``admin`` and ``client``."""

    brokers: int = 1
    properties: tuple[tuple[str, str], ...] = ()
    secure: bool = False


class Lab(Protocol):
    """``LAB`` in the ``lab.py`` of a folder. Its text is in ``lab.md``, and its name is that of the folder."""

    @property
    def chapter(self) -> int:
        """Number of the chapter of the course that the lab belongs to."""

    @property
    def kind(self) -> LabKind:
        """Guided or puzzle."""

    @property
    def needs(self) -> LabNeeds:
        """The cluster on which the lab runs."""

    def prepare(self, workspace: Workspace, /) -> None:
        """Make the topics, records and offsets that the student finds. The cluster is new."""

    def check(self, workspace: Workspace, /) -> list[LabFinding]:
        """What the real state says about each task. The lab is done if all findings are right."""

    def outcome(self, workspace: Workspace, /) -> str:
        """The letter of the prediction that came true, from the real state; asked only when the lab is done."""
