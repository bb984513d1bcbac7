"""The student deletes a key of a compacted topic.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace
from kafkalite.record.records import Record

TOPIC = "prices"
RECORDS = [
    ("tea", "1"),
    ("coffee", "1"),
    ("milk", "1"),
    ("tea", "2"),
    ("coffee", "2"),
    ("milk", "2"),
    ("tea", "3"),
    ("coffee", "3"),
    ("tea", "4"),
]
DELETED = b"milk"
OTHERS = (b"tea", b"coffee")


class DeletedKey:
    """Right: the log has a tombstone of the key and no value of it, and the other keys have their values."""

    chapter = 10
    kind = LabKind.GUIDED
    needs = LabNeeds(properties=(("log.cleaner.backoff.ms", "200"),))

    def prepare(self, workspace: Workspace) -> None:
        """Batches of one record, two of which fit into a segment."""
        config = {"cleanup.policy": "delete", "segment.bytes": "200", "min.cleanable.dirty.ratio": "0.01"}
        workspace.create_topic(TOPIC, config=config)
        workspace.produce(TOPIC, RECORDS, settings={"batch.num.messages": "1"})
        state = workspace.state(TOPIC)
        workspace.note(leader=-1 if state is None else state["leader"])

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the configuration, and at the records in the leader's files."""
        policy = workspace.config(TOPIC).get("cleanup.policy", "delete")
        if policy != "compact":
            why = "With delete, age and size decide, not keys. Set cleanup.policy to compact."
            return [LabFinding(False, f"cleanup.policy is {policy}.", why)]
        records = workspace.files(TOPIC).records()
        milk = [record for record in records if record.key == DELETED]
        values = [record.offset for record in milk if record.value is not None]
        keys = {record.key for record in records}
        lost = [key.decode() for key in OTHERS if key not in keys]
        deleted = bool(milk) and milk[-1].value is None
        why = "The cleaner has not come to them. Is the segment of the tombstone closed?" if deleted else ""
        kept = f"{len(records)} records of {len(keys)} keys are left."
        return [
            LabFinding(True, f"cleanup.policy is {policy}."),
            tombstone(milk),
            LabFinding(
                not values,
                f"Values of milk are in the log, at {values}." if values else "No value of milk is in the log.",
                why if values else "",
            ),
            LabFinding(not lost, kept, f"{', '.join(lost)} should be left: kafkalite learn reset." if lost else ""),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the records of the key that are left."""
        milk = [record for record in workspace.files(TOPIC).records() if record.key == DELETED]
        if not milk:
            return "c"
        return "b" if all(record.value is None for record in milk) else "a"


def tombstone(milk: list[Record]) -> LabFinding:
    """Whether the last record of the key deletes it."""
    if not milk:
        return LabFinding(False, "No record of milk is left.", "The tombstone should be: kafkalite learn reset.")
    last = milk[-1]
    if last.value is None:
        return LabFinding(True, f"The record of milk at offset {last.offset} has no value.")
    why = "Write a record with the key milk and no value."
    if not last.value:
        why = "An empty value is a value. A tombstone has none: --property null.marker=NULL, and milk:NULL."
    return LabFinding(
        False, f"The last record of milk, at offset {last.offset}, has the value {last.value.decode()!r}.", why
    )


LAB = DeletedKey()
