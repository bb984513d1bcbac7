"""DescribeAcls 0-3, CreateAcls 0-3 and DeleteAcls 0-3 (KIP-140).

- 1: pattern type (KIP-290); the codec reads a request of version 0 as one with literal patterns
- 2: flexible (KIP-482)
- 3: resource type USER (KIP-373)

Answers to: ``kafka.server.AclApis`` and ``org.apache.kafka.common.requests.{DescribeAclsRequest,CreateAclsRequest,
DeleteAclsRequest}``. Reactor shell.

Every broker takes changes. Without an authorizer the answer is SECURITY_DISABLED. A request with a number that this
release does not know closes the connection, as in Kafka.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final, Protocol

from kafkalite.apis.context import RequestContext
from kafkalite.apis.error_responses import code_and_message, error_response
from kafkalite.apis.registry import serves
from kafkalite.common.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolError

_NO_AUTHORIZER: Final = "No Authorizer is configured."
_NO_AUTHORIZER_TO_DESCRIBE: Final = "No Authorizer is configured on the broker"


class _Filter(Protocol):
    """A filter in the request of either API."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@serves(ApiKey.DESCRIBE_ACLS, 0, 3)
def describe(context: RequestContext, request: messages.DescribeAclsRequest) -> messages.Message:
    """The ACLs that the filter matches, by resource pattern."""
    context.authorize_cluster(AclOperation.DESCRIBE)
    authorizer = context.services.authorizer
    if authorizer is None:
        return _refused(ApiKey.DESCRIBE_ACLS, context, request, _NO_AUTHORIZER_TO_DESCRIBE)
    version = context.version
    kind = messages.DescribeAclsResponse
    make = kind.DescribeAclsResource
    bindings = sorted(authorizer.acls(_filter(request)))
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        error_message="",
        resources=[
            make(
                version=version,
                resource_type=pattern.type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[
                    make.AclDescription(
                        version=version,
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission_type,
                    )
                    for _, entry in found
                ],
            )
            for pattern, found in groupby(bindings, lambda binding: binding.pattern)
        ],
    )


@serves(ApiKey.CREATE_ACLS, 0, 3)
async def create(context: RequestContext, request: messages.CreateAclsRequest) -> messages.Message:
    """Each ACL with its error, if any, once they are kept."""
    context.authorize_cluster(AclOperation.ALTER)
    authorizer = context.services.authorizer
    if authorizer is None:
        return _refused(ApiKey.CREATE_ACLS, context, request, _NO_AUTHORIZER)
    bindings = [_binding(creation) for creation in request.creations]
    errors = {binding: error for binding in bindings if (error := _fault(binding)) is not None}
    wanted = list(dict.fromkeys(binding for binding in bindings if binding not in errors))
    outcomes = dict(zip(wanted, await authorizer.create_acls(wanted), strict=True))
    kind = messages.CreateAclsResponse
    results = []
    for binding in bindings:
        refusal = errors.get(binding) or outcomes.get(binding)
        code, message = _code_and_message(refusal) if refusal is not None else (ErrorCode.NONE, "")
        results.append(kind.AclCreationResult(version=context.version, error_code=code, error_message=message))
    return kind(version=context.version, results=results)


@serves(ApiKey.DELETE_ACLS, 0, 3)
async def delete(context: RequestContext, request: messages.DeleteAclsRequest) -> messages.Message:
    """For each filter the ACLs that it has removed."""
    context.authorize_cluster(AclOperation.ALTER)
    authorizer = context.services.authorizer
    if authorizer is None:
        return _refused(ApiKey.DELETE_ACLS, context, request, _NO_AUTHORIZER)
    version = context.version
    filters = [_filter(each) for each in request.filters]
    kind = messages.DeleteAclsResponse
    make_filter = kind.DeleteAclsFilterResult
    results = []
    for deleted in await authorizer.delete_acls(filters):
        matching = []
        for binding, error in sorted(deleted, key=lambda each: each.binding):
            code, message = _code_and_message(error)
            pattern, entry = binding
            matching.append(
                make_filter.DeleteAclsMatchingAcl(
                    version=version,
                    error_code=code,
                    error_message=message,
                    resource_type=pattern.type,
                    resource_name=pattern.name,
                    pattern_type=pattern.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission_type,
                )
            )
        results.append(
            make_filter(version=version, error_code=ErrorCode.NONE, error_message=None, matching_acls=matching)
        )
    return kind(version=version, filter_results=results)


def _filter(asked: _Filter) -> AclBindingFilter:
    _check_known(asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type)
    return AclBindingFilter(
        AclResourceType.of_code(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType.of_code(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        AclOperation.of_code(asked.operation),
        AclPermissionType.of_code(asked.permission_type),
    )


def _binding(asked: messages.CreateAclsRequest.AclCreation) -> AclBinding:
    _check_known(asked.resource_type, asked.resource_pattern_type, asked.operation, asked.permission_type)
    binding = AclBinding(
        ResourcePattern(
            AclResourceType.of_code(asked.resource_type),
            asked.resource_name,
            PatternType.of_code(asked.resource_pattern_type),
        ),
        AccessControlEntry(
            asked.principal,
            asked.host,
            AclOperation.of_code(asked.operation),
            AclPermissionType.of_code(asked.permission_type),
        ),
    )
    if (
        binding.pattern.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or AclResourceType.ANY is binding.pattern.type
        or AclOperation.ANY is binding.entry.operation
        or AclPermissionType.ANY is binding.entry.permission_type
    ):
        # Kafka cannot even make an object of it.
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return binding


def _check_known(*codes: int) -> None:
    """Check that no element is the number 0, which means unknown. Raises :class:`ProtocolError`.

    Other numbers that this release does not know match nothing, and cannot be kept.
    """
    if 0 in codes:
        raise ProtocolError("an ACL or a filter of ACLs has an unknown element")


def _fault(binding: AclBinding) -> ApiError | None:
    """Why the ACL is refused before the authorizer sees it."""
    pattern, entry = binding
    if pattern.type is AclResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return ApiError(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not pattern.name:
        return ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    if ":" not in entry.principal:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None


def _code_and_message(error: Exception | None) -> tuple[ErrorCode, str | None]:
    if error is None:
        return ErrorCode.NONE, None
    return code_and_message(error, "Changing an ACL")


def _refused(api_key: ApiKey, context: RequestContext, request: messages.Message, why: str) -> messages.Message:
    return error_response(api_key, context.version, request, ErrorCode.SECURITY_DISABLED, why)
