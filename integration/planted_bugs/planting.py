"""Copies of the package with one bug planted. Answers to: the mutants of mutation testing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import kafkalite
from integration.planted_bugs.bug import PlantedBug

PACKAGE = Path(kafkalite.__file__).parent


class NotPlantedError(Exception):
    """The package does not contain the text once, so the bug must be adapted to a change of the package."""


def planted_texts(bug: PlantedBug, package: Path = PACKAGE) -> Mapping[str, str]:
    """The changed files of ``package`` with ``bug`` in them: path within it → text. Raises :class:`NotPlantedError`."""
    texts: dict[str, str] = {}
    for file, old, new in bug.edits:
        text = texts.get(file) or (package / file).read_text("utf-8")
        if text.count(old) != 1:
            raise NotPlantedError(f"{bug.name}: {file} has {text.count(old)} times, not once:\n{old}")
        texts[file] = text.replace(old, new)
    return texts


def plant(bug: PlantedBug, folder: Path) -> None:
    """Make a copy of the package in ``folder``, with ``bug`` in it. Raises :class:`NotPlantedError`."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in planted_texts(bug).items():
        (folder / PACKAGE.name / file).write_text(text, "utf-8")
