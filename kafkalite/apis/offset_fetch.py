"""OffsetFetch 0-9: the offsets from which groups read on. Any broker answers version 0, the coordinator all later ones.

- 1: as version 0, but answered by the coordinator
- 2: null asks for all topics; an error of the whole (KIP-88)
- 3: throttle time (KIP-124)
- 4: the client throttles itself (KIP-219)
- 5: leader epoch (KIP-320)
- 6: flexible (KIP-482)
- 7: require stable (KIP-447)
- 8: many groups (KIP-709)
- 9: the new group protocol (KIP-848), which is not served here

Answers to: ``KafkaApis.handleOffsetFetchRequest``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError
from kafkalite.zk.znodes.offsets import NO_EPOCH, OffsetAndMetadata

_NO_OFFSET = -1
_ERROR_OF_ALL = 2
_STABLE = 7
_MANY_GROUPS = 8

_Value = OffsetAndMetadata | ErrorCode | None


class _Topic(Protocol):
    """A topic in the request; the versions with one group and with many have classes of their own for it."""

    name: str
    partition_indexes: list[int]


T = TypeVar("T")
P = TypeVar("P")


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


@serves(ApiKey.OFFSET_FETCH, 0, 9)
async def handle(context: RequestContext, request: messages.OffsetFetchRequest) -> messages.OffsetFetchResponse:
    """Offset -1 where there is none (in version 0: an error)."""
    version = context.version
    kind = messages.OffsetFetchResponse
    if version < _MANY_GROUPS:
        asked = _Asked(request.group_id, _partitions(request.topics))
        stable = version >= _STABLE and request.require_stable
        found = await (_numbers(context, asked) if version == 0 else _committed(context, asked, stable))
        if found.error is ErrorCode.GROUP_AUTHORIZATION_FAILED and version == 1:
            # As in Kafka, whose answer has no place for the error.
            found = _Found(found.error, {})
        elif found.error and version < _ERROR_OF_ALL:
            found = _Found(found.error, dict.fromkeys(asked.partitions or (), found.error))
        topic = kind.OffsetFetchResponseTopic
        topics = _topics(version, topic, topic.OffsetFetchResponsePartition, found.values)
        return kind(version=version, throttle_time_ms=0, topics=topics, error_code=found.error)
    every = [_Asked(group.group_id, _partitions(group.topics)) for group in request.groups]
    answers = await gather(_committed(context, asked, request.require_stable) for asked in every)
    make = kind.OffsetFetchResponseGroup
    make_topic = make.OffsetFetchResponseTopics
    groups = [
        make(
            version=version,
            group_id=asked.group,
            topics=_topics(version, make_topic, make_topic.OffsetFetchResponsePartitions, found.values),
            error_code=found.error,
        )
        for asked, found in zip(every, answers, strict=True)
    ]
    return kind(version=version, throttle_time_ms=0, groups=groups)


def _partitions(topics: Sequence[_Topic] | None) -> list[TopicPartition] | None:
    if topics is None:
        return None
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]


async def _committed(context: RequestContext, asked: _Asked, stable: bool) -> _Found:
    """What the group's coordinator says of what the client may see."""
    if not context.authorize(AclOperation.DESCRIBE, AclResourceType.GROUP, asked.group):
        return _Found(ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
    if asked.partitions is None:
        found = await _known(context, asked, stable)
        topics = [tp.topic for tp in found.values]
        visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.TOPIC, topics)
        return _Found(found.error, {tp: value for tp, value in found.values.items() if tp.topic in visible})
    partitions, denied = _divide(context, asked.partitions)
    found = await _known(context, _Asked(asked.group, partitions), stable)
    return found if found.error else _Found(found.error, {**found.values, **denied})


def _divide(
    context: RequestContext, partitions: Sequence[TopicPartition]
) -> tuple[list[TopicPartition], dict[TopicPartition, ErrorCode]]:
    """Those of ``partitions`` that the client may see, and the errors of the others."""
    visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.TOPIC, [tp.topic for tp in partitions])
    allowed = [tp for tp in partitions if tp.topic in visible]
    return allowed, {tp: ErrorCode.TOPIC_AUTHORIZATION_FAILED for tp in partitions if tp.topic not in visible}


async def _known(context: RequestContext, asked: _Asked, stable: bool) -> _Found:
    try:
        groups = context.services.groups
        found = await groups.offsets.fetch(asked.group, asked.partitions, require_stable=stable)
    except ApiError as error:
        return _Found(error.code, {})
    except (ConnectionLostError, SessionExpiredError):
        return _Found(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})  # for clients: ask again
    return _Found(
        ErrorCode.NONE, {tp: found.get(tp) for tp in (found if asked.partitions is None else asked.partitions)}
    )


async def _numbers(context: RequestContext, asked: _Asked) -> _Found:
    """What stands in ZooKeeper, as any broker sees it: Kafka 0.8.1 had no word for a group without an offset."""
    if not context.authorize(AclOperation.DESCRIBE, AclResourceType.GROUP, asked.group):
        return _Found(ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
    services = context.services
    partitions, denied = _divide(context, asked.partitions or ())
    try:
        found = await services.offsets.fetch(asked.group, partitions)
    except (ConnectionLostError, SessionExpiredError):
        return _Found(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
    values: dict[TopicPartition, _Value] = {
        tp: found.get(tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for tp in partitions
    }
    return _Found(ErrorCode.NONE, values | denied)


def _topics(
    version: int, make_topic: Callable[..., T], make: Callable[..., P], values: Mapping[TopicPartition, _Value]
) -> list[T]:
    topics = by_topic((tp, _partition(version, make, tp, value)) for tp, value in values.items())
    return [make_topic(version=version, name=name, partitions=parts) for name, parts in topics.items()]


def _partition(version: int, make: Callable[..., P], tp: TopicPartition, value: _Value) -> P:
    error = value if isinstance(value, ErrorCode) else ErrorCode.NONE
    offset, leader_epoch, metadata = _NO_OFFSET, NO_EPOCH, ""
    if isinstance(value, OffsetAndMetadata):
        offset, leader_epoch, metadata = value.offset, value.leader_epoch, value.metadata
    return make(
        version=version,
        partition_index=tp.partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        metadata=metadata,
        error_code=error,
    )
