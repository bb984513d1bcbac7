"""A member of a consumer group that reads and commits until it is told to end.

``python -m integration.endurance.member BOOTSTRAP GROUP TOPIC`` runs a member in a separate process that can be killed.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, KafkaException

from integration.faults.worker import Worker

COMMIT_INTERVAL = 1.0
POLL = 0.2


class Member(Worker):
    """A member with librdkafka's consumer that polls, and commits its positions each second."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str = "range") -> None:
        super().__init__(f"member of {group}")
        self.read = self.commits = 0
        self._committed = time.monotonic()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10000,
                "partition.assignment.strategy": strategy,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def step(self) -> None:
        """Read the fetched records; commit when a commit is due."""
        self.read += sum(message.error() is None for message in self._consumer.consume(1000, timeout=POLL))
        if time.monotonic() - self._committed > COMMIT_INTERVAL:
            self._commit()

    def finish(self) -> None:
        """Commit and leave."""
        self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        self._committed = time.monotonic()
        try:
            self._consumer.commit(asynchronous=False)
            self.commits += 1
        except KafkaException:
            pass  # nothing new, a rebalance, or a coordinator that is moving: the next commit covers this one


if __name__ == "__main__":
    member = Member(*sys.argv[1:])
    member.start()
    member.join()
