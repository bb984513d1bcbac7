"""OffsetDelete 0-0: an administrator removes offsets of a group that does not read these topics (KIP-496).

Answers to: ``KafkaApis.handleOffsetDeleteRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.OFFSET_DELETE, 0, 0)
async def handle(context: RequestContext, request: messages.OffsetDeleteRequest) -> messages.OffsetDeleteResponse:
    """An error for each partition; where the group as a whole cannot be served, for the request."""
    version, services = context.version, context.services
    context.check_authorized(AclOperation.DELETE, AclResourceType.GROUP, request.group_id)
    asked = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    readable = context.authorized(AclOperation.READ, AclResourceType.TOPIC, [topic.name for topic in request.topics])
    existing = [tp for tp in asked if tp.topic in readable and services.metadata.state(tp) is not None]
    errors = {
        tp: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if tp.topic in readable else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for tp in asked
    }
    if existing:
        errors |= await services.groups.admin.delete_offsets(request.group_id, existing)
    kind = messages.OffsetDeleteResponse
    make_topic = kind.OffsetDeleteResponseTopic
    make = make_topic.OffsetDeleteResponsePartition
    topics = by_topic(
        (tp, make(version=version, partition_index=tp.partition, error_code=error)) for tp, error in errors.items()
    )
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        throttle_time_ms=0,
        topics=[make_topic(version=version, name=name, partitions=parts) for name, parts in topics.items()],
    )
