"""The student finds the segment of a record.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "ledger"
RECORDS = 30
PLACE = 17
NEEDLE = b"here"


class WhichSegment:
    """Right: the answer is the base offset of the segment with the record."""

    chapter = 3
    kind = LabKind.PUZZLE
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """Records in batches of one, so that segments of 1024 bytes have a few each."""
        workspace.create_topic(TOPIC, config={"segment.bytes": "1024"})
        values = ["here" if number == PLACE else "x" * 150 for number in range(RECORDS)]
        workspace.produce(TOPIC, [(None, value) for value in values], settings={"batch.num.messages": "1"})
        state = workspace.state(TOPIC)
        workspace.note(leader=-1 if state is None else state["leader"])

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the answer with the files."""
        bases = [int(segment.stem) for segment in workspace.files(TOPIC).segments()]
        offset = needle_offset(workspace)
        wanted = max(base for base in bases if base <= offset)
        if workspace.answer == str(wanted):
            return [LabFinding(True, f"The record has offset {offset}, in the segment {wanted}.")]
        if not workspace.answer:
            return [LabFinding(False, "There is no answer.", "Give it with the check: kafkalite learn check OFFSET")]
        if workspace.answer == str(offset):
            why = "That is the record's own offset. Which file has it?"
        elif workspace.answer in map(str, bases):
            why = "That segment exists, and does not have the record."
        else:
            why = "No segment has this base offset; their names are base offsets."
        return [LabFinding(False, f"The answer {workspace.answer} is not right.", why)]

    def outcome(self, workspace: Workspace) -> str:
        """Whether the greatest base offset that is not above the record's offset names the file with the record."""
        offset = needle_offset(workspace)
        [file] = [each for each in workspace.files(TOPIC).segments() if NEEDLE in each.read_bytes()]
        bases = [int(segment.stem) for segment in workspace.files(TOPIC).segments()]
        return "b" if int(file.stem) == max(base for base in bases if base <= offset) else "a"


def needle_offset(workspace: Workspace) -> int:
    """Offset of the record."""
    [offset] = [record.offset for record in workspace.files(TOPIC).records() if record.value == NEEDLE]
    return offset


LAB = WhichSegment()
