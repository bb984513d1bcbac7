"""An application in a separate process that reads records, handles each, and commits in one of three ways.

``python -m integration.faults.reader_application '{json}'`` (a :class:`ReaderTask`). To handle a record means to write
its value to a line of a file, which outlives the application. The task may name a moment at which the application dies.
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

from integration.harness.logins import login

COMMIT_FIRST, WORK_FIRST, AUTOMATIC = "commit first", "work first", "automatic"
HANDED, DONE, COMMITTED = "handed", "done", "committed"
"""Moments of each record: passed to the application, handled, committed."""
PATIENCE = 120.0
ALL_DONE = 0


@dataclass(frozen=True)
class ReaderTask:
    """The task. ``total``: the application ends cleanly when the file has so many lines, or at the end of the topic."""

    bootstrap: str
    topic: str
    group: str
    way: str
    file: str
    last: str
    """The value of the last record; the application ends after it."""
    interval_ms: int = 100
    at: str = ""
    """The moment of death, of the record with the value :attr:`value`."""
    value: str = ""

    def run(self) -> int:
        """Run the application to its end or its death; returns the exit code."""
        command = [sys.executable, "-m", "integration.faults.reader_application", json.dumps(asdict(self))]
        return subprocess.run(command, stdin=subprocess.DEVNULL, timeout=120, check=False).returncode

    def done(self) -> list[str]:
        """The handled values so far, of all applications that wrote to the file."""
        return Path(self.file).read_text().split()


class Reader:
    """The application."""

    def __init__(self, task: ReaderTask) -> None:
        self._task = task
        self._consumer = Consumer(
            {
                **login(task.bootstrap),
                "group.id": task.group,
                "enable.auto.commit": task.way == AUTOMATIC,
                "auto.commit.interval.ms": task.interval_ms,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        # Assigned, not subscribed, because a subscription would wait for the session of a dead predecessor.
        self._consumer.assign([TopicPartition(task.topic, 0)])

    def run(self) -> None:
        """Run until the last record is handled."""
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
                self._consumer.close()  # this makes the last automatic commit
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
        """Wait until the client has committed automatically before the application handles the record."""
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
