"""DescribeConfigs 0-4 of topics and of this broker (KIP-133).

- 1: source and synonyms of each entry (KIP-226)
- 2: the client throttles itself (KIP-219)
- 3: type and documentation of each entry (KIP-569)
- 4: flexible (KIP-482)

Answers to: ``KafkaApis.handleDescribeConfigsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Final

from kafkalite.admin.config_admin import ConfigEntry, ResourceType
from kafkalite.admin.dynamic_config import ConfigSource
from kafkalite.apis.alter_resources import authorize_configs
from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_DENIED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}


@serves(ApiKey.DESCRIBE_CONFIGS, 0, 4)
async def handle(context: RequestContext, request: messages.DescribeConfigsRequest) -> messages.DescribeConfigsResponse:
    """Every resource with its entries or its error; no keys, or ``None``, asks for all."""
    kind = messages.DescribeConfigsResponse
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
            authorize_configs(context, AclOperation.DESCRIBE_CONFIGS, resource)
            entries = await context.services.configs.describe(
                resource.resource_type, resource.resource_name, resource.configuration_keys
            )
        except ApiError as error:
            result.error_code = error.code
            result.error_message = error.message or _DENIED.get(error.code)
        else:
            result.configs = [_entry(request, version, resource.resource_type, entry) for entry in entries]
        results.append(result)
    return kind(version=version, results=results)


def _entry(
    request: messages.DescribeConfigsRequest, version: int, resource_type: int, entry: ConfigEntry
) -> messages.DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult:
    make = messages.DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
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
