"""The student starts two applications again that died between their work and their commit.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from collections import Counter

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

SALES, BILLS, RECEIPTS = "sales", "bills", "receipts"
BILLING, MAILING = "billing", "mailing"
VALUES = [f"sale-{number}" for number in range(1, 7)]
DONE = 4
"""So many sales were worked on when the applications died."""
AGAIN = VALUES[DONE - 1]


class WorkDoneTwice:
    """Right: one sale has two bills, and each sale has one receipt."""

    chapter = 9
    kind = LabKind.GUIDED
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """The state that both applications have left: one result more than the committed offset says."""
        for topic, values in ((SALES, VALUES), (BILLS, VALUES[:DONE]), (RECEIPTS, VALUES[:DONE])):
            workspace.create_topic(topic)
            workspace.produce(topic, [(None, value) for value in values])
        for group in (BILLING, MAILING):
            workspace.commit(group, SALES, DONE - 1)

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Count the results of each sale, and read the committed offsets."""
        bills, receipts = results(workspace, BILLS), results(workspace, RECEIPTS)
        findings = [
            finding(BILLS, bills, Counter([*VALUES, AGAIN])),
            finding(RECEIPTS, receipts, Counter(VALUES)),
        ]
        for group in (BILLING, MAILING):
            offset = workspace.committed(group, SALES)
            right = offset == len(VALUES)
            why = "" if right else f"{BILLING} and {MAILING} must have read all {len(VALUES)} sales."
            findings.append(LabFinding(right, f"The offset of {group} is {offset}.", why))
        return findings

    def outcome(self, workspace: Workspace) -> str:
        """From the number of bills of the sale that was in work."""
        bills = results(workspace, BILLS)
        return "b" if bills[AGAIN] > 1 else "a"


def results(workspace: Workspace, topic: str) -> Counter[str]:
    """How many results each sale has."""
    return Counter((record.value or b"").decode() for record in workspace.files(topic).records())


def finding(topic: str, found: Counter[str], wanted: Counter[str]) -> LabFinding:
    """Compare the results of an application with those that it should have."""
    what = f"{topic} has {found.total()} results for {len(found)} sales."
    twice = sorted(value for value, count in found.items() if count > wanted[value])
    missing = sorted((wanted - found).elements())
    if twice:
        return LabFinding(
            False, what, f"Too many of {', '.join(twice)}, because the group began too early: kafkalite learn reset."
        )
    if not missing:
        return LabFinding(True, what)
    if VALUES[-1] in missing:
        return LabFinding(False, what, f"None for {VALUES[-1]} yet: start the application again.")
    begun = f"None for {', '.join(missing)}, because the group began too late: kafkalite learn reset."
    if found == Counter(VALUES):
        begun = f"{AGAIN} has one only, because the offset was changed before the start: kafkalite learn reset."
    return LabFinding(False, what, begun)


LAB = WorkDoneTwice()
