"""Applications in separate processes that tests start, watch and kill, and the results that they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from integration.faults.transformer import READY, STARTED, Task, result_of
from integration.faults.worker import Worker
from integration.harness.logins import login
from integration.harness.wait import PATIENCE, wait_for

Source = tuple[int, int]
"""Position of an input: partition, offset."""
MOST_BREACHES = 20


class Application:
    """A running transformer, and its reports."""

    def __init__(self, task: Task, log: Path) -> None:
        self.task = task
        self.said: list[tuple[str, Any]] = []
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                task.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, name="application", daemon=True)
        self._reader.start()

    def count(self, what: str) -> int:
        """Number of reports ``what``."""
        return sum(1 for said, _ in list(self.said) if said == what)

    def wait(self, what: str, count: int = 1, timeout: float = PATIENCE) -> None:
        """Wait until the application has reported ``what`` ``count`` times, or has ended."""
        wait_for(lambda: self.count(what) >= count or not self.alive(), f"the application has {what}", timeout, 0.005)
        assert self.count(what) >= count, f"it ended with {self._process.returncode} after {self.said[-5:]}"

    def wait_next(self, what: str, timeout: float = PATIENCE) -> None:
        """Wait for another report ``what``; a report that comes once may have come already."""
        seen = self.count(what)
        self.wait(what, max(1, seen) if what in (STARTED, READY) else seen + 1, timeout)

    def wait_end(self, timeout: float = PATIENCE) -> int:
        """Wait for the end of the application; returns its exit code."""
        code = self._process.wait(timeout)
        self._reader.join(10)
        return code

    def wait_stopped(self, timeout: float = PATIENCE) -> None:
        """Wait until the application has stopped itself (SIGSTOP)."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the application stops", timeout, 0.005)

    def alive(self) -> bool:
        """Whether the application runs."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self.alive():
            os.kill(self._process.pid, number)

    def end(self) -> None:
        """Send SIGTERM: the application ends after its transaction."""
        self.signal(signal.SIGTERM)
        assert self.wait_end() == 0, self.said[-5:]

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, detail = json.loads(line)
            self.said.append((what, detail))


class ResultReader(Worker):
    """A ``read_committed`` consumer of the results, which must see each input's result exactly once."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self.seen: Counter[Source] = Counter()
        self.breaches: list[str] = []
        self.values: dict[Source, bytes] = {}
        self._last: dict[int, int] = {}
        self._consumer = Consumer(
            {
                **login(bootstrap),
                "group.id": "results",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def step(self) -> None:
        """Poll once."""
        for message in self._consumer.consume(1000, 0.1):
            if message.error() is None:
                self._take(message.partition(), message.value())

    def finish(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _take(self, partition: int, value: bytes) -> None:
        source_partition, offset, _ = value.split(b":", 2)
        source = int(source_partition), int(offset)
        self.seen[source] += 1
        self.values[source] = value
        if self.seen[source] > 1:
            self._breach(f"{self.name}: the result of {source} came {self.seen[source]} times")
        elif source[0] != partition or source[1] < self._last.get(partition, -1):
            self._breach(f"{self.name}: the result of {source} stands in {partition} after {self._last.get(partition)}")
        self._last[partition] = source[1]

    def _breach(self, text: str) -> None:
        if len(self.breaches) < MOST_BREACHES:
            self.breaches.append(text)

    def wait_all(self, inputs: Mapping[Source, bytes], timeout: float) -> None:
        """Wait for every input's result and compare the results with the inputs. Raises ``AssertionError``."""

        def all_came() -> bool:
            if self.failure is not None:
                raise self.failure
            assert not self.breaches, "\n".join(self.breaches)
            return len(self.seen) >= len(inputs)

        try:
            wait_for(all_came, f"{self.name}: {len(inputs)} results", timeout)
        except AssertionError as error:
            missing = sorted(set(inputs) - set(self.seen))
            raise AssertionError(f"{error}; {len(missing)} are missing, first {missing[:5]}") from None
        assert self.seen == Counter(dict.fromkeys(inputs, 1))
        wrong = [source for source, value in inputs.items() if self.values[source] != result_of(*source, value)]
        assert not wrong, f"wrong results of {wrong[:5]}"
