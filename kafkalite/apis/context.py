"""What a handler knows of the request besides its fields, and what its client may do.

Answers to: ``RequestContext`` of Kafka and ``kafka.server.AuthHelper``. Pure.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.common.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.network.request import ConnectionInfo
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.messages import message_name
from kafkalite.security.audit import AUDIT, audit
from kafkalite.security.decisions import Decisions

if TYPE_CHECKING:
    from kafkalite.apis.services import BrokerServices
    from kafkalite.security.authorizer_interface import Authorizer


class _Everything:
    """The names that a client may use if there is no authorizer."""

    def __contains__(self, name: object) -> bool:
        return True


EVERYTHING: Final[Container[str]] = _Everything()
_REFUSALS: Final = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@dataclass(slots=True, eq=False)
class RequestContext:
    """The broker's services, the version in which the client speaks, and the connection that it came by.

    The methods answer for the principal of the connection; without an authorizer it may do everything. What is denied
    is logged, except with ``log_denied=False``: then the client did not ask for the resource, or may do what it asks
    for by another permission.
    """

    services: BrokerServices
    version: int
    connection: ConnectionInfo
    client_id: str | None = None
    api_key: int = -1

    def authorize(
        self,
        operation: AclOperation,
        type_: AclResourceType,
        name: str,
        *,
        log_denied: bool = True,
        count: int = 1,
    ) -> bool:
        """Whether the client may do ``operation`` to the resource ``name``, which its request names ``count`` times."""
        authorizer = self.services.authorizer
        return authorizer is None or authorize(
            authorizer,
            self.connection,
            self.api_key,
            operation,
            type_,
            name,
            log_denied=log_denied,
            count=count,
        )

    def check_authorized(self, operation: AclOperation, type_: AclResourceType, name: str) -> None:
        """Check that the client may do ``operation`` to the resource ``name``.

        Raises :class:`ApiError` with the error code of the resource's type, without a message.
        """
        if not self.authorize(operation, type_, name):
            raise ApiError(_REFUSALS[type_])

    def authorized(
        self, operation: AclOperation, type_: AclResourceType, names: Iterable[str], *, log_denied: bool = True
    ) -> Container[str]:
        """Those of ``names`` to which the client may do ``operation``."""
        if self.services.authorizer is None:
            return EVERYTHING
        counts = Counter(names)
        return {
            name
            for name, count in counts.items()
            if self.authorize(operation, type_, name, log_denied=log_denied, count=count)
        }

    def may(self, operation: AclOperation, *, log_denied: bool = True) -> bool:
        """Whether the client may do ``operation`` to the cluster."""
        return self.authorize(operation, AclResourceType.CLUSTER, CLUSTER_NAME, log_denied=log_denied)

    def authorize_cluster(self, operation: AclOperation) -> None:
        """Check that the client may do ``operation`` to the cluster.

        Raises :class:`ApiError` CLUSTER_AUTHORIZATION_FAILED.
        """
        if not self.may(operation):
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{self.connection.principal} lacks {operation.name} on the cluster.",
            )

    def authorize_by_resource_type(self, operation: AclOperation, type_: AclResourceType) -> bool:
        """Whether there can be a resource of the type to which the client may do ``operation`` (KIP-679)."""
        authorizer = self.services.authorizer
        if authorizer is None:
            return True
        decisions = decisions_of(authorizer, self.connection)
        allowed = decisions.authorize_by_resource_type(operation, type_)
        if not allowed or AUDIT.isEnabledFor(logging.DEBUG):
            audit(allowed, decisions.principal, decisions.host, operation, type_, None, api_name(self.api_key), 0)
        return allowed

    def authorized_operations(self, type_: AclResourceType, name: str = CLUSTER_NAME) -> set[int]:
        """The codes of what the client may do to the resource (KIP-430). Nothing is logged, as in Kafka."""
        operations = SUPPORTED_OPERATIONS[type_]
        authorizer = self.services.authorizer
        if authorizer is not None:
            decisions = decisions_of(authorizer, self.connection)
            operations = frozenset(each for each in operations if decisions.authorize(each, type_, name))
        return {int(operation) for operation in operations}

    @property
    def view(self) -> tuple[object, ...]:
        """What an answer may be kept by, because two clients with the same view may see the same."""
        authorizer = self.services.authorizer
        return () if authorizer is None else decisions_of(authorizer, self.connection).view


def decisions_of(authorizer: Authorizer, connection: ConnectionInfo) -> Decisions:
    """What is kept of the connection's decisions; nothing is, after its principal has changed."""
    kept = connection.decisions
    if isinstance(kept, Decisions) and kept.principal is connection.principal:
        return kept
    made = connection.decisions = Decisions(authorizer, connection.principal, connection.ip)
    return made


def authorize(
    authorizer: Authorizer,
    connection: ConnectionInfo,
    api_key: int,
    operation: AclOperation,
    type_: AclResourceType,
    name: str,
    *,
    log_denied: bool = True,
    count: int = 1,
) -> bool:
    """Whether the client of ``connection`` may do ``operation`` to the resource ``name``; logs the decision."""
    decisions = decisions_of(authorizer, connection)
    allowed = decisions.authorize(operation, type_, name)
    if AUDIT.isEnabledFor(logging.DEBUG) if allowed else log_denied:
        audit(allowed, decisions.principal, decisions.host, operation, type_, name, api_name(api_key), count)
    return allowed


def api_name(api_key: int) -> str:
    """The name of an API as the audit log has it."""
    return message_name(api_key) if api_key in ApiKey._value2member_map_ else str(api_key)
