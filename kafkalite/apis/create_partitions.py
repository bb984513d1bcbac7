"""CreatePartitions, by the controller.

Answers to: ``KafkaApis.handleCreatePartitionsRequest``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkalite.admin.topic_admin import MorePartitions, TopicOutcome
from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """Topics with their outcome, in the order of the request."""
    services = context.services
    names = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, TopicOutcome] = {}
    wanted = []
    for topic in request.topics:
        if not services.controller.is_active:
            outcomes[topic.name] = TopicOutcome(
                topic.name, ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster."
            )
        elif names[topic.name] > 1:
            outcomes[topic.name] = TopicOutcome(topic.name, ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
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
        wanted, request.timeout_ms, validate_only=bool(request.validate_only)
    )
    outcomes.update((outcome.name, outcome) for outcome in made)
    kind = response_class(ApiKey.CREATE_PARTITIONS)
    return kind(
        version=context.version,
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
