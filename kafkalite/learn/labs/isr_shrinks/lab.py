"""The student kills a leader and writes to the next one.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "trades"


class IsrShrinks:
    """Right: another broker leads with an ISR of two, and has a new record."""

    chapter = 6
    kind = LabKind.GUIDED
    needs = LabNeeds(3)

    def prepare(self, workspace: Workspace) -> None:
        """A topic with a record on three brokers."""
        workspace.create_topic(TOPIC, replicas=3, config={"min.insync.replicas": "2"})
        workspace.produce(TOPIC, [(None, "before")], settings={"acks": "all"})
        state = workspace.state(TOPIC)
        leader = -1 if state is None else state["leader"]
        workspace.note(leader=leader, pid=workspace.cluster.pid(leader))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the state in ZooKeeper and at the leader's file."""
        former = int(workspace.notes()["leader"])
        state = workspace.state(TOPIC)
        if state is None or state["leader"] == former or workspace.cluster.is_alive(former):
            return [
                LabFinding(
                    False,
                    f"Broker {former} is not out: it leads, or runs.",
                    f"Kill it: kill -9 {workspace.cluster.pid(former)}",
                )
            ]
        shrunk = len(state["isr"]) == 2 and former not in state["isr"]
        values = [record.value for record in workspace.files(TOPIC).records()]
        written = b"after" in values
        return [
            LabFinding(True, f"Broker {state['leader']} leads, with leader epoch {state['leader_epoch']}."),
            LabFinding(shrunk, f"The ISR is {state['isr']}.", "" if shrunk else "Two of the three must be in it."),
            LabFinding(
                written,
                f"The new leader's log has {len(values)} records.",
                "" if written else "Write the record `after` with acks=all.",
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the record behind the dead broker's last one."""
        return "b" if b"after" in [record.value for record in workspace.files(TOPIC).records()] else "a"


LAB = IsrShrinks()
