"""ListPartitionReassignments, by the controller (KIP-455).

Answers to: ``KafkaApis.handleListPartitionReassignmentsRequest``. Pure.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


def handle(context: RequestContext, request: Any) -> Any:
    """The reassignments under way among the partitions asked for (``None``: all)."""
    version = context.version
    wanted = None
    if request.topics is not None:
        wanted = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    kind = response_class(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    make_topic = kind.OngoingTopicReassignment
    topics: dict[str, list[Any]] = {}
    for tp, assignment in sorted(context.services.controller.list_reassignments(wanted).items()):
        topics.setdefault(tp.topic, []).append(
            make_topic.OngoingPartitionReassignment(
                version=version,
                partition_index=tp.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=[make_topic(version=version, name=name, partitions=parts) for name, parts in topics.items()],
    )
