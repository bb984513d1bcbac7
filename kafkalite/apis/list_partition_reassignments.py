"""ListPartitionReassignments 0-0, by the controller (KIP-455).

- 0: flexible (KIP-482)

Answers to: ``KafkaApis.handleListPartitionReassignmentsRequest``. Pure.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0)
def handle(
    context: RequestContext, request: messages.ListPartitionReassignmentsRequest
) -> messages.ListPartitionReassignmentsResponse:
    """The running reassignments among the partitions asked for (``None``: all)."""
    context.authorize_cluster(AclOperation.DESCRIBE)
    version = context.version
    wanted = None
    if request.topics is not None:
        wanted = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    kind = messages.ListPartitionReassignmentsResponse
    make_topic = kind.OngoingTopicReassignment
    topics = by_topic(
        (
            tp,
            make_topic.OngoingPartitionReassignment(
                version=version,
                partition_index=tp.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            ),
        )
        for tp, assignment in sorted(context.services.controller.list_reassignments(wanted).items())
    )
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=[make_topic(version=version, name=name, partitions=parts) for name, parts in topics.items()],
    )
