"""OffsetFetch: where groups go on reading. Version 0 is answered by any broker, later ones by the coordinator.

Answers to: ``KafkaApis.handleOffsetFetchRequest``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.values import OffsetFetchRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError
from kafkalite.zk.znodes.offsets import NO_EPOCH, OffsetAndMetadata

_NO_OFFSET = -1
_ERROR_OF_ALL = 2
_STABLE = 7
_MANY_GROUPS = 8

_Value = OffsetAndMetadata | ErrorCode | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """One group's part of a request; ``partitions`` in the order asked, ``None`` for all that there are."""

    group: str
    partitions: Sequence[TopicPartition] | None


@dataclass(frozen=True, slots=True)
class _Found:
    """Its answer: an error of the whole, or a value of each partition."""

    error: ErrorCode
    values: Mapping[TopicPartition, _Value]


async def handle(context: RequestContext, request: Any) -> Any:
    """Offset -1 where there is none (in version 0: an error)."""
    version = context.version
    kind = response_class(ApiKey.OFFSET_FETCH)
    if version < _MANY_GROUPS:
        asked = _Asked(request.group_id, _partitions(request.topics))
        stable = version >= _STABLE and request.require_stable
        found = await (_numbers(context, asked) if version == 0 else _committed(context, asked, stable))
        if found.error and version < _ERROR_OF_ALL:
            found = _Found(found.error, dict.fromkeys(asked.partitions or (), found.error))
        topics = _topics(version, kind.OffsetFetchResponseTopic, "OffsetFetchResponsePartition", found.values)
        return kind(version=version, throttle_time_ms=0, topics=topics, error_code=found.error)
    every = [_Asked(group.group_id, _partitions(group.topics)) for group in request.groups]
    answers = await gather(_committed(context, asked, request.require_stable) for asked in every)
    make = kind.OffsetFetchResponseGroup
    groups = [
        make(
            version=version,
            group_id=asked.group,
            topics=_topics(version, make.OffsetFetchResponseTopics, "OffsetFetchResponsePartitions", found.values),
            error_code=found.error,
        )
        for asked, found in zip(every, answers, strict=True)
    ]
    return kind(version=version, throttle_time_ms=0, groups=groups)


def _partitions(topics: Any) -> list[TopicPartition] | None:
    if topics is None:
        return None
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]


async def _committed(context: RequestContext, asked: _Asked, stable: bool) -> _Found:
    """What the group's coordinator says."""
    try:
        found = await context.services.groups.offsets.fetch(OffsetFetchRequest(asked.group, asked.partitions, stable))
    except ApiError as error:
        return _Found(error.code, {})
    except (ConnectionLostError, SessionExpiredError):
        return _Found(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})  # for clients: ask again
    return _Found(
        ErrorCode.NONE, {tp: found.get(tp) for tp in (found if asked.partitions is None else asked.partitions)}
    )


async def _numbers(context: RequestContext, asked: _Asked) -> _Found:
    """What stands in ZooKeeper, as any broker sees it: Kafka 0.8.1 had no word for a group without an offset."""
    services, partitions = context.services, asked.partitions or ()
    try:
        found = await services.offsets.fetch(asked.group, partitions)
    except (ConnectionLostError, SessionExpiredError):
        return _Found(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
    return _Found(ErrorCode.NONE, {tp: found.get(tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for tp in partitions})


def _topics(version: int, make_topic: Any, partition_name: str, values: Mapping[TopicPartition, _Value]) -> list[Any]:
    make = getattr(make_topic, partition_name)
    topics: dict[str, list[Any]] = {}
    for tp, value in values.items():
        error = value if isinstance(value, ErrorCode) else ErrorCode.NONE
        offset, leader_epoch, metadata = _NO_OFFSET, NO_EPOCH, ""
        if isinstance(value, OffsetAndMetadata):
            offset, leader_epoch, metadata = value.offset, value.leader_epoch, value.metadata
        topics.setdefault(tp.topic, []).append(
            make(
                version=version,
                partition_index=tp.partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                metadata=metadata,
                error_code=error,
            )
        )
    return [make_topic(version=version, name=name, partitions=parts) for name, parts in topics.items()]
