"""The student kills a follower, sees which writes the leader refuses, and chooses availability.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

import re
from urllib.request import urlopen

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace

TOPIC = "bookings"
ONE, TWO, THREE = b"one", b"two", b"three"
FAILED = "kafka_server_brokertopicmetrics_failedproducerequests_total"
"""The broker's counter of refused writes."""


class RefusedWrites:
    """Right: the leader has refused a write, accepted one with acks=1, and accepts acks=all again."""

    chapter = 11
    kind = LabKind.GUIDED
    needs = LabNeeds(2)

    def prepare(self, workspace: Workspace) -> None:
        """A topic that demands both of its replicas."""
        workspace.create_topic(TOPIC, replicas=2, config={"min.insync.replicas": "2"})
        workspace.produce(TOPIC, [(None, "zero")], settings={"acks": "all"})
        state = workspace.state(TOPIC)
        assert state is not None
        [follower] = [broker for broker in state["isr"] if broker != state["leader"]]
        workspace.note(leader=state["leader"], follower=follower, pid=workspace.cluster.pid(follower))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Look at the process, at the ISR, at the leader's counter and at its log."""
        leader, follower = (int(workspace.notes()[name]) for name in ("leader", "follower"))
        if workspace.cluster.is_alive(follower):
            why = f"Kill it: kill -9 {workspace.cluster.pid(follower)}"
            return [LabFinding(False, f"Broker {follower} runs.", why)]
        state = workspace.state(TOPIC)
        isr = [] if state is None else state["isr"]
        if isr != [leader]:
            return [LabFinding(False, f"The ISR is {isr}.", "The follower is not out of it yet; check again.")]
        values = [record.value for record in workspace.files(TOPIC, broker=leader).records()]
        refused = refused_writes(workspace, leader)
        early = "`one` was written before the follower had left the ISR: begin again with kafkalite learn reset."
        return [
            LabFinding(True, f"The ISR is {isr}: the leader is alone."),
            LabFinding(
                refused > 0,
                f"Broker {leader} has refused {refused} writes to {TOPIC}.",
                "" if refused else "Write `one` with acks=all before you change the topic.",
            ),
            LabFinding(
                ONE not in values,
                f"The log {'has' if ONE in values else 'does not have'} the record `one`.",
                early if ONE in values else "",
            ),
            _written(TWO in values, "two", "Write it with acks=1."),
            _written(
                THREE in values, "three", "With acks=all the leader needs an ISR of min.insync.replicas: lower that."
            ),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the records that the leader has accepted."""
        values = [record.value for record in workspace.files(TOPIC).records()]
        return "c" if TWO not in values else "a" if ONE in values else "b"


def _written(right: bool, name: str, why: str) -> LabFinding:
    return LabFinding(
        right, f"The log {'has' if right else 'does not have'} the record `{name}`.", "" if right else why
    )


def refused_writes(workspace: Workspace, broker: int) -> int:
    """How many writes to the topic ``broker`` has refused since its start, as its metrics say."""
    address = workspace.cluster.metrics(broker)
    assert address is not None
    with urlopen(address) as page:
        found = re.search(rf'^{FAILED}{{topic="{TOPIC}"}} (\S+)', page.read().decode(), re.M)
    return 0 if found is None else int(float(found[1]))


LAB = RefusedWrites()
