"""OffsetForLeaderEpoch: where an epoch ended, for truncation and for detecting it (KIP-101, KIP-320).

Answers to: ``KafkaApis.handleOffsetForLeaderEpochRequest``. Pure.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


def handle(context: RequestContext, request: Any) -> Any:
    """One answer for each partition."""
    kind = response_class(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    make_topic = kind.OffsetForLeaderTopicResult
    version, services = context.version, context.services
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            tp = TopicPartition(topic.topic, asked.partition)
            answer = make_topic.EpochEndOffset(version=version, partition=asked.partition)
            answer.leader_epoch = answer.end_offset = -1
            if services.metadata.state(tp) is None:
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
