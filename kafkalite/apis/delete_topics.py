"""DeleteTopics, by the controller, by name or (version 6) by id.

Answers to: ``KafkaApis.handleDeleteTopicsRequest``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """Topics with their outcome, in the order of the request."""
    version, services = context.version, context.services
    kind = response_class(ApiKey.DELETE_TOPICS)
    results = []
    if version >= 6:
        for topic in request.topics:
            results.append(
                kind.DeletableTopicResult(version=version, name=topic.name, topic_id=topic.topic_id or ZERO_UUID)
            )
    else:
        for name in request.topic_names:
            results.append(kind.DeletableTopicResult(version=version, name=name, topic_id=ZERO_UUID))
    refused = _refusal_of_all(context)
    if refused is None:
        for result in results:
            _resolve(services.metadata, result)
        _mark_duplicates(results)
        wanted = [result for result in results if not result.error_code]
        outcomes = await services.topics.delete([result.name for result in wanted], request.timeout_ms)
        for result, outcome in zip(wanted, outcomes, strict=True):
            result.error_code, result.error_message = outcome.error, outcome.message
    else:
        for result in results:
            result.error_code, result.error_message = refused
    return kind(version=version, responses=results)


def _refusal_of_all(context: RequestContext) -> tuple[ErrorCode, str] | None:
    if not context.services.controller.is_active:
        return ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster."
    if not context.services.config["delete.topic.enable"]:
        code = ErrorCode.INVALID_REQUEST if context.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        return code, "Topic deletion is disabled."
    return None


def _resolve(metadata: Any, result: Any) -> None:
    """Fill in the name of a topic that is asked for by id, and the error of one that does not exist."""
    result.error_code, result.error_message = ErrorCode.NONE, None
    if result.topic_id != ZERO_UUID:
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
    elif result.name not in metadata.topics:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result.error_message = "This server does not host this topic-partition."
    else:
        result.topic_id = metadata.topic_id(result.name)


def _mark_duplicates(results: list[Any]) -> None:
    names = Counter(result.name for result in results if result.name is not None)
    for result in results:
        if result.name is not None and names[result.name] > 1:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
