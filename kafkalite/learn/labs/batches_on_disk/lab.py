"""The student sends records in one batch and one by one.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "metrics"
LARGE = 10
MANY = 10


class BatchesOnDisk:
    """Right: the log has a large batch, and many of one record."""

    chapter = 7
    kind = LabKind.GUIDED
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """An empty topic."""
        workspace.create_topic(TOPIC)

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the batches in the file."""
        counts = [batch.record_count for batch in workspace.files(TOPIC).batches()]
        largest, single = max(counts, default=0), counts.count(1)
        large, many = largest >= LARGE, single >= MANY
        return [
            LabFinding(
                large,
                f"The largest of {len(counts)} batches has {largest} records.",
                "" if large else f"{LARGE} or more are needed: send twenty records at once, with --timeout 100.",
            ),
            LabFinding(
                many,
                f"{single} batches have one record.",
                "" if many else f"{MANY} or more are needed: send twenty records with --sync.",
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """Compare the bytes for a record in the largest batch with those in a batch of one."""
        batches = workspace.files(TOPIC).batches()
        largest = max(batches, key=lambda batch: batch.record_count)
        single = min(batch.size for batch in batches if batch.record_count == 1)
        return "c" if single > largest.size / largest.record_count else "b"


LAB = BatchesOnDisk()
