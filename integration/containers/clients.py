"""The clients of a load, in a separate process: ``python -m integration.containers.clients`` and a task as JSON.

The clients start at once and report their progress on standard output, one line of JSON each. A line on standard input
(or its end) ends the load: then all records are read again, and the events are written to a file.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from integration.containers.readers import LeaderOnlooker, Member, OffsetOnlooker, Reader
from integration.containers.recorder import Recorder
from integration.containers.senders import LONG, Client, Probe, Sender, TransactionSender
from kafkalite.testing.history.events import Isolation, ProducerKind

REPORT_EVERY = 0.1
GROUP = "readers"


@dataclass(frozen=True)
class Task:
    """The task of the clients."""

    brokers: dict[int, str]
    """Broker id → address."""
    zookeeper: str
    topic: str
    partitions: int
    seed: str
    """A text, so that the loads of one run can differ."""
    result: str
    """Path of the file of events."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        fields = json.loads(text)
        return cls(**{**fields, "brokers": {int(key): value for key, value in fields["brokers"].items()}})


def writers(task: Task, recorder: Recorder) -> list[Client]:
    """The sending clients: a producer of each kind, one with short timeouts, and a probe of each broker."""
    bootstrap = {"bootstrap.servers": ",".join(task.brokers.values())}
    where = task.topic, task.partitions
    patient = {**bootstrap, "message.timeout.ms": int(LONG * 1000), "request.timeout.ms": 5000}
    # Not idempotent, because librdkafka repeats the records behind one that timed out under another epoch.
    hasty = {**bootstrap, "message.timeout.ms": 2500, "request.timeout.ms": 1500}
    transactional = {**bootstrap, "transactional.id": f"{task.topic}-sender", "request.timeout.ms": 5000}
    plain, idempotent = ProducerKind.PLAIN, ProducerKind.IDEMPOTENT
    return [
        Sender("plain", recorder, plain, *where, patient, rate=250, seed=task.seed),
        Sender("idempotent", recorder, idempotent, *where, patient, rate=250, seed=task.seed),
        Sender("hasty", recorder, plain, *where, hasty, rate=100, seed=task.seed),
        TransactionSender(
            "transactional", recorder, ProducerKind.TRANSACTIONAL, *where, transactional, rate=250, seed=task.seed
        ),
        *(Probe(recorder, broker, address, *where, task.seed) for broker, address in task.brokers.items()),
    ]


def watchers(task: Task, recorder: Recorder) -> list[Client]:
    """The reading clients: consumers of both isolation levels, a group of two members, onlookers."""
    bootstrap, where = ",".join(task.brokers.values()), (task.topic, task.partitions)
    group = f"{task.topic}-{GROUP}"
    return [
        *(Reader(f"live-{i.value}", recorder, bootstrap, *where, i) for i in Isolation),
        *(Member(f"member-{number}", recorder, bootstrap, task.topic, group) for number in (1, 2)),
        *(OffsetOnlooker(f"onlooker-{n}", recorder, bootstrap, *where, group) for n in (1, 2)),
        LeaderOnlooker(recorder, task.zookeeper, *where),
    ]


def report(recorder: Recorder, stopped: threading.Event) -> None:
    """Report the progress until the load ends."""
    while not stopped.wait(REPORT_EVERY):
        numbers = {
            "acknowledged": recorder.acknowledged,
            "refused": dict(recorder.refused),
            "failure": recorder.failure,
        }
        print(json.dumps(numbers), flush=True)


def end(clients: list[Client]) -> None:
    """Stop all clients, and wait for each."""
    for client in clients:
        client.stopping.set()
    deadline = time.monotonic() + LONG
    for client in clients:
        client.join(max(deadline - time.monotonic(), 0.0))
        if client.is_alive():
            raise AssertionError(f"{client.name} does not end")


def main() -> int:
    """Run the clients until a line on standard input; returns the exit code."""
    task = Task.from_json(sys.argv[1])
    recorder = Recorder()
    sending, reading = writers(task, recorder), watchers(task, recorder)
    for client in (*sending, *reading):
        client.start()
    stopped = threading.Event()
    threading.Thread(target=report, args=(recorder, stopped), daemon=True).start()
    if not sys.stdin.readline():
        return 1
    end(sending)
    end(reading)
    bootstrap = ",".join(task.brokers.values())
    last = [
        Reader(f"last-{isolation.value}", recorder, bootstrap, task.topic, task.partitions, isolation)
        for isolation in Isolation
    ]
    # All transactions are decided, so readers of both isolation levels reach the high watermark.
    ends = last[0].ends(task.partitions)
    for reader in last:
        reader.read_to(ends)
        reader.finish()
    if recorder.failure:
        raise AssertionError(recorder.failure)
    recorder.save(Path(task.result))
    stopped.set()
    return 0


if __name__ == "__main__":
    sys.exit(main())
