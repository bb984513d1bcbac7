"""The student finds a transaction whose producer is gone.

Answers to: nothing in Kafka. Blocking.
"""

from __future__ import annotations

from confluent_kafka import Producer

from kafkalite.learn.lab import LabFinding, LabKind, LabNeeds
from kafkalite.learn.workspace import TIMEOUT, Workspace
from kafkalite.zk.znodes.transactions import (
    TRANSACTIONS,
    TransactionState,
    decode_root,
    decode_transaction,
    id_path,
    state_partition_for,
)

TOPIC = "payments"
BEFORE = [f"payment {number}" for number in range(1, 4)]
AFTER = [f"payment {number}" for number in range(4, 8)]
OPEN = ["transfer out", "transfer in"]
TRANSACTIONAL_ID = "transfer"
LONGEST_MS = "900000"
"""What a broker allows at most (``transaction.max.timeout.ms``)."""


class StuckReaders:
    """Right: the transaction is aborted, at its coordinator too, and readers see all other records."""

    chapter = 9
    kind = LabKind.PUZZLE
    needs = LabNeeds()

    def prepare(self, workspace: Workspace) -> None:
        """Records of an open transaction between others; its producer ends without a word."""
        workspace.create_topic(TOPIC)
        workspace.produce(TOPIC, [(None, value) for value in BEFORE])
        begin_transaction(workspace)
        workspace.produce(TOPIC, [(None, value) for value in AFTER])
        workspace.note(seen=len(workspace.read_committed(TOPIC)))

    def check(self, workspace: Workspace) -> list[LabFinding]:
        """Read the topic as the bank does, and the transaction's state in ZooKeeper."""
        seen, state = workspace.read_committed(TOPIC), transaction_state(workspace)
        everything = [*BEFORE, *AFTER]
        right, why = seen == everything, ""
        if any(value in seen for value in OPEN):
            why = "It sees the records of the transaction too, which was not to be committed: kafkalite learn reset."
        elif seen == BEFORE:
            why = f"It waits at offset {len(BEFORE)}. What begins there?"
        elif not right:
            why = "There are other records than before: kafkalite learn reset."
        ended = state is not TransactionState.ONGOING
        coordinator = f"For the coordinator of {TRANSACTIONAL_ID} the transaction is {state.value}."
        left = "A producer that comes back could go on with it. End it by its transactional id."
        return [
            LabFinding(right, f"The reader sees {len(seen)} of {len(everything)} payments.", why),
            LabFinding(ended, coordinator, "" if ended else left),
        ]

    def outcome(self, workspace: Workspace) -> str:
        """From the number of records that a reader saw at the start."""
        seen = int(workspace.notes()["seen"])
        return "b" if seen == len(BEFORE) else "a" if seen == len(BEFORE) + len(AFTER) else "c"


def begin_transaction(workspace: Workspace) -> None:
    """Write records in a transaction, and leave it open."""
    producer = Producer(
        {
            **workspace.login(),
            "transactional.id": TRANSACTIONAL_ID,
            "transaction.timeout.ms": LONGEST_MS,
        }
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    for value in OPEN:
        producer.produce(TOPIC, value, partition=0)
    producer.flush(TIMEOUT)


def transaction_state(workspace: Workspace) -> TransactionState:
    """The state that the coordinator has written."""
    partitions = decode_root(workspace.tree.get(TRANSACTIONS) or b"")
    path = id_path(state_partition_for(TRANSACTIONAL_ID, partitions), TRANSACTIONAL_ID)
    data = workspace.tree.get(path)
    if data is None:
        return TransactionState.DEAD
    return decode_transaction(path, data, TRANSACTIONAL_ID).state


LAB = StuckReaders()
