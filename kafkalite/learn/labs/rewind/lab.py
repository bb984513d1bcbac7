"""The student sets a group's offset back.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "visits"
RECORDS = 10
GROUP, OTHER = "audit", "billing"


class Rewind:
    """Right: the group's offset is 0, and that of the other group is as it was."""

    chapter = 8
    kind = LabKind.GUIDED
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """Ten records, which both groups have read."""
        workspace.create_topic(TOPIC)
        workspace.produce(TOPIC, [(None, f"visit {number}") for number in range(RECORDS)])
        for group in (GROUP, OTHER):
            workspace.commit(group, TOPIC, RECORDS)

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Read both offsets from ZooKeeper."""
        offset, other = workspace.committed(GROUP, TOPIC), workspace.committed(OTHER, TOPIC)
        why = "" if offset == 0 else "It must be 0. The command changes nothing without --execute."
        kept = "" if other == RECORDS else f"It was {RECORDS}, and should be left alone: set it back."
        return [
            LabFinding(offset == 0, f"The offset of {GROUP} is {offset}.", why),
            LabFinding(other == RECORDS, f"The offset of {OTHER} is {other}.", kept),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the offset of the other group."""
        other = workspace.committed(OTHER, TOPIC)
        return "c" if other is None else "b" if other == RECORDS else "a"


LAB = Rewind()
