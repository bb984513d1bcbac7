"""The rest of a commit beside a group's plain offsets, and the offsets that transactions have staged.

Answers to: ``kafka.common.OffsetAndMetadata`` and ``org.apache.kafka.coordinator.group.generated.OffsetCommitValue``.
Pure.

``/consumers/<group>/offsets/<topic>/<partition>`` is the plain number that old consumers read and write. The rest of a
commit stands in ``commits`` and is written in the same transaction, so that it holds as long as both znodes carry the
same mzxid. ``staged`` has what TxnOffsetCommit brought: a znode for each producer and chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafkalite.common.types import TopicPartition
from kafkalite.zk.znodes.codec import encode_name, from_json, integer, json_objects, to_json
from kafkalite.zk.znodes.consumers import group_path

NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A commit: the next offset to read, with the committer's metadata and times.

    Times are milliseconds since the epoch. ``commit_timestamp_ms``: -1 for now (in a commit) or unknown (a plain
    number). ``expire_timestamp_ms``: when it expires if the committer set a retention (OffsetCommit 2 to 4), else
    -1.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class TxnProducer:
    """The producer that stages offsets in a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class StagedOffsets:
    """One chunk of a producer's staged offsets."""

    producer: TxnProducer
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


def commits_path(group: str) -> str:
    """Where the rest of a group's commits stands."""
    return f"{group_path(group)}/commits"


def commit_path(group: str, tp: TopicPartition) -> str:
    """The rest of the last commit of ``tp``."""
    return f"{group_path(group)}/commits/{encode_name(tp.topic)}/{tp.partition}"


def staged_path(group: str) -> str:
    """Where offsets wait for the decision of their transactions."""
    return f"{group_path(group)}/staged"


def staged_name(producer: TxnProducer, chunk: int = 0) -> str:
    """The znode of one chunk, below :func:`staged_path`; the first one has no number."""
    name = f"{producer.producer_id}-{producer.producer_epoch}"
    return f"{name}-{chunk}" if chunk else name


def staged_chunk(name: str, producer: TxnProducer) -> int | None:
    """The chunk number of the znode ``name``; ``None`` if it belongs to another producer."""
    first = staged_name(producer)
    if name == first:
        return 0
    number = name.removeprefix(f"{first}-")
    return int(number) if number != name and number.isdecimal() else None


def encode_commit(commit: OffsetAndMetadata, decision_mzxid: int = 0) -> bytes:
    """Everything of a commit but the number itself (version 1).

    ``decision_mzxid``: of the decision of the transaction that brought it.
    """
    rest = _rest(commit)
    if decision_mzxid:
        rest["decision"] = decision_mzxid
    return to_json({"version": 1, **rest})


def decode_commit(path: str, data: bytes, offset: int) -> OffsetAndMetadata:
    """The reverse, for the number ``offset``. Raises :class:`MalformedZnodeError`."""
    return _commit(path, from_json(data, path), offset)


def decode_decision(path: str, data: bytes) -> int:
    """The mzxid of the decision that a commit belongs to, 0 if it belongs to no transaction."""
    return integer(from_json(data, path).get("decision", 0), f"{path} decision") if b'"decision"' in data else 0


def encode_staged(staged: StagedOffsets) -> bytes:
    """A chunk (version 1)."""
    producer = staged.producer
    return to_json(
        {
            "version": 1,
            "transactional_id": producer.transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "offsets": [
                {"topic": tp.topic, "partition": tp.partition, "offset": commit.offset, **_rest(commit)}
                for tp, commit in sorted(staged.offsets.items())
            ],
        }
    )


def decode_staged(path: str, data: bytes) -> StagedOffsets:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    value = from_json(data, path)
    producer = TxnProducer(
        str(value.get("transactional_id")),
        integer(value.get("producer_id"), f"{path} producer_id"),
        integer(value.get("producer_epoch"), f"{path} producer_epoch"),
    )
    return StagedOffsets(producer, dict(_staged(path, value.get("offsets"))))


def _staged(path: str, value: object) -> Iterable[tuple[TopicPartition, OffsetAndMetadata]]:
    for each in json_objects(value, f"{path}: offsets"):
        tp = TopicPartition(str(each.get("topic")), integer(each.get("partition"), f"{path} partition"))
        yield tp, _commit(path, each, integer(each.get("offset"), f"{path} offset"))


def _rest(commit: OffsetAndMetadata) -> dict[str, object]:
    rest: dict[str, object] = {
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "timestamp": str(commit.commit_timestamp_ms),
    }
    if commit.expire_timestamp_ms != NO_TIMESTAMP:
        rest["expire_timestamp"] = str(commit.expire_timestamp_ms)
    return rest


def _commit(path: str, value: Mapping[str, object], offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset,
        integer(value.get("leader_epoch"), f"{path} leader_epoch"),
        str(value.get("metadata", "")),
        integer(value.get("timestamp"), f"{path} timestamp"),
        integer(value.get("expire_timestamp", NO_TIMESTAMP), f"{path} expire_timestamp"),
    )
