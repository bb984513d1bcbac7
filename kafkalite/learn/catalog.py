"""The labs that exist: the folders of this package, and those of a teacher.

Answers to: nothing in Kafka. Reads files, and runs the ``lab.py`` of each folder that it loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from kafkalite.common.errors import StartupError
from kafkalite.learn.lab import Lab, LabKind
from kafkalite.learn.lab_text import LabText, LabTextError

OWN_LABS = Path(__file__).parent / "labs"
CODE, TEXT = "lab.py", "lab.md"
MOST_BROKERS = 3
_PARTS = ("chapter", "kind", "needs", "prepare", "check", "outcome")


@dataclass(frozen=True, slots=True)
class LoadedLab:
    """A lab with its name and its text."""

    name: str
    lab: Lab
    text: LabText


class Catalog:
    """The labs in ``folders``; each has one folder a lab, with ``lab.py`` and ``lab.md``."""

    def __init__(self, folders: Sequence[Path] = (OWN_LABS,)) -> None:
        self._places: dict[str, Path] = {}
        for folder in folders:
            if not folder.is_dir():
                raise StartupError(f"no folder {folder} with labs")
            for place in sorted(folder.iterdir()):
                if (place / CODE).exists() or (place / TEXT).exists():
                    # A folder of a teacher replaces the lab of the same name, because it comes later.
                    self._places[lab_name(place)] = place

    def names(self) -> list[str]:
        """Names of all labs, in alphabetical order."""
        return sorted(self._places)

    def labs(self) -> list[LoadedLab]:
        """All labs, by chapter, guided ones first. Raises like :meth:`load`."""
        found = [self.load(name) for name in self.names()]
        return sorted(found, key=lambda each: (each.lab.chapter, each.lab.kind != LabKind.GUIDED, each.name))

    def load(self, name: str) -> LoadedLab:
        """One lab. Raises :class:`StartupError` if it does not exist, or with what is wrong with its folder."""
        place = self._places.get(name)
        if place is None:
            raise StartupError(f"no lab {name!r}: kafkalite learn list shows all labs")
        return LoadedLab(name, _code(place), _text(place))


def lab_name(folder: Path) -> str:
    """The name of the lab in ``folder``; underscores, which Python's packages need, become hyphens."""
    return folder.name.replace("_", "-")


def _text(place: Path) -> LabText:
    path = place / TEXT
    try:
        return LabText.parse(path.read_text())
    except (OSError, UnicodeDecodeError, LabTextError) as error:
        raise StartupError(f"{path}: {error}") from None


def _code(place: Path) -> Lab:
    path = place / CODE
    spec = spec_from_file_location(f"kafkalite_lab_{place.name}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise StartupError(f"{path}: the file does not exist")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise StartupError(f"{path}: {type(error).__name__}: {error}") from error
    return _checked(path, module)


def _checked(path: Path, module: ModuleType) -> Lab:
    lab: Lab | None = getattr(module, "LAB", None)
    if lab is None:
        raise StartupError(f"{path}: no LAB, the object with the parts {', '.join(_PARTS)}")
    missing = [part for part in _PARTS if not hasattr(lab, part)]
    if missing:
        raise StartupError(f"{path}: LAB has no {missing[0]}; it needs {', '.join(_PARTS)}")
    if not 1 <= lab.needs.brokers <= MOST_BROKERS:
        raise StartupError(f"{path}: {lab.needs.brokers} brokers; a lab has 1 to {MOST_BROKERS}")
    return lab
