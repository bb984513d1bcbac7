"""The student creates a topic and counts its znodes.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "cars"
PARTITIONS = 3
PLACES = (f"/brokers/topics/{TOPIC}", f"/config/topics/{TOPIC}")


class ZnodesOfATopic:
    """Right: the topic is as it should be, and the answer is the number of its znodes."""

    chapter = 14
    kind = LabKind.GUIDED
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """Nothing: the student creates the topic."""

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the topic, and count."""
        partitions = workspace.partitions(TOPIC)
        if partitions != PARTITIONS:
            why = f"Create it with --partitions {PARTITIONS}" + (", after you have deleted it." if partitions else ".")
            return [LabFinding(False, f"The topic {TOPIC} has {partitions} partitions.", why)]
        config = workspace.tree.get(PLACES[1]) or b""
        own = b"retention.ms" in config
        found = znodes(workspace)
        answer = workspace.answer
        if not answer:
            why = "Give the number: kafkalite learn check NUMBER"
        elif answer in map(str, below(found)):
            why = "That is the number in one place; there are znodes in another one, too."
        else:
            why = "Count all paths that have the name of the topic, with what is below them."
        right = answer == str(len(found))
        return [
            LabFinding(True, f"The topic {TOPIC} has {partitions} partitions."),
            LabFinding(
                own,
                f"Its configuration {'has' if own else 'does not have'} retention.ms.",
                "" if own else "Add it: kafkalite configs --alter --topic cars --add-config retention.ms=3600000",
            ),
            LabFinding(right, f"The answer is {answer}." if answer else "There is no answer.", "" if right else why),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the number of znodes."""
        count = len(znodes(workspace))
        return {1: "a", 1 + PARTITIONS: "b"}.get(count, "c")


def znodes(workspace: Workspace) -> list[str]:
    """Paths of the topic's znodes."""
    found = [place for place in PLACES if workspace.tree.get(place) is not None]
    for path in found:
        found.extend(f"{path}/{name}" for name in workspace.tree.children(path))
    return found


def below(paths: list[str]) -> list[int]:
    """How many of ``paths`` there are in each place."""
    return [sum(path.startswith(place) for path in paths) for place in PLACES]


LAB = ZnodesOfATopic()
