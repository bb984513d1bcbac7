"""Moves between log directories in ``kafkalite reassign`` (KIP-113): start, state, cancellation.

Answers to: ``ReassignPartitionsCommand.{executeMoves,findLogDirMoveStates,cancelReplicaMoves}``. Reactor shell (client
library).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

ANY = "any"
_PAUSE_S = 0.1


class ReplicaPlace(NamedTuple):
    """A replica of a partition, as Kafka's tools name it: ``topic-partition-broker``."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class Places(NamedTuple):
    """The log directory of a replica, and that of its future copy; ``None`` if there is none."""

    current: str | None
    future: str | None


def start_moves(admin: KafkaAdminClient, wanted: Mapping[ReplicaPlace, str], timeout_ms: int) -> None:
    """Request each replica's directory, repeatedly until its broker has the replica.

    Raises :class:`ApiError` for a refused move, or if a broker does not have its replica within ``timeout_ms``.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    pending = dict(wanted)
    while pending:
        for replica, error in ask(admin, pending).items():
            if error is ErrorCode.NONE:
                where = f"{pending.pop(replica)} for replica {replica.topic}-{replica.partition}"
                print(f"Successfully started moving log directory to {where} with broker {replica.broker}")
            elif error is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise ApiError(error, f"{replica}: {pending[replica]}")
        if pending and time.monotonic() > deadline:
            names = ",".join(str(replica) for replica in sorted(pending))
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the moves of {names} have not begun: use a longer --timeout")
        if pending:
            time.sleep(_PAUSE_S)


def ask(admin: KafkaAdminClient, wanted: Mapping[ReplicaPlace, str]) -> dict[ReplicaPlace, ErrorCode]:
    """One AlterReplicaLogDirs request to each broker."""
    answers = admin.alter_replica_log_dirs({tuple(replica): log_dir for replica, log_dir in wanted.items()})
    return {ReplicaPlace(*replica): ErrorCode(error.errno) for replica, error in answers.items()}


def places(admin: KafkaAdminClient, replicas: Iterable[ReplicaPlace]) -> dict[ReplicaPlace, Places]:
    """The directories of the replicas. Those of dead brokers are left out."""
    wanted = set(replicas)
    live = {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
    topics = sorted({replica.topic for replica in wanted})
    found = {replica: Places(None, None) for replica in wanted if replica.broker in live}
    for entry in admin.describe_log_dirs(topics, sorted({replica.broker for replica in found})):
        for directory in entry["log_dirs"]:
            for topic in directory["topics"]:
                for partition in topic["partitions"]:
                    replica = ReplicaPlace(topic["name"], partition["partition_index"], entry["broker"])
                    if replica in found:
                        name = "future" if partition["is_future_key"] else "current"
                        found[replica] = found[replica]._replace(**{name: directory["log_dir"]})
    return found


def move_states(admin: KafkaAdminClient, wanted: Mapping[ReplicaPlace, str]) -> dict[ReplicaPlace, str]:
    """The state of each move: ``completed``, ``in progress``, or why it will not complete."""
    if not wanted:
        return {}
    found = places(admin, wanted)
    return {replica: _state(found.get(replica), log_dir) for replica, log_dir in sorted(wanted.items())}


def _state(found: Places | None, wanted: str) -> str:
    if found is None:
        return "its broker is not alive"
    if found.current is None:
        return "it is in no live log directory"
    if found.future is not None:
        return "in progress" if found.future == wanted else f"it is being moved to {found.future} instead of {wanted}"
    return "completed" if found.current == wanted else f"it is not being moved from {found.current} to {wanted}"


def cancel_moves(admin: KafkaAdminClient, wanted: Mapping[ReplicaPlace, str]) -> list[ReplicaPlace]:
    """Cancel those of the moves that are in progress: each replica stays in its directory. Returns them."""
    if not wanted:
        return []
    under_way = {
        replica: found.current
        for replica, found in places(admin, wanted).items()
        if found.current is not None and found.future == wanted[replica]
    }
    if not under_way:
        return []
    refused = {replica: error for replica, error in ask(admin, under_way).items() if error is not ErrorCode.NONE}
    if refused:
        raise ApiError(next(iter(refused.values())), ",".join(map(str, sorted(refused))))
    return sorted(under_way)
