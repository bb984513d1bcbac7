"""ListTransactions 0-1: every transactional id that this broker coordinates (KIP-664).

- 0: flexible (KIP-482)
- 1: filter by duration (KIP-994)

Answers to: ``KafkaApis.handleListTransactionsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.LIST_TRANSACTIONS, 0, 1)
def handle(context: RequestContext, request: messages.ListTransactionsRequest) -> messages.ListTransactionsResponse:
    """Filtered by state, producer id and (from version 1 on) by how long the transaction has been open."""
    kind = messages.ListTransactionsResponse
    version = context.version
    listed, unknown = context.services.transactions.list(
        request.state_filters, request.producer_id_filters, request.duration_filter if version >= 1 else -1
    )
    names = [each.transactional_id for each in listed]
    visible = context.authorized(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, names)
    make = kind.TransactionState
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        unknown_state_filters=unknown,
        transaction_states=[
            make(
                version=version,
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.value,
            )
            for each in listed
            if each.transactional_id in visible
        ],
    )
