"""The student produces records with keys and sees where each key goes.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from collections import Counter

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "rides"
PARTITIONS = 3
KEYS = ("ann", "bob")
ENOUGH = 3


class KeyAndPartition:
    """Right: three records or more of each key, all of one key in one partition."""

    chapter = 2
    kind = LabKind.GUIDED
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """An empty topic."""
        workspace.create_topic(TOPIC, PARTITIONS)

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Count the records of each key."""
        counts = {key: places(workspace, key) for key in KEYS}
        without = places(workspace, None)
        findings = []
        for key, found in counts.items():
            where = ", ".join(f"{count} in partition {partition}" for partition, count in sorted(found.items()))
            right = found.total() >= ENOUGH and len(found) == 1
            why = "" if right else f"{ENOUGH} or more are needed, produced without --partition."
            if not right and without:
                why = f"{without.total()} records have no key: give --property parse.key=true."
            findings.append(LabFinding(right, f"Records of the key {key}: {where or 'none'}.", why))
        return findings

    def outcome(self, workspace: Workspace) -> str:
        """Whether one key has one partition."""
        return "b" if len(places(workspace, KEYS[0])) == 1 else "c"


def places(workspace: Workspace, key: str | None) -> Counter[int]:
    """How many records with ``key`` each partition has."""
    wanted = None if key is None else key.encode()
    return Counter(
        partition
        for partition in range(PARTITIONS)
        for record in workspace.files(TOPIC, partition).records()
        if record.key == wanted
    )


LAB = KeyAndPartition()
