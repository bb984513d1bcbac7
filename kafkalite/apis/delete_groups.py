"""DeleteGroups: groups without members, and what they have committed.

Answers to: ``KafkaApis.handleDeleteGroupsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """Each group is answered for itself."""
    version = context.version
    kind = response_class(ApiKey.DELETE_GROUPS)
    outcome = await context.services.groups.admin.delete(request.groups_names)
    return kind(
        version=version,
        results=[
            kind.DeletableGroupResult(version=version, group_id=group, error_code=error)
            for group, error in outcome.items()
        ],
    )
