"""An application that reads records and does something with each, committing in one of three ways. Its own process.

``python -m integration.faults.reader_application '{json}'`` (a :class:`ReaderTask`). What it does with a record is to
write its value on a line of a file, which is there for whoever comes after its death. It dies where its task says so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

COMMIT_FIRST, WORK_FIRST, AUTOMATIC = "commit first", "work first", "automatic"
HANDED, DONE, COMMITTED = "handed", "done", "committed"
"""Of each record: in the application's hands, done with, committed."""
PATIENCE = 30.0
ALL_DONE = 0


@dataclass(frozen=True)
class ReaderTask:
    """What to do. ``total``: with so many lines in the file, or at the topic's end, it ends in order."""

    bootstrap: str
    topic: str
    group: str
    way: str
    file: str
    last: str
    """The value of the last record: after it there is nothing more to do."""
    interval_ms: int = 100
    at: str = ""
    """The moment of death, of the record with the value :attr:`value`."""
    value: str = ""

    def run(self) -> int:
        """Run it to its end, or its death: the exit code."""
        command = [sys.executable, "-m", "integration.faults.reader_application", json.dumps(asdict(self))]
        return subprocess.run(command, stdin=subprocess.DEVNULL, timeout=120, check=False).returncode

    def done(self) -> list[str]:
        """What has been done so far, by all who wrote to the file."""
        return Path(self.file).read_text().split()


class Reader:
    """The application."""

    def __init__(self, task: ReaderTask) -> None:
        self._task = task
        self._consumer = Consumer(
            {
                "bootstrap.servers": task.bootstrap,
                "group.id": task.group,
                "enable.auto.commit": task.way == AUTOMATIC,
                "auto.commit.interval.ms": task.interval_ms,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        # Nobody else is in the group: no need to wait until a dead member is missed.
        self._consumer.assign([TopicPartition(task.topic, 0)])

    def run(self) -> None:
        """Until the last record is done."""
        steps: dict[str, list[Callable[[Any], None]]] = {
            COMMIT_FIRST: [self._commit, self._work],
            WORK_FIRST: [self._work, self._commit],
            AUTOMATIC: [self._work],
        }
        while True:
            message = self._consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            self._moment(HANDED, message)
            for step in steps[self._task.way]:
                step(message)
            if message.value().decode() == self._task.last:
                self._consumer.close()  # which commits what is to be committed by itself
                return

    def _work(self, message: Any) -> None:
        with Path(self._task.file).open("ab") as file:
            file.write(message.value() + b"\n")
        self._moment(DONE, message)

    def _commit(self, message: Any) -> None:
        self._consumer.commit(message=message, asynchronous=False)
        self._moment(COMMITTED, message)

    def _moment(self, name: str, message: Any) -> None:
        if name != self._task.at or message.value().decode() != self._task.value:
            return
        if self._task.way == AUTOMATIC and name == HANDED:
            self._await_automatic_commit(message)
        os.kill(os.getpid(), signal.SIGKILL)

    def _await_automatic_commit(self, message: Any) -> None:
        """The worst moment: the client commits by itself while we have not yet begun to work."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            (found,) = self._consumer.committed([TopicPartition(self._task.topic, 0)], timeout=PATIENCE)
            if found.offset > message.offset():
                return
            time.sleep(0.02)


def main(text: str) -> None:
    """Run the application."""
    Reader(ReaderTask(**json.loads(text))).run()


if __name__ == "__main__":
    main(sys.argv[1])
