"""DescribeUserScramCredentials 0-0 and, by the controller, AlterUserScramCredentials 0-0 (KIP-554).

- 0: flexible (KIP-482)

Answers to: ``KafkaApis.handle{Describe,Alter}UserScramCredentialsRequest`` and
``ZkAdminManager.{describe,alter}UserScramCredentials``. Reactor shell.

The credentials stand in ``/config/users``, beside the quotas of the user. As in Kafka, the message of a
success is empty, not null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.security.sanitizer import desanitize, sanitize
from kafkalite.security.scram_alterations import NO_NAME, CredentialRefusal, Deletion, Upsertion, altered, refused_users
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.znodes.config import DEFAULT, USERS

_DENIED = CredentialRefusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "")
_FAILED = CredentialRefusal(
    ErrorCode.UNKNOWN_SERVER_ERROR, "Error processing describe user SCRAM credential configs request"
)


@serves(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)
async def describe(
    context: RequestContext, request: messages.DescribeUserScramCredentialsRequest
) -> messages.DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations of the users that were asked for, or of all that have credentials."""
    store = context.services.config_store
    kind = messages.DescribeUserScramCredentialsResponse
    if not context.may(AclOperation.DESCRIBE):
        return kind(
            version=context.version,
            throttle_time_ms=0,
            error_code=_DENIED.code,
            error_message=None,
            # As in Kafka, whose results have no names then.
            results=[_refused_description(context.version, "", _DENIED) for _ in request.users or ()],
        )
    asked = Counter(each.name for each in request.users or ())
    if asked:
        once = [user for user, count in asked.items() if user and count == 1]
        found = {user: await store.entity(USERS, sanitize(user)) for user in once}
    else:
        found = dict(sorted((await _users_with_credentials(store)).items()))
    results = [_described(context.version, user, overrides) for user, overrides in found.items()]
    for user, count in asked.items():
        if not user:
            results.append(
                _refused_description(context.version, user, CredentialRefusal(ErrorCode.RESOURCE_NOT_FOUND, NO_NAME))
            )
        elif count > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            results.append(
                _refused_description(context.version, user, CredentialRefusal(ErrorCode.DUPLICATE_RESOURCE, text))
            )
    return kind(
        version=context.version, throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", results=results
    )


async def _users_with_credentials(store: ConfigStore) -> dict[str, dict[str, str]]:
    return {
        desanitize(name): overrides
        for name, overrides in (await store.entities(USERS)).items()
        if name != DEFAULT and not overrides.keys().isdisjoint(SCRAM_MECHANISMS)
    }


def _described(
    version: int, user: str, overrides: Mapping[str, str]
) -> messages.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    kind = messages.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
    if overrides.keys().isdisjoint(SCRAM_MECHANISMS):
        text = f"Attempt to describe a user credential that does not exist: {user}"
        return _refused_description(version, user, CredentialRefusal(ErrorCode.RESOURCE_NOT_FOUND, text))
    try:
        infos = [
            kind.CredentialInfo(
                version=version, mechanism=mechanism.type, iterations=ScramCredential.parse(overrides[name]).iterations
            )
            for name, mechanism in SCRAM_MECHANISMS.items()
            if name in overrides
        ]
    except ValueError:
        return _refused_description(version, user, _FAILED)
    return kind(version=version, user=user, error_code=ErrorCode.NONE, error_message="", credential_infos=infos)


def _refused_description(
    version: int, user: str, refusal: CredentialRefusal
) -> messages.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    return messages.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(
        version=version, user=user, error_code=refusal.code, error_message=refusal.message or None, credential_infos=[]
    )


@serves(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0)
async def alter(
    context: RequestContext, request: messages.AlterUserScramCredentialsRequest
) -> messages.AlterUserScramCredentialsResponse:
    """Each user with an error or none; all changes of a user are made, or none of them."""
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        for each in request.upsertions
    ]
    deletions = [Deletion(each.name, each.mechanism) for each in request.deletions]
    changes: dict[str, tuple[list[Upsertion], list[Deletion]]] = {}
    for upsertion in upsertions:
        changes.setdefault(upsertion.user, ([], []))[0].append(upsertion)
    for deletion in deletions:
        changes.setdefault(deletion.user, ([], []))[1].append(deletion)
    if not context.services.controller.is_active:
        text = "This is not the correct controller for this cluster."
        return _altered(context.version, dict.fromkeys(changes, CredentialRefusal(ErrorCode.NOT_CONTROLLER, text)))
    if not context.may(AclOperation.ALTER):
        return _altered(context.version, dict.fromkeys(changes, _DENIED))
    outcomes: dict[str, CredentialRefusal | None] = dict(refused_users(upsertions, deletions))
    store = context.services.config_store
    for user, changes_of_user in changes.items():
        if user in outcomes:
            continue
        overrides = altered(await store.entity(USERS, sanitize(user)), *changes_of_user)
        outcomes[user] = None
        if overrides is None:
            text = "Attempt to delete a user credential that does not exist"
            outcomes[user] = CredentialRefusal(ErrorCode.RESOURCE_NOT_FOUND, text)
        else:
            await store.set_entity(USERS, sanitize(user), overrides)
    return _altered(context.version, outcomes)


def _altered(
    version: int, outcomes: Mapping[str, CredentialRefusal | None]
) -> messages.AlterUserScramCredentialsResponse:
    kind = messages.AlterUserScramCredentialsResponse
    return kind(
        version=version,
        throttle_time_ms=0,
        results=[
            kind.AlterUserScramCredentialsResult(
                version=version,
                user=user,
                error_code=refusal.code if refusal else ErrorCode.NONE,
                error_message=(refusal.message or None) if refusal else "",
            )
            for user, refusal in outcomes.items()
        ],
    )
