"""The student finds the replica whose file was changed, and has it replaced by a copy.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

import struct
from pathlib import Path

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import Workspace
from kafkalite.record.batch import CRC_START, compute_crc, iter_headers

TOPIC = "accounts"
RECORDS = ("ann 100", "bob 250", "cid 75", "dora 310")
TRUE, FALSE = b"bob 250", b"bob 950"
LAST = "eve 20"
"""The record that is written after the change."""
_CRC = struct.Struct(">I")


class WhichBrokerLied:
    """Right: the answer is the broker with the other value, and all three logs are equal."""

    chapter = 11
    kind = LabKind.PUZZLE
    needs = LabNeeds(3)

    def prepare(self, workspace: Workspace) -> None:
        """Records on three brokers; one follower's file is changed, and gets another record after that."""
        workspace.create_topic(TOPIC, replicas=3)
        settings = {"acks": "all", "batch.num.messages": "1"}
        workspace.produce(TOPIC, [(None, value) for value in RECORDS], settings=settings)
        state = workspace.state(TOPIC)
        assert state is not None
        liar = max(broker for broker in workspace.cluster.broker_ids if broker != state["leader"])
        workspace.wait(lambda: len(values_of(workspace, liar)) == len(RECORDS), "the follower to have the records")
        falsify(workspace.files(TOPIC, broker=liar).segments()[0], TRUE, FALSE)
        workspace.produce(TOPIC, [(None, LAST)], settings=settings)
        workspace.wait(lambda: LAST.encode() in values_of(workspace, liar), "the follower to have the last record")
        state = workspace.state(TOPIC)
        assert state is not None
        noticed = "follower" if FALSE not in values_of(workspace, liar) else "" if liar in state["isr"] else "leader"
        workspace.note(leader=state["leader"], liar=liar, noticed=noticed)

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Compare the answer with the notes, and the three logs with each other."""
        liar = workspace.notes()["liar"]
        answer = workspace.answer
        brokers = workspace.cluster.broker_ids
        if not answer:
            named = LabFinding(False, "There is no answer.", "Give the broker's id: kafkalite learn check ID")
        elif answer != liar:
            why = (
                f"Compare the files of all of {brokers}: the log of the broker that is asked for agrees with no other."
            )
            named = LabFinding(False, f"The answer {answer} is not right.", why)
        else:
            named = LabFinding(True, f"The log of broker {answer} was changed.")
        logs = [values_of(workspace, broker) for broker in brokers]
        wanted = [value.encode() for value in (*RECORDS, LAST)]
        equal = all(values[: len(wanted)] == wanted for values in logs)
        why = "One differs. A broker copies what it does not have: move the replica away and back."
        state = workspace.state(TOPIC)
        isr = [] if state is None else sorted(state["isr"])
        complete = isr == brokers
        return [
            named,
            LabFinding(equal, f"The three logs are {'equal' if equal else 'not equal'}.", "" if equal else why),
            LabFinding(complete, f"The ISR is {isr}.", "" if complete else f"It must be {brokers} again."),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From what the set-up has seen, after it had changed the file and written another record."""
        return {"follower": "a", "leader": "b", "": "c"}[workspace.notes()["noticed"]]


def values_of(workspace: Workspace, broker: int) -> list[bytes | None]:
    """The values in the log of ``broker``."""
    return [record.value for record in workspace.files(TOPIC, broker=broker).records()]


def falsify(segment: Path, old: bytes, new: bytes) -> None:
    """Put ``new``, of the same length, in place of ``old``, with the CRC that belongs to it."""
    data = bytearray(segment.read_bytes())
    at = data.index(old)
    data[at : at + len(old)] = new
    [(position, header)] = [(p, h) for p, h in iter_headers(data, allow_partial_tail=True) if p < at < p + h.size]
    crc_at = position + CRC_START - _CRC.size
    with segment.open("r+b") as file:
        for place, changed in ((crc_at, _CRC.pack(compute_crc(data, position, header))), (at, new)):
            file.seek(place)
            file.write(changed)


LAB = WhichBrokerLied()
