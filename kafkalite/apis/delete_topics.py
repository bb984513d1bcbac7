"""DeleteTopics 0-6, by the controller (KIP-4).

- 1: throttle time (KIP-124)
- 2: the client throttles itself (KIP-219)
- 3: TOPIC_DELETION_DISABLED (KIP-322)
- 4: flexible (KIP-482)
- 5: error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599)
- 6: topic ids (KIP-516)

Answers to: ``KafkaApis.handleDeleteTopicsRequest``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter

from kafkalite.apis.context import RequestContext
from kafkalite.apis.mutations import Mutations
from kafkalite.apis.registry import serves
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.DELETE_TOPICS, 0, 6)
async def handle(context: RequestContext, request: messages.DeleteTopicsRequest) -> messages.DeleteTopicsResponse:
    """Topics with their outcome, in the order of the request."""
    version, services = context.version, context.services
    kind = messages.DeleteTopicsResponse
    results = []
    if version >= 6:
        for topic in request.topics:
            results.append(
                kind.DeletableTopicResult(version=version, name=topic.name, topic_id=topic.topic_id or ZERO_UUID)
            )
    else:
        for name in request.topic_names:
            results.append(kind.DeletableTopicResult(version=version, name=name, topic_id=ZERO_UUID))
    mutations = Mutations(context, 5)
    refused = _refusal_of_all(context)
    if refused is None:
        by_name = [result.topic_id == ZERO_UUID for result in results]
        for result in results:
            _resolve(services.metadata, result)
        if services.authorizer is not None:
            _mark_denied(context, results, by_name)
        _mark_duplicates(results)
        wanted = [(result, result.name) for result in results if result.name is not None and not result.error_code]
        outcomes = await services.topics.delete(
            [name for _, name in wanted], request.timeout_ms, charge=mutations.charge
        )
        for (result, _), outcome in zip(wanted, outcomes, strict=True):
            result.error_code, result.error_message = outcome.error, outcome.message
    else:
        for result in results:
            result.error_code, result.error_message = refused
    return kind(version=version, throttle_time_ms=mutations.throttle_time_ms, responses=results)


def _refusal_of_all(context: RequestContext) -> tuple[ErrorCode, str] | None:
    if not context.services.controller.is_active:
        return ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster."
    if not context.services.api_config.delete_topic_enable:
        code = ErrorCode.INVALID_REQUEST if context.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        return code, "Topic deletion is disabled."
    return None


def _resolve(metadata: MetadataCache, result: messages.DeleteTopicsResponse.DeletableTopicResult) -> None:
    """Fill in the name of a topic that is asked for by id, and the error of one that does not exist."""
    result.error_code, result.error_message = ErrorCode.NONE, None
    if result.topic_id is not None and result.topic_id != ZERO_UUID:
        if result.name is not None:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "Topic name and topic id can not both be specified."
            return
        name = metadata.topic_name(result.topic_id)
        if name is None or name not in metadata.topics:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            result.error_message = "This server does not host this topic ID."
        else:
            result.name = name
    elif result.name is None or result.name not in metadata.topics:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result.error_message = "This server does not host this topic-partition."
    else:
        result.topic_id = metadata.topic_id(result.name)


def _mark_denied(
    context: RequestContext,
    results: list[messages.DeleteTopicsResponse.DeletableTopicResult],
    by_name: list[bool],
) -> None:
    """Set the errors of topics that the client may not delete, and take away what it may not see of them."""
    names = [result.name for result in results if result.name is not None]
    visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
    deletable = context.authorized(AclOperation.DELETE, AclResourceType.TOPIC, names)
    for result, is_named in zip(results, by_name, strict=True):
        name = result.name
        if name is None or result.error_code is ErrorCode.INVALID_REQUEST:
            continue
        if name not in deletable or (name not in visible and not is_named):
            result.error_code, result.error_message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
            if is_named:
                result.topic_id = ZERO_UUID
            elif name not in visible:
                result.name = None


def _mark_duplicates(results: list[messages.DeleteTopicsResponse.DeletableTopicResult]) -> None:
    names = Counter(result.name for result in results if result.name is not None)
    for result in results:
        if result.name is not None and names[result.name] > 1:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
