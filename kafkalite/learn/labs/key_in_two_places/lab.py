"""The student adds partitions and so spreads one key over two of them.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "orders"
CUSTOMERS = 8


class KeyInTwoPlaces:
    """Right: a prepared key has records in two partitions."""

    chapter = 2
    kind = LabKind.PUZZLE
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """A record for each customer."""
        workspace.create_topic(TOPIC)
        workspace.produce(TOPIC, [(f"customer-{number}", "first") for number in range(CUSTOMERS)])

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look for each key in the files of all partitions."""
        count = workspace.partitions(TOPIC)
        if count < 2:
            why = "One partition is one order for all keys. Which change of the topic gives a key another partition?"
            return [LabFinding(False, "The topic has one partition.", why)]
        homes: dict[bytes, set[int]] = {f"customer-{number}".encode(): set() for number in range(CUSTOMERS)}
        for partition in range(count):
            for record in workspace.files(TOPIC, partition).records():
                if record.key in homes:
                    homes[record.key].add(partition)
        moved = {key.decode(): sorted(found) for key, found in homes.items() if len(found) > 1}
        enough = LabFinding(True, f"The topic has {count} partitions.")
        if not moved:
            why = "Produce records with the keys customer-0 to customer-7 again, and name no partition."
            return [enough, LabFinding(False, "Each customer has records in one partition only.", why)]
        key, found = next(iter(moved.items()))
        return [enough, LabFinding(True, f"{key} has records in the partitions {found}.")]

    def outcome(self, workspace: Workspace) -> str:
        """Whether partition 0 still has all of the prepared records."""
        first = [record for record in workspace.files(TOPIC, 0).records() if record.value == b"first"]
        return "b" if len(first) >= CUSTOMERS else "a"


LAB = KeyInTwoPlaces()
