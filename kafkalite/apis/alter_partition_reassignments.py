"""AlterPartitionReassignments, by the controller (KIP-455).

Answers to: ``KafkaApis.handleAlterPartitionReassignmentsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """One answer for each partition; replicas ``None`` cancel a reassignment."""
    wanted = {
        TopicPartition(topic.name, partition.partition_index): (
            None if partition.replicas is None else tuple(partition.replicas)
        )
        for topic in request.topics
        for partition in topic.partitions
    }
    outcomes = await context.services.controller.alter_reassignments(wanted)
    kind = response_class(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    make_topic = kind.ReassignableTopicResponse
    version = context.version
    topics: dict[str, list[Any]] = {}
    for tp in wanted:
        code, message = outcomes.get(tp, (ErrorCode.NONE, ""))
        topics.setdefault(tp.topic, []).append(
            make_topic.ReassignablePartitionResponse(
                version=version, partition_index=tp.partition, error_code=code, error_message=message or None
            )
        )
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[make_topic(version=version, name=name, partitions=parts) for name, parts in topics.items()],
    )
