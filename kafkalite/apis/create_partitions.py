"""CreatePartitions 0-3, by the controller (KIP-195).

- 1: the client throttles itself (KIP-219)
- 2: flexible (KIP-482)
- 3: THROTTLING_QUOTA_EXCEEDED (KIP-599)

Answers to: ``KafkaApis.handleCreatePartitionsRequest``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter

from kafkalite.admin.topic_admin import MorePartitions, TopicOutcome
from kafkalite.apis.context import EVERYTHING, RequestContext
from kafkalite.apis.mutations import Mutations
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.CREATE_PARTITIONS, 0, 3)
async def handle(
    context: RequestContext, request: messages.CreatePartitionsRequest
) -> messages.CreatePartitionsResponse:
    """Topics with their outcome, in the order of the request."""
    services = context.services
    mutations = Mutations(context, 3)
    names = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, TopicOutcome] = {}
    wanted = []
    names_once = [name for name, count in names.items() if count == 1]
    alterable = EVERYTHING
    if services.controller.is_active:
        alterable = context.authorized(AclOperation.ALTER, AclResourceType.TOPIC, names_once)
    for topic in request.topics:
        if not services.controller.is_active:
            outcomes[topic.name] = TopicOutcome(
                topic.name, ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster."
            )
        elif names[topic.name] > 1:
            outcomes[topic.name] = TopicOutcome(topic.name, ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
        elif topic.name not in alterable:
            outcomes[topic.name] = TopicOutcome(
                topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed."
            )
        else:
            assignments = topic.assignments
            wanted.append(
                MorePartitions(
                    topic.name,
                    topic.count,
                    None if assignments is None else [list(assignment.broker_ids) for assignment in assignments],
                )
            )
    made = await services.topics.create_partitions(
        wanted, request.timeout_ms, validate_only=bool(request.validate_only), charge=mutations.charge
    )
    outcomes.update((outcome.name, outcome) for outcome in made)
    kind = messages.CreatePartitionsResponse
    return kind(
        version=context.version,
        throttle_time_ms=mutations.throttle_time_ms,
        results=[
            kind.CreatePartitionsTopicResult(
                version=context.version,
                name=name,
                error_code=outcomes[name].error,
                error_message=outcomes[name].message,
            )
            for name in names
        ],
    )
