"""The student appends two records and sees that reading removes none.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "fruit"
FIRST = ("cherry", "plum", "quince")
WANTED = [b"apple", b"pear"]


class FirstRecords:
    """Right: ``apple`` and ``pear`` stand behind the prepared records."""

    chapter = 1
    kind = LabKind.GUIDED
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """Three records."""
        workspace.create_topic(TOPIC)
        workspace.produce(TOPIC, [(None, value) for value in FIRST])

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the values in the file."""
        records = workspace.files(TOPIC).records()
        added = [record.value for record in records[len(FIRST) :]]
        if added[: len(WANTED)] == WANTED:
            return [LabFinding(True, f"The log has {len(records)} records, apple and pear at the offsets 3 and 4.")]
        if not added:
            return [LabFinding(False, "The log has only the three first records.", "Append apple and pear.")]
        said = ", ".join((value or b"").decode(errors="replace") for value in added)
        why = "Offset 3 must be apple and 4 pear. A log is not corrected: begin again with kafkalite learn reset."
        return [LabFinding(False, f"Behind the first three records stand: {said}.", why)]

    def outcome(self, workspace: Workspace) -> str:
        """Whether the log has the records that were read."""
        return "b" if len(workspace.files(TOPIC).records()) >= len(FIRST) + len(WANTED) else "a"


LAB = FirstRecords()
