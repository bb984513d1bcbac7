"""OffsetDelete: offsets that an administrator removes from a group that does not read these topics (KIP-496).

Answers to: ``KafkaApis.handleOffsetDeleteRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.values import OffsetDeleteRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """An error for each partition; where the group as a whole cannot be served, for the request."""
    version, services = context.version, context.services
    asked = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    existing = [tp for tp in asked if services.metadata.state(tp) is not None]
    errors = dict.fromkeys(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if existing:
        errors |= await services.groups.admin.delete_offsets(OffsetDeleteRequest(request.group_id, existing))
    kind = response_class(ApiKey.OFFSET_DELETE)
    make_topic = kind.OffsetDeleteResponseTopic
    make = make_topic.OffsetDeleteResponsePartition
    topics: dict[str, list[Any]] = {}
    for tp, error in errors.items():
        topics.setdefault(tp.topic, []).append(make(version=version, partition_index=tp.partition, error_code=error))
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        throttle_time_ms=0,
        topics=[make_topic(version=version, name=name, partitions=parts) for name, parts in topics.items()],
    )
