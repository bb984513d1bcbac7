"""CreateTopics, by the controller.

Answers to: ``KafkaApis.handleCreateTopicsRequest``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkalite.admin.topic_admin import NewTopic, TopicOutcome
from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """Topics with their outcome, in the order of the request; from version 5 on with what they were made with."""
    services = context.services
    names = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, TopicOutcome] = {}
    if not services.controller.is_active:
        for name in names:
            outcomes[name] = TopicOutcome(
                name, ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster."
            )
    else:
        wanted = []
        for topic in request.topics:
            if names[topic.name] > 1:
                outcomes[topic.name] = TopicOutcome(
                    topic.name,
                    ErrorCode.INVALID_REQUEST,
                    f"Create topics request from client `{context.client_id}` contains multiple entries "
                    f"for the following topics: {topic.name}",
                )
            else:
                wanted.append(_wanted(topic))
        made = await services.topics.create(
            wanted, request.timeout_ms, validate_only=bool(context.version >= 1 and request.validate_only)
        )
        outcomes.update((outcome.name, outcome) for outcome in made)
    kind = response_class(ApiKey.CREATE_TOPICS)
    return kind(version=context.version, topics=[_result(context, kind, outcomes[name]) for name in names])


def _wanted(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {assignment.partition_index: list(assignment.broker_ids) for assignment in topic.assignments},
        {config.name: config.value for config in topic.configs},
    )


def _result(context: RequestContext, kind: Any, outcome: TopicOutcome) -> Any:
    version = context.version
    result = kind.CreatableTopicResult(
        version=version,
        name=outcome.name,
        topic_id=outcome.topic_id,
        error_code=outcome.error,
        error_message=outcome.message,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )
    if outcome.error or version < 5:
        return result
    result.num_partitions = outcome.partitions
    result.replication_factor = outcome.replication_factor
    result.configs = [
        kind.CreatableTopicResult.CreatableTopicConfigs(
            version=version,
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in context.services.configs.describe_topic(outcome.configs)
    ]
    return result
