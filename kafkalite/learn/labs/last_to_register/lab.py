"""The student finds the broker with the greatest broker epoch.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace


class LastToRegister:
    """Right: the answer is the broker whose registration was created last."""

    chapter = 4
    kind = LabKind.PUZZLE
    needs = LabNeeds(3)

    def prepare(self, workspace: Workspace) -> None:
        """Restart one broker, so that the greatest id need not be the last one."""
        workspace.cluster.restart_broker(workspace.cluster.broker_ids[1])

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the answer with the creation zxids."""
        epochs = broker_epochs(workspace)
        last = max(epochs, key=lambda broker: epochs[broker])
        if workspace.answer == str(last):
            return [LabFinding(True, f"Broker {last} registered last, with broker epoch {epochs[last]}.")]
        if not workspace.answer:
            return [LabFinding(False, "There is no answer.", "Give the broker's id: kafkalite learn check ID")]
        why = f"The registered brokers are {sorted(epochs)}; compare the creation zxids of their znodes."
        return [LabFinding(False, f"The answer {workspace.answer} is not right.", why)]

    def outcome(self, workspace: Workspace) -> str:
        """Whether the restarted broker has the greatest creation zxid."""
        epochs = broker_epochs(workspace)
        return "b" if epochs[workspace.cluster.broker_ids[1]] == max(epochs.values()) else "a"


def broker_epochs(workspace: Workspace) -> dict[int, int]:
    """Live broker → the creation zxid of its registration."""
    stats = {broker: workspace.tree.stat(f"/brokers/ids/{broker}") for broker in workspace.live_brokers()}
    return {broker: stat.czxid for broker, stat in stats.items() if stat is not None}


LAB = LastToRegister()
