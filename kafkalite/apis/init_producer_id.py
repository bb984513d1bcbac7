"""InitProducerId 0-5: an id for an idempotent producer, or the id and epoch of a transactional one (KIP-98).

- 1: the client throttles itself (KIP-219)
- 2: flexible (KIP-482)
- 3: a producer's former id and epoch (KIP-360)
- 4: PRODUCER_FENCED (KIP-588)
- 5: TRANSACTION_ABORTABLE (KIP-890)

Answers to: ``KafkaApis.handleInitProducerIdRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.apis.transaction_errors import error_for_version
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

_PRODUCER_FENCED_FROM = 4
_NOBODY = ProducerIdAndEpoch(-1, -1)


@serves(ApiKey.INIT_PRODUCER_ID, 0, 5)
async def handle(context: RequestContext, request: messages.InitProducerIdRequest) -> messages.InitProducerIdResponse:
    """Without a transactional id: a new producer id with epoch 0, also for one that had another (KIP-360), as in Kafka.

    With one: its former producer is fenced, and the transaction that it left open is aborted, both before the answer.
    """
    error, given = ErrorCode.NONE, _NOBODY
    try:
        given = await _give(context, request)
    except ApiError as refused:
        error = error_for_version(refused, context.version, _PRODUCER_FENCED_FROM).code
    return messages.InitProducerIdResponse(
        version=context.version,
        error_code=error,
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
    )


async def _give(context: RequestContext, request: messages.InitProducerIdRequest) -> ProducerIdAndEpoch:
    if request.transactional_id is not None:
        context.check_authorized(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    elif not context.may(AclOperation.IDEMPOTENT_WRITE, log_denied=False) and not context.authorize_by_resource_type(
        AclOperation.WRITE, AclResourceType.TOPIC
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    expected = None
    if context.version >= 3:
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if request.producer_id != -1:
            expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    services = context.services
    if request.transactional_id is None:
        return ProducerIdAndEpoch(await services.producer_ids.generate(), 0)
    return await services.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected
    )
