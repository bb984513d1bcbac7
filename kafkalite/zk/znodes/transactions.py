"""``/transactions``: the metadata of transactions, one znode for each transactional id.

Answers to: ``kafka.coordinator.transaction.{TransactionLog,TransactionMetadata,TransactionState}``. Pure.

A transactional id belongs to one *state partition* (in Kafka a partition of ``__transaction_state``); the broker that
holds the claim on it writes the ids below it. ``/transactions`` itself holds the number of state partitions, which
never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from kafkalite.common.types import TopicPartition
from kafkalite.zk.znodes.codec import MalformedZnodeError, encode_name, from_json, integer, to_json

TRANSACTIONS: Final = "/transactions"
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMEOUT: Final = (1 << 31) - 1
"""Timeout in ms of a producer with two-phase commit: one process prepares a transaction, another may end it later."""


class TransactionState(Enum):
    """States of a transactional id; the values are Kafka's names, as the tools show them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """One transactional id. Timestamps and the timeout are in ms; -1 where there is none.

    ``partitions`` and ``groups`` (whose offsets were sent into the transaction) stay until each of them
    has the transaction's outcome. ``last_producer_id`` and ``last_producer_epoch`` were valid before the last
    InitProducerId, whose answer may have been lost (KIP-360).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    groups: frozenset[str] = frozenset()
    start_ms: int = -1
    update_ms: int = -1

    @property
    def two_phase(self) -> bool:
        """Whether the transaction has no timeout (two-phase commit)."""
        return self.timeout_ms == NO_TIMEOUT

    def with_(self, **changes: object) -> TransactionMetadata:
        """A copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def state_partition_for(transactional_id: str, count: int) -> int:
    """Kafka's ``partitionFor``: Java's hash of the text, without its sign, modulo ``count``."""
    units = transactional_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + units[index] * 256 + units[index + 1]) & 0xFFFFFFFF
    if value >= 1 << 31:
        value = (1 << 32) - value
    # Java's abs() of the least integer is negative; Kafka's Utils.abs makes it 0.
    return (0 if value == 1 << 31 else value) % count


def partition_path(number: int) -> str:
    """One state partition: the base of its claim."""
    return f"{TRANSACTIONS}/{number}"


def ids_path(number: int) -> str:
    """Where the transactional ids of a state partition stand."""
    return f"{TRANSACTIONS}/{number}/ids"


def id_path(number: int, transactional_id: str) -> str:
    """One transactional id."""
    return f"{TRANSACTIONS}/{number}/ids/{encode_name(transactional_id)}"


def encode_root(partitions: int) -> bytes:
    """How many state partitions there are (version 1)."""
    return to_json({"version": 1, "partitions": partitions})


def decode_root(data: bytes) -> int:
    """The reverse. Raises ``MalformedZnodeError``."""
    count = integer(from_json(data, TRANSACTIONS).get("partitions"), f"{TRANSACTIONS} partitions")
    if count < 1:
        raise MalformedZnodeError(f"{TRANSACTIONS}: {count} partitions")
    return count


def encode_transaction(metadata: TransactionMetadata) -> bytes:
    """All of one transactional id but its name (version 1); partitions are numbers by topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(partition)
    return to_json(
        {
            "version": 1,
            "state": metadata.state.value,
            "producer_id": metadata.producer_id,
            "producer_epoch": metadata.producer_epoch,
            "last_producer_id": metadata.last_producer_id,
            "last_producer_epoch": metadata.last_producer_epoch,
            "timeout_ms": metadata.timeout_ms,
            "partitions": topics,
            "groups": sorted(metadata.groups),
            "start_timestamp": str(metadata.start_ms),
            "timestamp": str(metadata.update_ms),
        }
    )


def decode_transaction(path: str, data: bytes, transactional_id: str) -> TransactionMetadata:
    """The reverse. Raises ``MalformedZnodeError``."""
    value = from_json(data, path)

    def number(key: str) -> int:
        return integer(value.get(key), f"{path} {key}")

    try:
        state = TransactionState(value.get("state"))
    except ValueError:
        raise MalformedZnodeError(f"{path}: no such state: {value.get('state')!r}") from None
    return TransactionMetadata(
        transactional_id,
        number("producer_id"),
        number("producer_epoch"),
        number("last_producer_id"),
        number("last_producer_epoch"),
        number("timeout_ms"),
        state,
        frozenset(_partitions(value.get("partitions"), path)),
        frozenset(_texts(value.get("groups"), path)),
        number("start_timestamp"),
        number("timestamp"),
    )


def _partitions(value: object, path: str) -> Iterable[TopicPartition]:
    if not isinstance(value, Mapping) or not all(isinstance(numbers, list) for numbers in value.values()):
        raise MalformedZnodeError(f"{path}: partitions: not lists by topic: {value!r}")
    for topic, numbers in value.items():
        for number in numbers:
            yield TopicPartition(topic, integer(number, f"{path} partitions"))


def _texts(value: object, path: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise MalformedZnodeError(f"{path}: groups: not a list of texts: {value!r}")
    return value
