"""The student kills a broker and sees which znodes go.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "alive"


class WhoIsAlive:
    """Right: the victim's process has ended, and its registration with it."""

    chapter = 4
    kind = LabKind.GUIDED
    needs = LabNeeds(3)

    def prepare(self, workspace: Workspace) -> None:
        """A topic on all brokers; the victim is not the controller, so that the controller acts at once."""
        workspace.create_topic(TOPIC, replicas=3)
        victim = max(broker for broker in workspace.live_brokers() if broker != workspace.controller())
        workspace.note(victim=victim, pid=workspace.cluster.pid(victim))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the process, at its znode and at the partition."""
        victim = int(workspace.notes()["victim"])
        if workspace.cluster.is_alive(victim):
            return [LabFinding(False, f"Broker {victim} runs.", f"kill -9 {workspace.cluster.pid(victim)}")]
        gone = victim not in workspace.live_brokers()
        state = workspace.state(TOPIC)
        out = state is not None and victim not in state["isr"]
        isr = "unknown" if state is None else state["isr"]
        wait = "Its session has not ended yet; check again in some seconds."
        return [
            LabFinding(True, f"The process of broker {victim} has ended."),
            LabFinding(gone, f"/brokers/ids/{victim} {'is gone' if gone else 'exists'}.", "" if gone else wait),
            LabFinding(out, f"The ISR of {TOPIC}-0 is {isr}.", "" if out else "The controller has not acted yet."),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the two znodes."""
        if workspace.tree.get(f"/brokers/ids/{workspace.notes()['victim']}") is not None:
            return "a"
        return "c" if workspace.tree.get(f"/brokers/topics/{TOPIC}") is None else "b"


LAB = WhoIsAlive()
