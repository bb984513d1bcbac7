"""DescribeGroups: state, members and assignments.

Answers to: ``KafkaApis.handleDescribeGroupsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

GROUP_OPERATIONS: Final = frozenset({3, 6, 8})
"""Kafka's codes of what may be done to a group: read, delete, describe."""


async def handle(context: RequestContext, request: Any) -> Any:
    """A group that does not exist is described as dead."""
    version = context.version
    kind = response_class(ApiKey.DESCRIBE_GROUPS)
    groups = []
    for found in await context.services.groups.admin.describe(request.groups):
        group = kind.DescribedGroup(
            version=version,
            error_code=found.error,
            group_id=found.group,
            group_state=found.state,
            protocol_type=found.protocol_type,
            protocol_data=found.protocol,
            members=[
                kind.DescribedGroup.DescribedGroupMember(
                    version=version,
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata,
                    member_assignment=member.assignment,
                )
                for member in found.members
            ],
        )
        if request.include_authorized_operations:
            group.authorized_operations = set(GROUP_OPERATIONS)
        groups.append(group)
    return kind(version=version, groups=groups)
