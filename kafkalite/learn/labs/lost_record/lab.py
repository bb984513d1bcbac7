"""The student loses an acknowledged record, and says which settings prevent it.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace
from kafkalite.record.records import Record

TOPIC = "journal"
MINIMUM = "min.insync.replicas"
_PATIENCE_MS = "120000"


class LostRecord:
    """Right: the dead leader has a record that no other has, its offset is taken, and the settings exclude it."""

    chapter = 6
    kind = LabKind.PUZZLE
    # A paused follower must stay in the ISR until the student has killed the leader.
    needs = LabNeeds(3, (("replica.lag.time.max.ms", _PATIENCE_MS), ("zookeeper.session.timeout.ms", _PATIENCE_MS)))

    def prepare(self, workspace: Workspace) -> None:
        """A topic with two records that all replicas have."""
        workspace.create_topic(TOPIC, replicas=3)
        workspace.produce(TOPIC, [(None, "first"), (None, "second")], settings={"acks": "all"})
        state = workspace.state(TOPIC)
        leader = -1 if state is None else state["leader"]
        workspace.note(leader=leader, address=workspace.cluster.address(leader))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the logs of the dead leader and of the present one; look at the configuration and the answer."""
        former, state = int(workspace.notes()["leader"]), workspace.state(TOPIC)
        if workspace.cluster.is_alive(former):
            why = "It has every record that it has acknowledged. It must die while it alone has one."
            return [LabFinding(False, f"Broker {former} runs.", why)]
        if state is None or state["leader"] in (-1, former):
            why = "Is a follower running that is in the ISR? A paused one has to go on; kafkalite cluster resume."
            return [LabFinding(False, f"{TOPIC}-0 has no new leader.", why)]
        lost = lost_records(workspace)
        if not lost:
            why = "The followers had fetched them all. They must be paused while you write: kafkalite learn reset."
            return [LabFinding(False, f"Broker {state['leader']} has each record of broker {former}.", why)]
        value = (lost[0].value or b"").decode(errors="replace")
        taken = workspace.files(TOPIC).end_offset() > lost[0].offset
        return [
            LabFinding(True, f"The record at offset {lost[0].offset} of broker {former} is lost: {value}."),
            LabFinding(
                taken,
                f"The log of broker {state['leader']} ends at {workspace.files(TOPIC).end_offset()}.",
                "" if taken else "Append a record, and see which offset it gets.",
            ),
            minimum(workspace.config(TOPIC).get(MINIMUM, "1")),
            acks(workspace.answer.removeprefix("acks=")),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """Whether the present leader has another record at the offset of a lost one."""
        lost = {record.offset for record in lost_records(workspace)}
        return "b" if lost & {record.offset for record in workspace.files(TOPIC).records()} else "c"


def lost_records(workspace: Workspace) -> list[Record]:
    """The records of the dead leader that the present leader does not have at the same offset."""
    kept = {(record.offset, record.value) for record in workspace.files(TOPIC).records()}
    former = workspace.files(TOPIC, broker=int(workspace.notes()["leader"]))
    return [record for record in former.records() if (record.offset, record.value) not in kept]


def minimum(value: str) -> LabFinding:
    """What the value of ``min.insync.replicas`` does for three replicas."""
    why = {
        "1": "An ISR of the leader alone is enough, so that a record may be acknowledged that only the leader has.",
        "2": "",
    }.get(value, "No record can be written any more while one of the three brokers is out.")
    return LabFinding(value == "2", f"{MINIMUM} is {value}.", why)


def acks(value: str) -> LabFinding:
    """What the producer's ``acks`` does."""
    if not value:
        return LabFinding(False, "There is no answer.", "Which acks must the producer have? kafkalite learn check ACKS")
    if value in ("all", "-1"):
        return LabFinding(True, f"acks={value} waits for the whole ISR.")
    why = "The values are 0, 1 and all."
    if value in ("0", "1"):
        why = "No replica is waited for." if value == "0" else "The leader alone is waited for."
        why += f" {MINIMUM} counts only for writes that wait for the ISR."
    return LabFinding(False, f"The answer {value} is not right.", why)


LAB = LostRecord()
