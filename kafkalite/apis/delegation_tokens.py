"""CreateDelegationToken 0-3, RenewDelegationToken 0-2, ExpireDelegationToken 0-2, DescribeDelegationToken 0-3 (KIP-48).

- 1: the client throttles itself (KIP-219)
- 2: flexible (KIP-482)
- 3: tokens for another owner (KIP-373)

Answers to: ``KafkaApis.handle{Create,Renew,Expire,Describe}…Token…Request``. Reactor shell.

As in Kafka, a client that has not authenticated, or has by a token, is refused.
"""

from __future__ import annotations

from typing import Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ErrorCode
from kafkalite.common.principals import ANONYMOUS, USER_TYPE, KafkaPrincipal
from kafkalite.network.request import ConnectionInfo
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.security.delegation_tokens import DelegationToken
from kafkalite.security.token_manager import TokenChange

_OWNER_FROM: Final = 3


def _may_have_tokens(connection: ConnectionInfo) -> bool:
    principal, protocol = connection.principal, connection.security_protocol
    if principal.token_authenticated or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or principal != ANONYMOUS


def _refusal(context: RequestContext) -> ErrorCode:
    """Why the client has no tokens, or NONE."""
    if not _may_have_tokens(context.connection):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.NONE if context.services.tokens.is_enabled else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@serves(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3)
async def create(
    context: RequestContext, request: messages.CreateDelegationTokenRequest
) -> messages.CreateDelegationTokenResponse:
    """A token of the client, or of another owner if the client may make such tokens."""
    requester = owner = context.connection.principal
    if context.version >= _OWNER_FROM and request.owner_principal_name:
        owner = KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)
    renewers = [KafkaPrincipal(each.principal_type, each.principal_name) for each in request.renewers]
    error = _refusal(context)
    if error is not ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
        if owner != requester and not context.authorize(AclOperation.CREATE_TOKENS, AclResourceType.USER, str(owner)):
            error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        elif any(each.type != USER_TYPE for each in renewers):
            error = ErrorCode.INVALID_PRINCIPAL_TYPE
    token = None
    if error is ErrorCode.NONE:
        token = await context.services.tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    return messages.CreateDelegationTokenResponse(
        version=context.version,
        error_code=error,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1 if token is None else token.issued_ms,
        expiry_timestamp_ms=-1 if token is None else token.expires_ms,
        max_timestamp_ms=-1 if token is None else token.max_ms,
        token_id="" if token is None else token.id,
        hmac=b"" if token is None else context.services.tokens.hmac(token),
        throttle_time_ms=0,
    )


@serves(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2)
async def renew(
    context: RequestContext, request: messages.RenewDelegationTokenRequest
) -> messages.RenewDelegationTokenResponse:
    """The new end of the token."""
    change = TokenChange(_refusal(context))
    if change.error is ErrorCode.NONE:
        change = await context.services.tokens.renew(
            context.connection.principal, bytes(request.hmac), request.renew_period_ms
        )
    return messages.RenewDelegationTokenResponse(
        version=context.version, error_code=change.error, expiry_timestamp_ms=change.expires_ms, throttle_time_ms=0
    )


@serves(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2)
async def expire(
    context: RequestContext, request: messages.ExpireDelegationTokenRequest
) -> messages.ExpireDelegationTokenResponse:
    """The new end of the token, which may be now."""
    change = TokenChange(_refusal(context))
    if change.error is ErrorCode.NONE:
        change = await context.services.tokens.expire(
            context.connection.principal, bytes(request.hmac), request.expiry_time_period_ms
        )
    return messages.ExpireDelegationTokenResponse(
        version=context.version, error_code=change.error, expiry_timestamp_ms=change.expires_ms, throttle_time_ms=0
    )


@serves(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3)
def describe(
    context: RequestContext, request: messages.DescribeDelegationTokenRequest
) -> messages.DescribeDelegationTokenResponse:
    """The tokens of the owners that were asked for (``None``: of all) that the client may see."""
    error = _refusal(context)
    client = context.connection.principal
    owners = (
        None
        if request.owners is None
        else [KafkaPrincipal(each.principal_type, each.principal_name) for each in request.owners]
    )

    def may_see(token: DelegationToken) -> bool:
        if owners is not None and not any(token.is_of(owner) for owner in owners):
            return False
        return (
            token.is_of(client)
            or context.authorize(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.id)
            or context.authorize(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, str(token.owner))
        )

    tokens = context.services.tokens.tokens(may_see) if error is ErrorCode.NONE else []
    return messages.DescribeDelegationTokenResponse(
        version=context.version,
        error_code=error,
        tokens=[_described(context, token) for token in tokens],
        throttle_time_ms=0,
    )


def _described(
    context: RequestContext, token: DelegationToken
) -> messages.DescribeDelegationTokenResponse.DescribedDelegationToken:
    kind = messages.DescribeDelegationTokenResponse.DescribedDelegationToken
    version = context.version
    return kind(
        version=version,
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=context.services.tokens.hmac(token),
        renewers=[
            kind.DescribedDelegationTokenRenewer(version=version, principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
    )
