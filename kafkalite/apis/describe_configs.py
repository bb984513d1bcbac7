"""DescribeConfigs of topics and of this broker.

Answers to: ``KafkaApis.handleDescribeConfigsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.admin.config_admin import ConfigEntry, ResourceType
from kafkalite.admin.dynamic_config import ConfigSource
from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """Every resource with its entries or its error; no keys, or ``None``, asks for all."""
    kind = response_class(ApiKey.DESCRIBE_CONFIGS)
    version = context.version
    results = []
    for resource in request.resources:
        result = kind.DescribeConfigsResult(
            version=version,
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        try:
            entries = await context.services.configs.describe(
                resource.resource_type, resource.resource_name, resource.configuration_keys
            )
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            result.configs = [_entry(kind, request, version, resource.resource_type, entry) for entry in entries]
        results.append(result)
    return kind(version=version, results=results)


def _entry(kind: Any, request: Any, version: int, resource_type: int, entry: ConfigEntry) -> Any:
    make = kind.DescribeConfigsResult.DescribeConfigsResourceResult
    result = make(
        version=version,
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_sensitive=entry.sensitive,
    )
    if version == 0:
        # What the client asked about stands in ZooKeeper or it does not.
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG if resource_type == ResourceType.TOPIC else None
        result.is_default = entry.source != own if own is not None else entry.source is ConfigSource.DEFAULT_CONFIG
        return result
    result.config_source = entry.source
    result.synonyms = []
    if request.include_synonyms:
        result.synonyms = [
            make.DescribeConfigsSynonym(version=version, name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    if version >= 3:
        result.config_type = entry.type
        result.documentation = entry.documentation if request.include_documentation else None
    return result
