"""The student finds how often a partition's state was written.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "votes"
STATE = f"/brokers/topics/{TOPIC}/partitions/0/state"
MOVES = ((1, 2), (2,), (2, 3), (3,))
"""The replicas to which the partition moves, one after the other; at first it has broker 1 alone or another one."""


class NoHistory:
    """Right: the answer is the version of the znode."""

    chapter = 14
    kind = LabKind.PUZZLE
    needs = LabNeeds(3)

    def prepare(self, workspace: Workspace) -> None:
        """A partition that moves from broker to broker."""
        workspace.create_topic(TOPIC)
        seen = [workspace.state(TOPIC)]
        for replicas in MOVES:
            move(workspace, replicas)
            seen.append(workspace.state(TOPIC))
        workspace.note(leaders=json.dumps([None if state is None else state["leader"] for state in seen]))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the answer with the znode's version."""
        state, stat = workspace.state(TOPIC), workspace.tree.stat(STATE)
        answer = workspace.answer
        if state is None or stat is None:
            return [LabFinding(False, f"{STATE} does not exist.", "Begin again: kafkalite learn reset")]
        if not answer:
            return [LabFinding(False, "There is no answer.", "Give the number: kafkalite learn check NUMBER")]
        if answer == str(stat.version):
            return [LabFinding(True, f"The state was changed {answer} times since it was created.")]
        why = "It is a number that ZooKeeper keeps beside the data of the znode."
        if answer == str(state["leader_epoch"]):
            why = "That is the leader epoch, which does not count changes of the ISR alone."
        elif answer == str(state["controller_epoch"]):
            why = "That is the epoch of the controller that wrote the state last, which counts controllers."
        return [LabFinding(False, f"The answer {answer} is not right.", why)]

    def outcome(self, workspace: Workspace) -> str:
        """From the leaders that the data of the partition's znode names, among those that it has had."""
        leaders = {leader for leader in json.loads(workspace.notes()["leaders"]) if leader is not None}
        state = workspace.state(TOPIC)
        named = leaders & (set() if state is None else {state["leader"], *state["isr"]})
        return "a" if named == leaders else "b" if len(named) > 1 else "c"


def move(workspace: Workspace, replicas: Sequence[int]) -> None:
    """Move the partition to ``replicas``, and wait for the end of it."""
    admin = KafkaAdminClient(bootstrap_servers=workspace.cluster.bootstrap.split(","), client_id="kafkalite-learn")
    try:
        refused = admin.alter_partition_reassignments({TopicPartition(TOPIC, 0): list(replicas)})
    finally:
        admin.close()
    assert not any(refused.values()), refused
    workspace.wait(lambda: is_at(workspace, replicas), f"{TOPIC}-0 to be at {list(replicas)}")


def is_at(workspace: Workspace, replicas: Sequence[int]) -> bool:
    """Whether the move is complete, in the assignment and in the state."""
    value = json.loads(workspace.tree.get(f"/brokers/topics/{TOPIC}") or b"{}")
    state = workspace.state(TOPIC)
    return (
        value.get("partitions", {}).get("0") == list(replicas)
        and not value.get("adding_replicas")
        and not value.get("removing_replicas")
        and state is not None
        and sorted(state["isr"]) == sorted(replicas)
        and state["leader"] in replicas
    )


LAB = NoHistory()
