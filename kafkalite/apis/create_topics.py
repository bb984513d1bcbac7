"""CreateTopics 0-7, by the controller (KIP-4).

- 1: validate only, error messages
- 2: throttle time (KIP-124)
- 3: the client throttles itself (KIP-219)
- 4: default partitions and replication factor (KIP-464)
- 5: configuration in the answer (KIP-525); flexible (KIP-482)
- 6: THROTTLING_QUOTA_EXCEEDED (KIP-599)
- 7: topic id in the answer (KIP-516)

Answers to: ``KafkaApis.handleCreateTopicsRequest``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter

from kafkalite.admin.topic_admin import NewTopic, TopicOutcome
from kafkalite.apis.context import EVERYTHING, RequestContext
from kafkalite.apis.mutations import Mutations
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.CREATE_TOPICS, 0, 7)
async def handle(context: RequestContext, request: messages.CreateTopicsRequest) -> messages.CreateTopicsResponse:
    """Topics with their outcome, in the order of the request; from version 5 on with what they were made with."""
    services = context.services
    mutations = Mutations(context, 6)
    names = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, TopicOutcome] = {}
    if not services.controller.is_active:
        for name in names:
            outcomes[name] = TopicOutcome(
                name, ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster."
            )
    else:
        creatable = EVERYTHING
        if not context.may(AclOperation.CREATE, log_denied=False):
            creatable = context.authorized(AclOperation.CREATE, AclResourceType.TOPIC, names)
        wanted = []
        for topic in request.topics:
            if names[topic.name] > 1:
                outcomes[topic.name] = TopicOutcome(
                    topic.name,
                    ErrorCode.INVALID_REQUEST,
                    f"Create topics request from client `{context.client_id}` contains multiple entries "
                    f"for the following topics: {topic.name}",
                )
            elif topic.name not in creatable:
                outcomes[topic.name] = TopicOutcome(
                    topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
                )
            else:
                wanted.append(_wanted(topic))
        made = await services.topics.create(
            wanted,
            request.timeout_ms,
            validate_only=bool(context.version >= 1 and request.validate_only),
            charge=mutations.charge,
        )
        outcomes.update((outcome.name, outcome) for outcome in made)
    return messages.CreateTopicsResponse(
        version=context.version,
        throttle_time_ms=mutations.throttle_time_ms,
        topics=[_result(context, outcomes[name]) for name in names],
    )


def _wanted(topic: messages.CreateTopicsRequest.CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {assignment.partition_index: list(assignment.broker_ids) for assignment in topic.assignments},
        {config.name: config.value for config in topic.configs},
    )


def _result(context: RequestContext, outcome: TopicOutcome) -> messages.CreateTopicsResponse.CreatableTopicResult:
    kind = messages.CreateTopicsResponse
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
    if version < 5 or outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        return result
    if not context.authorize(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, outcome.name, log_denied=False):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result
    if outcome.error:
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
