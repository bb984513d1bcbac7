"""AlterPartitionReassignments 0-0, by the controller (KIP-455).

- 0: flexible (KIP-482)

Answers to: ``KafkaApis.handleAlterPartitionReassignmentsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0)
async def handle(
    context: RequestContext, request: messages.AlterPartitionReassignmentsRequest
) -> messages.AlterPartitionReassignmentsResponse:
    """One answer for each partition; replicas ``None`` cancel a reassignment."""
    wanted = {
        TopicPartition(topic.name, partition.partition_index): (
            None if partition.replicas is None else tuple(partition.replicas)
        )
        for topic in request.topics
        for partition in topic.partitions
    }
    error, message = ErrorCode.NONE, None
    try:
        context.authorize_cluster(AclOperation.ALTER)
    except ApiError as refused:
        error, message = refused.code, refused.message
        outcomes = dict.fromkeys(wanted, (error, message))
    else:
        outcomes = await context.services.controller.alter_reassignments(wanted)
    kind = messages.AlterPartitionReassignmentsResponse
    make_topic = kind.ReassignableTopicResponse
    version = context.version
    topics = by_topic(
        (
            tp,
            make_topic.ReassignablePartitionResponse(
                version=version, partition_index=tp.partition, error_code=code, error_message=text or None
            ),
        )
        for tp in wanted
        for code, text in (outcomes.get(tp, (ErrorCode.NONE, "")),)
    )
    return kind(
        version=version,
        error_code=error,
        error_message=message,
        responses=[make_topic(version=version, name=name, partitions=parts) for name, parts in topics.items()],
    )
