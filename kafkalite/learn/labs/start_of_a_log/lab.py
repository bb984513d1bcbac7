"""The student raises the log start offset and appends.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "queue"
RECORDS = 6
START = 4


class StartOfALog:
    """Right: the log begins at offset 4, and has more than the prepared records."""

    chapter = 1
    kind = LabKind.PUZZLE
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """Six records."""
        workspace.create_topic(TOPIC)
        workspace.produce(TOPIC, [(None, f"job {number}") for number in range(RECORDS)])

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Ask the leader for the first and the next offset."""
        start, end = workspace.bounds(TOPIC)
        if start < START:
            why = (
                f"Records below offset {START} must go. Retention would delete whole segments; look for DeleteRecords."
            )
        else:
            why = "That is too far, and it cannot be taken back: kafkalite learn reset." if start > START else ""
        findings = [LabFinding(start == START, f"The log begins at offset {start}.", why)]
        appended = end > RECORDS
        why = "" if appended else "Append a record and see which offset it gets."
        return [*findings, LabFinding(appended, f"The next record gets offset {end}.", why)]

    def outcome(self, workspace: Workspace) -> str:
        """From the offset of the record behind the prepared ones."""
        offsets = [record.offset for record in workspace.files(TOPIC).records()]
        return "c" if RECORDS in offsets else "a"


LAB = StartOfALog()
