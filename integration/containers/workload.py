"""The load on a topic: a process with all clients, which the test starts and ends, and whose history it checks."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from integration.containers.clients import Task
from integration.containers.recorder import decode, load
from integration.containers.system import System
from integration.harness.wait import wait_for
from kafkalite.record.batch import CorruptRecordError, iter_headers
from kafkalite.record.records import iter_records
from kafkalite.testing.history.checker import check
from kafkalite.testing.history.events import Event, LogEntry, RecordId, Replica

PATIENCE = 240.0
"""Seconds that a busy machine may need for work of a few seconds."""


class Load:
    """Clients of every kind, from :meth:`start` to :meth:`finish`."""

    def __init__(self, system: System, topic: str, partitions: int, seed: str) -> None:
        self.topic = topic
        self.partitions = partitions
        self.system = system
        self._events = system.directory / f"{topic}.events"
        brokers = {broker: system.address(broker) for broker in system.broker_ids}
        self._task = Task(brokers, system.zookeeper, topic, partitions, seed, str(self._events))
        self._errors = system.directory / f"{topic}.err"
        self._process: subprocess.Popen[str] | None = None
        self._acknowledged = 0
        self._refused: Counter[str] = Counter()
        self._failure = ""

    def start(self) -> None:
        """Start the clients; returns when the first records are acknowledged."""
        command = [sys.executable, "-m", "integration.containers.clients", self._task.to_json()]
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=Path(__file__).resolve().parents[2],
            )
        threading.Thread(target=self._listen, daemon=True).start()
        self.wait_more(100)

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self._acknowledged

    def refused(self, broker: int, partition: int | None = None) -> Counter[str]:
        """The errors of ``broker`` for a probe's records: error → how often."""
        found: Counter[str] = Counter()
        for key, count in self._refused.items():
            who, where, error = key.split()
            if int(who) == broker and partition in (None, int(where.rpartition("-")[2])):
                found[error] += count
        return found

    def wait_more(self, records: int) -> None:
        """Wait until ``records`` more records are acknowledged."""
        target = self._acknowledged + records
        self.wait_until(lambda: self._acknowledged >= target, f"{records} more records are acknowledged")

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for ``condition``. Raises ``AssertionError`` if a client fails meanwhile."""

        def seen() -> bool:
            assert self._process is not None
            assert self._process.poll() is None and not self._failure, self._complaint()
            return bool(condition())

        wait_for(seen, what, PATIENCE, 0.1)

    def finish(self) -> list[Event]:
        """End the load; returns the events of the clients and the contents of the replicas."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write("end\n")
        self._process.stdin.close()
        assert self._process.wait(PATIENCE) == 0, self._complaint()
        return [*load(self._events), *replicas(self.system, self.topic, self.partitions)]

    def forget(self) -> None:
        """Remove the file of the history, because no violation has to be explained by it."""
        self._events.unlink()

    def close(self) -> None:
        """Kill the process of the clients, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self._refused = Counter(said["refused"])
            self._failure = said["failure"]
            self._acknowledged = said["acknowledged"]

    def _complaint(self) -> str:
        return f"the clients failed: {self._failure}\n{self._errors.read_text()[-3000:]}"


def replicas(system: System, topic: str, partitions: int) -> list[Replica]:
    """The contents of all replicas, once they have equal numbers of records (or after a timeout)."""

    def read() -> list[Replica]:
        return [
            Replica(name, broker, entries(system.data_dir(broker) / name))
            for name in (f"{topic}-{partition}" for partition in range(partitions))
            for broker in system.broker_ids
        ]

    def alike() -> bool:
        ends = {(replica.partition, len(replica.entries)) for replica in read()}
        return len(ends) == partitions

    try:
        wait_for(alike, "the replicas are alike", 30.0, 0.5)
    except AssertionError:
        pass  # the checker reports the differences
    return read()


def entries(folder: Path) -> tuple[LogEntry, ...]:
    """All records of a partition's segments. Raises ``LookupError`` while a batch is only partly written."""
    found = []
    for segment in sorted(folder.glob("*.log")):
        data = memoryview(segment.read_bytes())
        try:
            for position, header in iter_headers(data):
                for record in iter_records(data, header, position):
                    known = decode(bytes(record.value or b"")) or RecordId("nobody", record.offset)
                    mine = None if header.is_control else known
                    found.append(LogEntry(record.offset, header.leader_epoch, mine, header.crc))
        except CorruptRecordError as error:
            raise LookupError(f"{segment}: {error}") from error
    return tuple(found)


def judge(history: list[Event]) -> str:
    """Check the history; returns the number of events of each kind. Raises ``AssertionError`` with all violations."""
    breaches = check(history)
    assert not breaches, f"{len(breaches)} breaches:\n" + "\n".join(map(str, breaches))
    kinds = Counter(type(event).__name__ for event in history)
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common(8))
