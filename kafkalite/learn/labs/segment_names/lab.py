"""The student fills segments and reads their names.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace
from kafkalite.record.batch import read_header

TOPIC = "clicks"
WANTED = 3


class SegmentNames:
    """Right: the leader has three segments."""

    chapter = 3
    kind = LabKind.GUIDED
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """A topic with small segments, and one record."""
        workspace.create_topic(TOPIC, config={"segment.bytes": "1024"})
        workspace.produce(TOPIC, [(None, "x" * 300)])

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Count the segments."""
        names = [segment.name for segment in workspace.files(TOPIC).segments()]
        right = len(names) >= WANTED
        batches = len(workspace.files(TOPIC).batches())
        why = "" if right else f"They have {batches} batches; a segment ends when the next batch does not fit into it."
        return [LabFinding(right, f"The leader has {len(names)} of {WANTED} segments: {', '.join(names)}.", why)]

    def outcome(self, workspace: Workspace) -> str:
        """Compare the name of the second segment with its first batch."""
        second = workspace.files(TOPIC).segments()[1]
        return "b" if read_header(second.read_bytes()).base_offset == int(second.stem) else "a"


LAB = SegmentNames()
