"""The student finds a claim on the controller that belongs to no session.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

import time

from kafkalite.cluster.model import PartitionAssignment
from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace
from kafkalite.zk.zk_client import Create, Delete
from kafkalite.zk.znodes.claims import CONTROLLER, CONTROLLER_CLAIM
from kafkalite.zk.znodes.topics import TopicAssignment, encode_topic, topic_path

OLD, NEW = "stock", "invoices"
GONE = 9
"""A broker that does not exist."""


class NothingIsDecided:
    """Right: a broker has claimed the controller in a session, and the old topic has a record from before."""

    chapter = 5
    kind = LabKind.PUZZLE
    needs = LabNeeds(2)

    def prepare(self, workspace: Workspace) -> None:
        """Replace the controller's claim by one without a session, and create a topic as tools before 2.8 do."""
        workspace.create_topic(OLD)
        brokers = tuple(workspace.cluster.broker_ids)
        topic = TopicAssignment(None, {0: PartitionAssignment(brokers)})
        now = time.time_ns() // 1_000_000
        # In one transaction, because a broker would be elected between the two operations.
        workspace.tree.change(
            [
                Delete(CONTROLLER),
                Create(CONTROLLER, CONTROLLER_CLAIM.encode_claim(GONE, now)),
                Create(topic_path(NEW), encode_topic(topic)),
            ]
        )
        workspace.note(since=now, brokers=" and ".join(map(str, brokers)))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the claim's owner, at the new topic's state, and at the times of the old topic's records."""
        broker, stat = workspace.controller(), workspace.tree.stat(CONTROLLER)
        if stat is None:
            return [LabFinding(False, f"{CONTROLLER} does not exist.", "No broker has created it yet; check again.")]
        claimed = stat.ephemeral_owner != 0
        written = bool(written_until(workspace, stat.ctime_ms if claimed else None))
        led = workspace.has_leader(NEW)
        why = "Write a record to it before you mend the cluster."
        if claimed:
            why = "There is a controller now, so that it is too late to write without one: kafkalite learn reset."
        owned = "" if claimed else "It belongs to no session, so no broker's death and no election takes it away."
        waits = "The controller elects it." if claimed else "Only a controller elects the first leader of a topic."
        during = f"{OLD} has {'a' if written else 'no'} record from the time without a controller."
        claim = f"{CONTROLLER} names broker {broker}, and is {'ephemeral' if claimed else 'persistent'}."
        return [
            LabFinding(written, during, "" if written else why),
            LabFinding(claimed, claim, owned),
            LabFinding(led, f"{NEW}-0 has {'a' if led else 'no'} leader.", "" if led else waits),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the record of the old topic, and from the order in which claim and the new topic's leader came."""
        claim = workspace.tree.stat(CONTROLLER)
        state = workspace.tree.stat(f"{topic_path(NEW)}/partitions/0/state")
        if claim is None or state is None or not written_until(workspace, claim.ctime_ms):
            return "a"
        return "b" if claim.czxid < state.czxid else "c"


def written_until(workspace: Workspace, end: int | None) -> list[int]:
    """Offsets of the records that were made after the set-up and before ``end``, in milliseconds."""
    since = int(workspace.notes()["since"])
    records = workspace.files(OLD).records()
    return [each.offset for each in records if each.timestamp >= since and (end is None or each.timestamp < end)]


LAB = NothingIsDecided()
