"""A sink whose processes kill themselves (-9) once, or wait for a kill, at a point that a test chooses."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kafkalite.spark import exactly_once
from kafkalite.spark.client.transactions import TransactionClient
from kafkalite.spark.decision import End, Known, RecordDecision, Step
from kafkalite.spark.exactly_once import Committer
from kafkalite.spark.sink_options import SinkOptions
from kafkalite.spark.source import KafkaliteDataSource
from kafkalite.spark.writers import StreamWriter

WRITE, PREPARE, COMMIT = "write", "prepare", "commit"
BEFORE, AFTER = "before the decision", "after the decision"
PROCESS, JVM, WAIT = "process", "JVM", "wait"
"""What a process does at the point: it dies; its JVM dies, too; or it waits for its driver's death."""


class KillingDataSource(KafkaliteDataSource):
    """``format("kafkalite-killing")``: dies at the point in the file ``kill.file``, and renames the file before."""

    @classmethod
    def name(cls) -> str:
        return "kafkalite-killing"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  (Spark's name)
        writer = super().streamWriter(schema, overwrite)
        return KillingWriter(writer.options, Path(self.options["kill.file"]))


class KillingWriter(StreamWriter):
    """Tasks die in the middle of their rows or after them; a commit dies before or after the decision, or between the
    commits of two attempts."""

    def __init__(self, options: SinkOptions, file: Path) -> None:
        super().__init__(options)
        self.file = file

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        batch_id = int(str(context.getLocalProperty("streaming.sql.batchId")))

        def dying() -> Iterator[Any]:
            for number, batch in enumerate(iterator):
                if number:
                    die(self.file, batch_id, WRITE)
                yield batch

        message = super().write(dying())
        die(self.file, batch_id, PREPARE)
        return message

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  (Spark's name)
        exactly_once.Committer = lambda *given: KillingCommitter(self.file, *given)  # type: ignore[assignment, misc]
        super().commit(messages, batchId)


class KillingCommitter(Committer):
    """Dies before the decision is recorded, after it, or when one of the decided attempts is committed."""

    def __init__(self, file: Path, *given: Any) -> None:
        super().__init__(*given)
        self.file = file

    def perform(self, step: Step, known: Known) -> Known:
        if isinstance(step, RecordDecision):
            die(self.file, known.batch_id, BEFORE)
        if isinstance(step, End):
            die(self.file, known.batch_id, AFTER)
            if wished(self.file, known.batch_id, COMMIT):
                TransactionClient(self._cluster).end([step.attempts[0].producer(self._query)], commit=True)
                die(self.file, known.batch_id, COMMIT)
        return super().perform(step, known)


def ask(file: Path, batch_id: int, point: str, how: str = PROCESS) -> None:
    """Request a death at ``point`` of batch ``batch_id``."""
    file.write_text(f"{batch_id} {point}: {how}")


def wished(file: Path, batch_id: int, point: str) -> str:
    """The kind of death requested for this point; empty without a request."""
    try:
        where, _, how = file.read_text().partition(": ")
    except FileNotFoundError:
        return ""
    return how if where == f"{batch_id} {point}" else ""


def reached(file: Path) -> Path:
    """The file that exists once the request in ``file`` was carried out."""
    return file.with_suffix(".reached")


def die(file: Path, batch_id: int, point: str) -> None:
    """Die if this is the requested point; only one of several processes dies."""
    how = wished(file, batch_id, point)
    if not how:
        return
    try:
        file.rename(reached(file))
    except FileNotFoundError:
        return
    if how == WAIT:
        signal.pause()
    if how == JVM:
        next(each for each in psutil.Process().parents() if each.name() == "java").kill()
    os.kill(os.getpid(), signal.SIGKILL)
