"""LeaderAndIsr 0-7: the controller says which partitions this broker leads or follows.

- 1: whether a replica is new
- 2: the broker epoch (KIP-380); partitions by topic
- 3: adding and removing replicas (KIP-455)
- 4: flexible (KIP-482)
- 5: topic ids (KIP-516); the response names topics by their ids
- 6: the leader's recovery state (KIP-704)
- 7: whether the controller is one of KRaft (KIP-866)

Answers to: ``KafkaApis.handleLeaderAndIsrRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.network.control_codec import leader_and_isr_response, read_leader_and_isr
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.LEADER_AND_ISR, 0, 7)
async def handle(context: RequestContext, request: messages.LeaderAndIsrRequest) -> messages.LeaderAndIsrResponse:
    """An error for each partition, or for the request where the fences refuse it."""
    context.authorize_cluster(AclOperation.CLUSTER_ACTION)
    control = context.services.control
    wanted = read_leader_and_isr(request, control.inter_broker_listener)
    return leader_and_isr_response(wanted, await control.carry_out(wanted, context.connection), context.version)
