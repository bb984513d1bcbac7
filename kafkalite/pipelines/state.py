"""The state of a pipeline on this machine: its folder, whether it runs, and its last reported progress.

Answers to: ``org.apache.kafka.connect.storage.{FileOffsetBackingStore,StatusBackingStore}``. Shell (files).

A folder has ``lock`` (held while the pipeline runs, by the process whose id is in ``status.json``), ``status.json``,
``checkpoints/`` (one folder a query: Spark's), ``run.log`` (of a run in the background) and ``spark.log``.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from kafkalite.pipelines.errors import PipelineError


class RunState(StrEnum):
    """The state of a run."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    DIED = "died"


_GLANCE = 0.5
"""Seconds within which a process that only looks whether a pipeline runs has released its lock."""
_ALIVE = (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)


@dataclass
class QueryStatus:
    """One query of a run. ``rows`` are those of this run, ``bad`` those of them that did not fit the schema; ``lag`` is
    in records (of topics) or bytes (of files), ``None`` if unknown; times in seconds since 1970."""

    rows: int = 0
    rate: float = 0.0
    batch: int = -1
    bad: int = 0
    lag: int | None = None
    at: float = 0.0


@dataclass
class PipelineStatus:
    """A run, or the last one."""

    name: str
    job: str
    file: str
    pid: int
    state: RunState = RunState.STARTING
    master: str = ""
    started: float = field(default_factory=time.time)
    ended: float | None = None
    error: str | None = None
    queries: dict[str, QueryStatus] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PipelineStatus:
        """The inverse of ``dataclasses.asdict``; unknown keys of other versions are ignored."""
        known = {each.name for each in fields(cls)}
        given = {key: each for key, each in value.items() if key in known}
        queries = {name: QueryStatus(**query) for name, query in given.pop("queries", {}).items()}
        return cls(**{**given, "state": RunState(given["state"]), "queries": queries})


def default_base() -> Path:
    """Where the folders of all pipelines are: ``KAFKALITE_STATE``, else below the home directory."""
    told = os.environ.get("KAFKALITE_STATE")
    return Path(told) if told else Path.home() / ".local" / "state" / "kafkalite" / "pipelines"


class PipelineState:
    """The folder of one pipeline."""

    def __init__(self, base: Path, name: str) -> None:
        self.name = name
        self.path = base / name
        self._file = self.path / "status.json"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Lock the pipeline for this process. Raises :class:`PipelineError` if another process has it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
            deadline = time.monotonic() + _GLANCE
            while not _try_lock(lock, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    status = self.read()
                    pid = f" (process {status.pid})" if status is not None else ""
                    raise PipelineError(f"pipeline '{self.name}' is running{pid}: kafkalite pipeline stop {self.name}")
                time.sleep(_GLANCE / 50)
            yield

    def is_running(self) -> bool:
        """Whether some process holds the pipeline."""
        try:
            with (self.path / "lock").open() as lock:
                return not _try_lock(lock, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    def wait_for_end(self) -> None:
        """Wait until no process holds the pipeline."""
        with (self.path / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

    def read(self) -> PipelineStatus | None:
        """The last run's status; ``None`` if there was none. A run that ended without a final status has died."""
        try:
            status = PipelineStatus.from_json(json.loads(self._file.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise PipelineError(f"{self._file} is damaged: remove it") from None
        if status.state in _ALIVE and not self.is_running():
            # Read again, because it may have written its final status since.
            status = PipelineStatus.from_json(json.loads(self._file.read_text()))
            if status.state in _ALIVE:
                status.state = RunState.DIED
        return status

    def write(self, status: PipelineStatus) -> None:
        """Write the status of the run."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(status), indent=2))
        fresh.replace(self._file)


def _try_lock(lock: TextIO, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def all_pipelines(base: Path) -> list[PipelineState]:
    """Every pipeline that has run on this machine, by name."""
    return [PipelineState(base, file.parent.name) for file in sorted(base.glob("*/status.json"))]
