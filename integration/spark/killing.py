"""The sink in a hurry to die: its processes kill themselves (-9) once, or wait to be killed, where a test says."""

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
"""What happens there: the Python process dies; the JVM that it works for, too; or it waits for its driver's death."""


class KillingDataSource(KafkaliteDataSource):
    """``format("kafkalite-killing")`` dies where the file ``kill.file`` says, and renames it first."""

    @classmethod
    def name(cls) -> str:
        return "kafkalite-killing"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  (Spark's name)
        writer = super().streamWriter(schema, overwrite)
        return KillingWriter(writer.options, Path(self.options["kill.file"]))


class KillingWriter(StreamWriter):
    """Tasks die in the middle of their rows or after them; commits around the decision, or between two winners."""

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
    """Dies before the decision is recorded, after it, or when one of the winners is committed."""

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
    """Wish that something dies there."""
    file.write_text(f"{batch_id} {point}: {how}")


def wished(file: Path, batch_id: int, point: str) -> str:
    """How somebody wishes it to die here; empty: nobody does."""
    try:
        where, _, how = file.read_text().partition(": ")
    except FileNotFoundError:
        return ""
    return how if where == f"{batch_id} {point}" else ""


def reached(file: Path) -> Path:
    """There when the wish of ``file`` came true."""
    return file.with_suffix(".reached")


def die(file: Path, batch_id: int, point: str) -> None:
    """Die here, if somebody wishes it; only one of several does."""
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
