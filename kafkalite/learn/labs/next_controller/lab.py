"""The student takes the controller's znode away and looks at the epoch.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace


class NextController:
    """Right: a controller was elected since the start of the lab."""

    chapter = 5
    kind = LabKind.GUIDED
    needs = LabNeeds(3)

    def prepare(self, workspace: Workspace) -> None:
        """Keep the epoch, once there is a controller."""
        workspace.wait(lambda: workspace.controller() >= 0, "a controller")
        workspace.note(epoch=workspace.controller_epoch())

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the epochs."""
        before, epoch = int(workspace.notes()["epoch"]), workspace.controller_epoch()
        if epoch == before:
            why = "No controller was elected since the lab began. Delete the znode /controller."
            return [LabFinding(False, f"The controller epoch is {epoch}, as at the start.", why)]
        broker = workspace.controller()
        why = "" if broker >= 0 else "No broker has created it yet; check again."
        return [
            LabFinding(True, f"The controller epoch went from {before} to {epoch}."),
            LabFinding(broker >= 0, f"/controller names broker {broker}." if broker >= 0 else "No /controller.", why),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the epochs."""
        return "b" if workspace.controller_epoch() > int(workspace.notes()["epoch"]) else "a"


LAB = NextController()
