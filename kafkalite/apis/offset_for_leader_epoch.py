"""OffsetForLeaderEpoch 0-4: the end offset of an epoch, by which replicas truncate (KIP-101).

- 1: leader epoch in the answer (KIP-279)
- 2: current leader epoch (KIP-320)
- 3: replica id
- 4: flexible (KIP-482)

Answers to: ``KafkaApis.handleOffsetForLeaderEpochRequest``. Pure.
"""

from __future__ import annotations

from kafkalite.apis.context import EVERYTHING, RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4)
def handle(
    context: RequestContext, request: messages.OffsetForLeaderEpochRequest
) -> messages.OffsetForLeaderEpochResponse:
    """One answer for each partition."""
    kind = messages.OffsetForLeaderEpochResponse
    make_topic = kind.OffsetForLeaderTopicResult
    version, services = context.version, context.services
    visible = EVERYTHING
    if not context.may(AclOperation.CLUSTER_ACTION, log_denied=False):
        names = [topic.topic for topic in request.topics]
        visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            tp = TopicPartition(topic.topic, asked.partition)
            answer = make_topic.EpochEndOffset(version=version, partition=asked.partition)
            answer.leader_epoch = answer.end_offset = -1
            if topic.topic not in visible:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif services.metadata.state(tp) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                try:
                    found = services.offset_queries.end_offset_for_epoch(
                        tp, asked.current_leader_epoch if version >= 2 else -1, asked.leader_epoch
                    )
                except ApiError as error:
                    answer.error_code = error.code
                else:
                    answer.error_code = found.error
                    answer.leader_epoch, answer.end_offset = found.leader_epoch, found.end_offset
            partitions.append(answer)
        topics.append(make_topic(version=version, topic=topic.topic, partitions=partitions))
    return kind(version=version, topics=topics)
