"""The student finds an offset beyond the end of the log.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import TIMEOUT, Workspace

TOPIC = "parcels"
RECORDS = 10
BEYOND = 1000
GROUP = "sorters"


class SilentGroup:
    """Right: the group stands at the first record, and the log is as it was."""

    chapter = 8
    kind = LabKind.PUZZLE
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """Ten records, and an offset far behind them."""
        workspace.create_topic(TOPIC)
        workspace.produce(TOPIC, [(None, f"parcel {number}") for number in range(RECORDS)])
        workspace.commit(GROUP, TOPIC, BEYOND)

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the offset in ZooKeeper with the log."""
        offset, (_, end) = workspace.committed(GROUP, TOPIC), workspace.bounds(TOPIC)
        why = ""
        if offset is None:
            why = "Without an offset, auto.offset.reset decides, which is latest: commit one."
        elif offset > end:
            why = f"The log ends at {end}: there is no record at that offset to read."
        elif offset > 0:
            why = f"The records 0 to {offset - 1} are not read from there."
        grown = end != RECORDS
        return [
            LabFinding(offset == 0, f"The offset of {GROUP} is {offset}.", why),
            LabFinding(
                not grown, f"The log ends at {end}.", "Records were produced: begin again by reset." if grown else ""
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """Have a consumer begin beyond the end, and see where it goes."""
        consumer = Consumer(
            {
                **workspace.login(),
                "group.id": f"{GROUP}-outcome",
                "auto.offset.reset": "latest",
                "enable.auto.commit": "false",
                "enable.partition.eof": "true",
            }
        )
        place = TopicPartition(TOPIC, 0, BEYOND)
        try:
            consumer.assign([place])
            message = consumer.poll(TIMEOUT)
        finally:
            consumer.close()
        error = None if message is None else message.error()
        if message is None or (error is not None and error.code() != KafkaError._PARTITION_EOF):
            return "a"
        return "b" if error is not None and message.offset() == RECORDS else "c"


LAB = SilentGroup()
