"""The sink in a hurry to die: its processes kill themselves (-9) once, where a test says."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kafkalite.spark import sink
from kafkalite.spark.client.transactions import Transactions
from kafkalite.spark.decision import End, Known, Record, Step
from kafkalite.spark.sink import Committer, StreamWriter
from kafkalite.spark.sink_options import SinkOptions
from kafkalite.spark.source import KafkaliteDataSource

WRITE, PREPARE, COMMIT = "write", "prepare", "commit"
KILL_DRIVER = "KAFKALITE_KILL_DRIVER"
"""Set in the environment: the driver's JVM dies, too."""
BEFORE, AFTER = "before the decision", "after the decision"


class KillingDataSource(KafkaliteDataSource):
    """``format("kafkalite-killing")`` dies where the file ``kill.file`` says, and removes it first."""

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
        sink.Committer = lambda *given: KillingCommitter(self.file, *given)  # type: ignore[assignment, misc]
        super().commit(messages, batchId)


class KillingCommitter(Committer):
    """Dies before the decision is recorded, after it, or when one of the winners is committed."""

    def __init__(self, file: Path, *given: Any) -> None:
        super().__init__(*given)
        self.file = file

    def perform(self, step: Step, known: Known) -> Known:
        if isinstance(step, Record):
            die(self.file, known.batch_id, BEFORE)
        if isinstance(step, End):
            die(self.file, known.batch_id, AFTER)
            if says(self.file, known.batch_id, COMMIT):
                Transactions(self._cluster).end([step.attempts[0].producer(self._query)], commit=True)
                die(self.file, known.batch_id, COMMIT)
        return super().perform(step, known)


def ask(file: Path, batch_id: int, point: str) -> None:
    """Wish that something dies there."""
    file.write_text(f"{batch_id} {point}")


def says(file: Path, batch_id: int, point: str) -> bool:
    """Whether somebody wishes it here."""
    return file.exists() and file.read_text() == f"{batch_id} {point}"


def die(file: Path, batch_id: int, point: str) -> None:
    """Die here, if somebody wishes it; only one of several does."""
    if says(file, batch_id, point):
        try:
            file.unlink()
        except FileNotFoundError:
            return
        if KILL_DRIVER in os.environ:
            os.kill(driver(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def driver() -> int:
    """The JVM that this process works for."""
    pid = os.getppid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid
