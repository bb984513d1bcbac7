"""DescribeTransactions 0-0: the state of a transaction, and its partitions (KIP-664).

- 0: flexible (KIP-482)

Answers to: ``KafkaApis.handleDescribeTransactionsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import numbers_by_topic
from kafkalite.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.zk.znodes.transactions import TransactionMetadata


@serves(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0)
async def handle(
    context: RequestContext, request: messages.DescribeTransactionsRequest
) -> messages.DescribeTransactionsResponse:
    """One answer for each id; a transaction without a timeout shows the largest number there is."""
    kind = messages.DescribeTransactionsResponse
    names = list(dict.fromkeys(request.transactional_ids))
    visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, names)
    found = await gather(_describe(context.services.transactions, name, name in visible) for name in names)
    return kind(
        version=context.version,
        transaction_states=[_state(context, name, each) for name, each in zip(names, found, strict=True)],
    )


async def _describe(coordinator: TransactionCoordinator, name: str, visible: bool) -> TransactionMetadata | ErrorCode:
    if not visible:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    try:
        return await coordinator.describe(name)
    except ApiError as error:
        return error.code


def _state(
    context: RequestContext, name: str, found: TransactionMetadata | ErrorCode
) -> messages.DescribeTransactionsResponse.TransactionState:
    version = context.version
    make = messages.DescribeTransactionsResponse.TransactionState
    if isinstance(found, ErrorCode):
        return make(version=version, transactional_id=name, error_code=found, transaction_state="")
    topics = numbers_by_topic(found.partitions)
    visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.TOPIC, topics)
    return make(
        version=version,
        error_code=ErrorCode.NONE,
        transactional_id=name,
        transaction_state=found.state.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            make.TopicData(version=version, topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
            if topic in visible
        ],
    )
