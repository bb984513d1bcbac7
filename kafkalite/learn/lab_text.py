"""The text of a lab: ``lab.md``, cut at its headings.

Answers to: nothing in Kafka. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

SECTIONS = ("Predict", "Tasks", "Hints", "What happened", "Sources")
_CHOICE = re.compile(r"^- ([a-z])\) (.+)$", re.M)
_HINT = re.compile(r"^\d+\. (.+(?:\n(?!\d+\. ).+)*)", re.M)


class LabTextError(ValueError):
    """A ``lab.md`` without a part that each lab has."""


@dataclass(frozen=True, slots=True)
class LabText:
    """The parts of ``lab.md``: the title, the story below it, and the sections named in ``SECTIONS``."""

    title: str
    story: str
    predict: str
    tasks: str
    hints: tuple[str, ...]
    happened: str
    sources: str
    choices: Mapping[str, str]
    """Letter → one of the answers to the question in ``predict``."""

    @classmethod
    def parse(cls, text: str) -> LabText:
        """Cut a document. Raises :class:`LabTextError` that names the missing part."""
        head, *parts = re.split(r"^## ", text, flags=re.M)
        title, _, story = head.strip().partition("\n")
        if not title.startswith("# "):
            raise LabTextError("the first line must be '# ' and the title of the lab")
        sections = {name.strip(): body.strip() for name, _, body in (part.partition("\n") for part in parts)}
        missing = [name for name in SECTIONS if not sections.get(name)]
        if missing:
            raise LabTextError(f"no section '## {missing[0]}': a lab has the sections {', '.join(SECTIONS)}")
        unknown = sorted(sections.keys() - set(SECTIONS))
        if unknown:
            raise LabTextError(f"unknown section '## {unknown[0]}': a lab has the sections {', '.join(SECTIONS)}")
        choices = dict(_CHOICE.findall(sections["Predict"]))
        if len(choices) < 2:
            raise LabTextError("'## Predict' needs two lines or more of the form '- a) answer'")
        hints = tuple(" ".join(hint.split()) for hint in _HINT.findall(sections["Hints"]))
        if not hints:
            raise LabTextError("'## Hints' needs a line or more of the form '1. hint'")
        return cls(
            title.removeprefix("# ").strip(),
            story.strip(),
            sections["Predict"],
            sections["Tasks"],
            hints,
            sections["What happened"],
            sections["Sources"],
            choices,
        )


def filled(text: str, values: Mapping[str, str]) -> str:
    """``text`` with ``$bootstrap`` and the other names in ``values`` replaced; ``$`` before another word stays."""
    return Template(text).safe_substitute(values)
