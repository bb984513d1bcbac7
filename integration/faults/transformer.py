"""An exactly-once application in a separate process: it consumes, transforms and produces, and tests kill it.

``python -m integration.faults.transformer '{json}'`` (a :class:`Task`) reads records of one topic, writes for each a
record to the same partition of another, and commits its offsets in the same transaction. It reports each moment as one
line of JSON on its output. A task may name a moment of a transaction at which the application kills or stops itself, so
that a test hits that moment exactly.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from integration.harness.logins import login

STARTED, READY = "started", "ready"
BEGUN, PRODUCED, STAGED, COMMITTED = "begun", "produced", "staged", "committed"
MOMENTS = (BEGUN, PRODUCED, STAGED, COMMITTED)
"""Moments of each transaction: begun; its records are in the log; its offsets are staged; committed."""
FENCED = 3
"""Exit code of an application that was fenced."""
PATIENCE = 120.0


@dataclass(frozen=True)
class Task:
    """The task. ``instance``: the group instance id; empty for a dynamic member."""

    bootstrap: str
    source: str
    target: str
    group: str
    transactional_id: str
    instance: str = ""
    batch: int = 150
    seed: int = 0
    session_timeout_ms: int = 6000
    transaction_timeout_ms: int = 10000
    at: str = ""
    """The moment at which to send itself :attr:`signal`, in transaction number :attr:`number` (from 1)."""
    number: int = 1
    signal: int = int(signal.SIGKILL)
    last: int = -1
    """The number of its last transaction; -1: there is none."""

    def command(self) -> list[str]:
        """The command that starts the application."""
        return [sys.executable, "-m", "integration.faults.transformer", json.dumps(asdict(self))]


def result_of(partition: int, offset: int, value: bytes) -> bytes:
    """The result for a record: its partition, its offset, and its value reversed."""
    return b"%d:%d:" % (partition, offset) + value[::-1]


class FencedError(Exception):
    """Another application with the same transactional id has started."""


class Transformer:
    """The application."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._chance = random.Random(task.seed)
        self._transactions = 0
        self._ending = False
        common = {
            **login(task.bootstrap),
            "client.id": task.transactional_id,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
        }
        self._producer = Producer(
            {
                **common,
                "transactional.id": task.transactional_id,
                "transaction.timeout.ms": task.transaction_timeout_ms,
                "retry.backoff.ms": 50,
                "linger.ms": 2,
                # librdkafka waits for ever for a dead group coordinator in send_offsets_to_transaction, until the state
                # of any connection changes: https://github.com/confluentinc/librdkafka/issues/5511
                "connections.max.idle.ms": 1000,
            }
        )
        named = {"group.instance.id": task.instance} if task.instance else {}
        self._consumer = Consumer(
            {
                **common,
                "group.id": task.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": task.session_timeout_ms,
                "heartbeat.interval.ms": 300,
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 50,
                **named,
            }
        )

    def run(self) -> None:
        """Run to the last transaction, or to SIGTERM. Raises :class:`FencedError`."""
        signal.signal(signal.SIGTERM, self._end)
        say(STARTED)
        # Before joining the group, because this aborts the open transaction of the predecessor.
        self._persist(lambda: self._producer.init_transactions(PATIENCE))
        say(READY)
        self._consumer.subscribe([self._task.source])
        while not self._ending and self._transactions != self._task.last:
            messages = self._consumer.consume(self._chance.randrange(1, self._task.batch + 1), 0.1)
            records = [message for message in messages if message.error() is None]
            for message in messages:
                if message.error() is not None and message.error().fatal():
                    raise FencedError(message.error().str())
            if records:
                self._transact(records)
        self._consumer.close()

    def _end(self, *_: object) -> None:
        self._ending = True

    def _transact(self, records: list[Any]) -> None:
        self._transactions += 1
        try:
            self._producer.begin_transaction()
            self._moment(BEGUN)
            for record in records:
                value = result_of(record.partition(), record.offset(), record.value())
                self._producer.produce(self._task.target, value, partition=record.partition())
            if self._task.at == PRODUCED and self._task.number == self._transactions:
                self._producer.flush(PATIENCE)
            self._moment(PRODUCED)
            ends = {record.partition(): record.offset() + 1 for record in records}
            offsets = [TopicPartition(self._task.source, partition, end) for partition, end in ends.items()]
            group = self._consumer.consumer_group_metadata()
            self._persist(lambda: self._producer.send_offsets_to_transaction(offsets, group, PATIENCE))
            self._moment(STAGED)
            self._persist(lambda: self._producer.commit_transaction(PATIENCE))
            self._moment(COMMITTED)
        except KafkaException as error:
            self._give_up(error.args[0])

    def _give_up(self, error: Any) -> None:
        """Abort, and seek to the committed offsets."""
        say("aborting", error.str())
        if error.fatal():
            raise FencedError(error.str())
        try:
            self._persist(lambda: self._producer.abort_transaction(PATIENCE))
        except KafkaException as abort:
            if abort.args[0].fatal():
                raise FencedError(abort.args[0].str()) from None
            raise
        assignment = self._consumer.assignment()
        for partition in self._consumer.committed(assignment, PATIENCE) if assignment else []:
            if partition.offset < 0:
                partition.offset = OFFSET_BEGINNING
            try:
                self._consumer.seek(partition)
            except KafkaException as refused:
                if refused.args[0].code() != KafkaError._STATE:  # the partition has just been revoked
                    raise

    def _persist(self, act: Any) -> None:
        """Call ``act``; repeat it after a retriable error."""
        while True:
            try:
                act()
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _moment(self, name: str) -> None:
        say(name, self._transactions)
        if name == self._task.at and self._transactions == self._task.number:
            os.kill(os.getpid(), self._task.signal)


def say(what: str, detail: object = None) -> None:
    """Report to the test."""
    sys.stdout.write(json.dumps([what, detail]) + "\n")
    sys.stdout.flush()


def main(text: str) -> int:
    """Run the application; its exit code."""
    transformer = Transformer(Task(**json.loads(text)))
    try:
        transformer.run()
        return 0
    except FencedError as error:
        say("fenced", str(error))
    except KafkaException as error:
        if not error.args[0].fatal():
            raise
        say("fenced", str(error))
    return FENCED


if __name__ == "__main__":
    code = main(sys.argv[1])
    # Exit without the consumer's destructor, because that would leave the group, and a fenced application must not.
    sys.stdout.flush()
    os._exit(code)
