"""DescribeGroups 0-5: state, members and assignments.

- 1: throttle time (KIP-124)
- 2: the client throttles itself (KIP-219)
- 3: authorized operations (KIP-430)
- 4: group.instance.id (KIP-345)
- 5: flexible (KIP-482)

Answers to: ``KafkaApis.handleDescribeGroupsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.DESCRIBE_GROUPS, 0, 5)
async def handle(context: RequestContext, request: messages.DescribeGroupsRequest) -> messages.DescribeGroupsResponse:
    """A group that does not exist is described as dead."""
    version = context.version
    kind = messages.DescribeGroupsResponse
    visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.GROUP, request.groups)
    groups = [
        kind.DescribedGroup(
            version=version,
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            group_id=name,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        )
        for name in request.groups
        if name not in visible
    ]
    for found in await context.services.groups.admin.describe([name for name in request.groups if name in visible]):
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
        if request.include_authorized_operations and not found.error:
            group.authorized_operations = context.authorized_operations(AclResourceType.GROUP, found.group)
        groups.append(group)
    return kind(version=version, groups=groups)
