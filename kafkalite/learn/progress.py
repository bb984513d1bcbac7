"""How far a student is: ``progress.json`` in the state directory.

Answers to: nothing in Kafka. Blocking: files.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kafkalite.common.errors import StartupError
from kafkalite.embedded.whole_files import write_whole

FILE = "progress.json"
VARIABLE = "KAFKALITE_LEARN_STATE"


@dataclass(slots=True)
class LabProgress:
    """One lab of one student. Times are UTC, in ISO 8601; empty: not yet."""

    started: str = ""
    done: str = ""
    prediction: str = ""
    """Letter of the present attempt."""
    came_true: bool | None = None
    """Whether the prediction of the attempt that was done first was right."""
    checks: int = 0
    hints: int = 0


@dataclass(slots=True)
class Progress:
    """All labs of one student. ``current`` is the lab that was started last and not stopped."""

    path: Path
    current: str = ""
    labs: dict[str, LabProgress] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> Progress:
        """The progress in ``directory``; empty without the file. Raises :class:`StartupError` if it is damaged."""
        path = directory / FILE
        try:
            value = json.loads(path.read_text())
            labs = {name: LabProgress(**each) for name, each in value["labs"].items()}
            return cls(path, str(value["current"]), labs)
        except FileNotFoundError:
            return cls(path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StartupError(f"{path} is damaged ({error}): mend it, or delete it to begin from nothing") from None

    def of(self, name: str) -> LabProgress:
        """The progress of one lab, new if the lab was never started."""
        return self.labs.setdefault(name, LabProgress())

    def write(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        labs = {name: asdict(each) for name, each in sorted(self.labs.items())}
        write_whole(self.path, json.dumps({"current": self.current, "labs": labs}, indent=2) + "\n")


def state_directory(given: Path | None) -> Path:
    """``given``, else ``$KAFKALITE_LEARN_STATE``, else the user's state directory (XDG Base Directory)."""
    if given is not None:
        return given.absolute()
    variable = os.environ.get(VARIABLE)
    if variable:
        return Path(variable).absolute()
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "kafkalite" / "learn"


def now() -> str:
    """The present time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
