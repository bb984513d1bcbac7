"""The checks of requests about topics, with Kafka's errors and texts.

Answers to: ``kafka.zk.AdminZkClient.validateTopicCreate`` and ``validateReplicaAssignment``. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafkalite.cluster.topic_names import check_topic, colliding_topic
from kafkalite.common.errors import ApiError, ConfigError, ErrorCode
from kafkalite.log.log_config import TOPIC_CONFIGS, log_config


def check_new_topic(name: str, existing: Collection[str]) -> None:
    """Raises :class:`ApiError` INVALID_TOPIC_EXCEPTION or TOPIC_ALREADY_EXISTS."""
    if name in existing:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic(name)
    other = colliding_topic(name, existing)
    if other is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {other}")


def check_configs(configs: Mapping[str, str | None], broker_values: Mapping[str, Any]) -> dict[str, str]:
    """The overrides of a topic. Raises :class:`ApiError` INVALID_CONFIG naming key, value and what is allowed."""
    texts = {name: value for name, value in configs.items() if value is not None}
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    unknown = TOPIC_CONFIGS.unknown(texts)
    if unknown:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {unknown[0]}")
    try:
        config = log_config(broker_values, texts)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if config.remote_storage_enable:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
    return texts


def check_assignments(assignments: Mapping[int, Sequence[int]]) -> None:
    """The replicas of a new topic's partitions. Raises :class:`ApiError` INVALID_REPLICA_ASSIGNMENT."""
    if sorted(assignments) != list(range(len(assignments))):
        raise _bad_assignment("Partitions should be a consecutive 0-based integer sequence")
    sizes = {len(replicas) for replicas in assignments.values()}
    if 0 in sizes:
        raise _bad_assignment("Every partition needs at least one replica")
    if len(sizes) > 1:
        raise _bad_assignment("All partitions should have the same number of replicas")
    for index, replicas in assignments.items():
        if len(set(replicas)) != len(replicas):
            raise _bad_assignment(f"Duplicate replica assignment found: partition {index} on {_listed(replicas)}")
        if min(replicas) < 0:
            raise _bad_assignment(f"Invalid broker id in the replicas of partition {index}: {_listed(replicas)}")


def check_widening(
    name: str,
    existing: Mapping[int, Sequence[int]],
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    brokers: Collection[int],
) -> dict[int, tuple[int, ...]] | None:
    """The replicas of the partitions to add, if they were given.

    Raises :class:`ApiError` INVALID_PARTITIONS or INVALID_REPLICA_ASSIGNMENT.
    """
    added = count - len(existing)
    if added < 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {len(existing)} partitions, which is higher than the requested {count}.",
        )
    if added == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {len(existing)} partitions.")
    if assignments is None:
        return None
    unknown = sorted({replica for replicas in assignments for replica in replicas} - set(brokers))
    if unknown:
        raise _bad_assignment(f"Unknown broker(s) in replica assignment: {_listed(unknown)}.")
    if len(assignments) != added:
        raise _bad_assignment(
            f"Increasing the number of partitions by {added} but {len(assignments)} assignments provided."
        )
    factor = len(existing[0]) if 0 in existing else len(assignments[0])
    chosen = {}
    for index, replicas in enumerate(assignments, len(existing)):
        if not replicas:
            raise _bad_assignment(f"Cannot have replication factor of 0 for partition id {index}.")
        if len(set(replicas)) != len(replicas):
            raise _bad_assignment(
                f"Duplicate brokers not allowed in replica assignment: {_listed(replicas)} for partition id {index}."
            )
        if len(replicas) != factor:
            raise _bad_assignment(
                f"Inconsistent replication factor between partitions, partition 0 of {name} has {factor} "
                f"while partition {index} has replication factor {len(replicas)}."
            )
        chosen[index] = tuple(replicas)
    return chosen


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
