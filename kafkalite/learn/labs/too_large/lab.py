"""The student compresses a record that is too large.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "letters"
LIMIT = 500
WANTED = 5000


class TooLarge:
    """Right: the limit is as it was, and the log has a large value."""

    chapter = 7
    kind = LabKind.PUZZLE
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """A topic with a low limit."""
        workspace.create_topic(TOPIC, config={"max.message.bytes": str(LIMIT)})

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the configuration in ZooKeeper and at the records."""
        config = workspace.tree.get(f"/config/topics/{TOPIC}") or b""
        kept = f'"max.message.bytes":"{LIMIT}"'.encode() in config.replace(b" ", b"")
        why = "" if kept else f"Set max.message.bytes to {LIMIT} again: another way is asked for."
        largest = max((len(record.value or b"") for record in workspace.files(TOPIC).records()), default=0)
        right = largest >= WANTED
        return [
            LabFinding(kept, f"max.message.bytes is {'as it was' if kept else 'changed'}.", why),
            LabFinding(
                right,
                f"The largest value in the log has {largest} bytes.",
                "" if right else f"{WANTED} are wanted. What does the broker measure: the value, or the batch it gets?",
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """Whether the batch with the large value is within the limit."""
        return "b" if all(batch.size <= LIMIT for batch in workspace.files(TOPIC).batches()) else "a"


LAB = TooLarge()
