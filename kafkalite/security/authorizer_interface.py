"""The interface of an authorizer: who may do what. A class of yours takes the place of Kafka's.

Answers to: ``org.apache.kafka.server.authorizer.{Authorizer,AclDeleteResult}``. Pure.

``authorizer.class.name=house.rules:Authorizer`` in server.properties makes the broker import the module ``house.rules``
and call ``Authorizer(configs)`` with the texts of all its configuration keys. The class derives from
:class:`Authorizer`. Every method is called on the broker's reactor, so that none may block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from typing import NamedTuple

from kafkalite.common.acls import AclBinding, AclBindingFilter, AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.acl_snapshot import AclSnapshot


class DeletedAcl(NamedTuple):
    """An ACL that a filter matched; ``error`` says why it is still there, ``None`` that it is not."""

    binding: AclBinding
    error: Exception | None


class Authorizer(ABC):
    """Decides, and keeps ACLs if it has any. The broker logs what is denied."""

    @property
    def snapshot(self) -> AclSnapshot | None:
        """The state in which the authorizer decides now; the same question is not asked twice while it is current.

        ``None``: decisions are not kept, and every question is asked.
        """
        return None

    async def start(self) -> None:  # noqa: B027
        """Make ready to decide; the broker serves no request before.

        Raises :class:`kafkalite.common.errors.StartupError` with one line that says what to do.
        """

    def close(self) -> None:  # noqa: B027
        """Decide no more."""

    @abstractmethod
    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        """Whether the principal may do ``operation`` to the resource ``name`` from ``host``, an IP address as text."""

    @abstractmethod
    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType
    ) -> bool:
        """Whether there can be a resource of the type to which the principal may do ``operation`` (KIP-679)."""

    def acls(self, wanted: AclBindingFilter) -> Iterable[AclBinding]:  # noqa: ARG002
        """The ACLs that ``wanted`` matches. Raises :class:`ApiError` if there are none to list."""
        raise _without_acls()

    def create_acls(
        self,
        bindings: Sequence[AclBinding],  # noqa: ARG002
    ) -> Awaitable[Sequence[Exception | None]]:
        """Keep ``bindings``; for each in order why it is not kept, or ``None``."""
        raise _without_acls()

    def delete_acls(
        self,
        filters: Sequence[AclBindingFilter],  # noqa: ARG002
    ) -> Awaitable[Sequence[Sequence[DeletedAcl]]]:
        """Remove what ``filters`` match; for each in order its ACLs. One that several match belongs to the first."""
        raise _without_acls()


def _without_acls() -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, "The authorizer of this broker keeps no ACLs.")
