"""UpdateMetadata 0-8: the controller says which brokers live, and the state of partitions, for the answers to clients.

- 1: several endpoints for each broker
- 2: racks (KIP-36)
- 3: names of listeners (KIP-103)
- 4: offline replicas (KIP-112)
- 5: the broker epoch (KIP-380); partitions by topic
- 6: flexible (KIP-482)
- 7: topic ids (KIP-516)
- 8: whether the controller is one of KRaft (KIP-866)

Answers to: ``KafkaApis.handleUpdateMetadataRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.network.control_codec import read_update_metadata
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.UPDATE_METADATA, 0, 8)
async def handle(context: RequestContext, request: messages.UpdateMetadataRequest) -> messages.UpdateMetadataResponse:
    """NONE, or the error of the fences."""
    context.authorize_cluster(AclOperation.CLUSTER_ACTION)
    control = context.services.control
    answer = await control.carry_out(read_update_metadata(request, context.version), context.connection)
    return messages.UpdateMetadataResponse(version=context.version, error_code=answer.error)
